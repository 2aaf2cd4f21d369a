//! Weights and the largest logit are the same bits on every instruction set.
#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

use proptest::prelude::*;
use zlrs_kernels::{Isa, largest, naive, weights};

fn isas() -> impl Iterator<Item = Isa> {
    Isa::ALL.into_iter().filter(|isa| isa.is_available())
}

proptest! {
    #[test]
    fn weights_are_those_of_the_plain_code(
        logits in proptest::collection::vec(-2000.0_f32..=50.0, 0..200), temperature in 0.001_f32..=2.0,
    ) {
        let expected: Vec<u64> = logits
            .iter()
            .map(|&logit| naive::draw::exponential((f64::from(logit) - 50.0) / f64::from(temperature)).to_bits())
            .collect();
        for isa in isas() {
            let mut out = vec![0.0; logits.len()];
            weights(isa, &logits, 50.0, temperature, &mut out);
            prop_assert_eq!(out.iter().map(|weight| weight.to_bits()).collect::<Vec<_>>(), expected.clone());
        }
    }

    #[test]
    fn the_largest_is_found_and_what_is_not_finite_seen(
        mut logits in proptest::collection::vec(-1e38_f32..=1e38, 0..100),
        bad in proptest::option::of((any::<proptest::sample::Index>(), 0_usize..3)),
    ) {
        if let Some((index, kind)) = bad.filter(|_| !logits.is_empty()) {
            let at = index.index(logits.len());
            logits[at] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][kind];
        }
        let finite = !logits.is_empty() && logits.iter().all(|logit| logit.is_finite());
        let expected = finite.then(|| logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        for isa in isas() {
            prop_assert_eq!(largest(isa, &logits), expected);
        }
    }
}
