//! Mask files: what is written is read, and nothing else.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod common;

use common::resealed;
use proptest::prelude::*;
use zlrs_model::ModelError;
use zlrs_model::mask::{LayerMask, Mask};

fn sample() -> Mask {
    let layer = |attention: bool, mlp: bool| LayerMask {
        kv_heads: 2,
        attention,
        mlp,
        heads: vec![false, true, false, false],
        attention_constant: attention.then(|| vec![1.0, -2.0, 0.5]),
        mlp_constant: mlp.then(|| vec![0.0, f32::MIN_POSITIVE, 3.0]),
    };
    Mask {
        weights_sha256: [7; 32],
        calibration_sha256: [9; 32],
        width: 3,
        layers: vec![layer(false, false), layer(true, false), layer(false, true)],
        report: "{\"kl\": 0.01}".to_owned(),
    }
}

fn refusal(bytes: &[u8]) -> String {
    match Mask::from_bytes(bytes) {
        Err(error @ ModelError::BadMask { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_written_is_read() {
    let mask = sample();
    assert_eq!(Mask::from_bytes(&mask.to_bytes()).unwrap(), mask);
}

#[test]
fn a_damaged_byte_or_a_missing_end_is_refused() {
    let bytes = sample().to_bytes();
    for index in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[index] ^= 1;
        refusal(&damaged);
        refusal(&bytes[..index]);
    }
    refusal(&[bytes.as_slice(), &[0]].concat());
}

#[test]
fn hostile_numbers_are_refused_before_memory_is_taken() {
    let bytes = sample().to_bytes();
    for (offset, what) in
        [(8, "version"), (12, "layers"), (16, "the width"), (20, "report"), (24, "constants")]
    {
        let mut hostile = bytes.clone();
        hostile[offset..offset + 4].fill(0xff);
        let message = refusal(&resealed(hostile));
        assert!(message.contains(what), "{message}");
    }
}

#[test]
fn constants_are_finite_and_stand_for_something() {
    let mut mask = sample();
    mask.layers[1].attention_constant = Some(vec![f32::NAN; 3]);
    assert!(refusal(&mask.to_bytes()).contains("not finite"));
    let mut mask = sample();
    mask.layers[0].mlp_constant = Some(vec![0.0; 3]);
    assert!(refusal(&mask.to_bytes()).contains("a part that it keeps"));
}

#[test]
fn groups_must_divide_the_heads() {
    let mut mask = sample();
    mask.layers[0].kv_heads = 3;
    assert!(refusal(&mask.to_bytes()).contains("4 heads in 3 groups"));
}

#[test]
fn bits_behind_the_last_part_are_refused() {
    let bytes = sample().to_bytes();
    // Three layers of two blocks and four heads: 18 bits, so the third byte has six to spare.
    let last_bits = 8 + 5 * 4 + 64 + 3 * 4 + 2;
    let mut hostile = bytes;
    hostile[last_bits] |= 0x80;
    assert!(refusal(&resealed(hostile)).contains("behind the last part"));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), keep_head: bool) {
        let mut all = if keep_head { sample().to_bytes()[..28].to_vec() } else { Vec::new() };
        all.extend(bytes);
        all.extend([0; 32]);
        let _ = Mask::from_bytes(&resealed(all));
    }
}
