//! Files of exit heads: what is written is read, and nothing else.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

use proptest::prelude::*;
use zlrs_engine::exit::{ExitError, ExitHeads, HEAD_WEIGHTS, Head, MAX_EXIT_BYTES, Probe};

/// Bytes before the shortlist.
const FIRST: usize = 8 + 7 * 4 + 96;

fn sample() -> ExitHeads {
    let head = |seed: f32| {
        let weights: Vec<f32> = (0..HEAD_WEIGHTS).map(|index| index as f32 * 0.01 - seed).collect();
        Head::from_weights(&weights).unwrap()
    };
    ExitHeads {
        weights_sha256: [7; 32],
        mask_sum: [0; 32],
        calibration_sha256: [9; 32],
        layers: 24,
        vocabulary: 100,
        width: 3,
        shortlist: vec![3, 99, 0],
        probes: vec![
            Probe { layer: 12, head: head(0.5), shift: vec![1.0, -2.0, 0.5], threshold: None },
            Probe { layer: 20, head: head(-0.5), shift: vec![0.0; 3], threshold: Some(-3.5) },
        ],
        report: "{\"bound\": 0.01}".to_owned(),
    }
}

/// The bytes with a sum that is right again.
fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(bytes.len() - 32);
    let sum = blake3::hash(&bytes);
    bytes.extend(sum.as_bytes());
    bytes
}

fn refusal(bytes: &[u8]) -> String {
    match ExitHeads::from_bytes(bytes) {
        Err(error @ ExitError::Invalid { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

fn with(change: impl FnOnce(&mut ExitHeads)) -> String {
    let mut heads = sample();
    change(&mut heads);
    refusal(&heads.to_bytes())
}

#[test]
fn what_is_written_is_read() {
    let heads = sample();
    assert_eq!(ExitHeads::from_bytes(&heads.to_bytes()).unwrap(), heads);
    assert!(heads.is_active());
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
    assert!(refusal(&vec![0; MAX_EXIT_BYTES + 1]).contains("the limit is"));
}

#[test]
fn hostile_numbers_are_refused_before_memory_is_taken() {
    let bytes = sample().to_bytes();
    let names = ["version", "layers", "tokens", "width", "shortlist", "leave before", "report"];
    for (index, what) in names.into_iter().enumerate() {
        let mut hostile = bytes.clone();
        hostile[8 + 4 * index..12 + 4 * index].fill(0xff);
        let message = refusal(&resealed(hostile));
        assert!(message.contains(what), "{message}");
    }
    let mut hostile = bytes;
    hostile[FIRST..FIRST + 4].fill(0xff);
    assert!(refusal(&resealed(hostile)).contains("a token of the shortlist"));
}

#[test]
fn heads_are_finite_and_in_order() {
    assert!(with(|heads| heads.probes[1].head.output_bias = f32::NAN).contains("not finite"));
    assert!(with(|heads| heads.probes[0].shift[2] = f32::INFINITY).contains("not finite"));
    assert!(with(|heads| heads.probes[1].threshold = Some(f32::INFINITY)).contains("not finite"));
    assert!(with(|heads| heads.probes[1].layer = 12).contains("ascending"));
    assert!(with(|heads| heads.probes[0].layer = 0).contains("the first layer"));
    assert!(with(|heads| heads.probes[1].layer = 24).contains("the limit is 23"));
    assert!(with(|heads| heads.shortlist = vec![100]).contains("the limit is 99"));
}

#[test]
fn heads_of_another_model_are_refused() {
    let heads = sample();
    heads.check([7; 32], None, [24, 100, 3]).unwrap();
    assert!(matches!(heads.check([8; 32], None, [24, 100, 3]), Err(ExitError::Mismatch { .. })));
    assert!(matches!(heads.check([7; 32], None, [23, 100, 3]), Err(ExitError::Invalid { .. })));
    assert!(matches!(heads.check([7; 32], Some([1; 32]), [24, 100, 3]), Err(ExitError::Invalid { .. })));
    assert!(matches!(heads.check([7; 32], None, [24, 100, 4]), Err(ExitError::Invalid { .. })));
    assert!(matches!(heads.check([7; 32], None, [24, 101, 3]), Err(ExitError::Invalid { .. })));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000), keep: u8) {
        let sample = sample().to_bytes();
        let mut all = sample[..usize::from(keep).min(sample.len())].to_vec();
        all.extend(bytes);
        all.extend([0; 32]);
        let _ = ExitHeads::from_bytes(&resealed(all));
    }

    #[test]
    fn a_changed_number_is_refused_or_read_as_it_stands(place in 8_usize..1700, byte: u8) {
        let mut bytes = sample().to_bytes();
        let place = place % (bytes.len() - 32);
        bytes[place] = byte;
        let bytes = resealed(bytes);
        if let Ok(heads) = ExitHeads::from_bytes(&bytes) {
            prop_assert_eq!(heads.to_bytes(), bytes);
        }
    }
}
