//! The three-pass attention that the fused one is measured against computes the same, up to the order of sums; what
//! cannot be measured is refused.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod support;

use support::{Host, Order};
use zlrs_cuda::{AttentionShape, measure};
use zlrs_engine::clock::SystemClock;

#[test]
fn both_attentions_agree() {
    for (heads, kv_heads, head_dim, depth) in [(4, 2, 32, 700), (9, 1, 80, 33), (1, 1, 2, 1)] {
        let shape = AttentionShape { heads, kv_heads, head_dim, depth };
        let found = measure(Host::new(Order::Shuffled), &SystemClock::default(), shape, 5, 1).unwrap();
        let [fused, unfused] = &found.outputs;
        assert_eq!(fused.len(), heads * head_dim);
        for (left, right) in fused.iter().zip(unfused) {
            assert!((left - right).abs() < 1e-5 && left.abs() > 1e-6, "{left} {right} {shape:?}");
        }
        assert!(found.fused > 0.0 && found.unfused > 0.0 && found.exit_head > 0.0);
    }
}

#[test]
fn shapes_that_are_none_are_refused() {
    for (heads, kv_heads, head_dim, depth) in [(3, 2, 32, 7), (2, 2, 31, 7), (2, 2, 32, 0), (0, 0, 32, 7)] {
        let shape = AttentionShape { heads, kv_heads, head_dim, depth };
        assert!(measure(Host::new(Order::Ascending), &SystemClock::default(), shape, 1, 1).is_err());
    }
}
