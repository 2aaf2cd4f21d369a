//! Files of neuron thresholds: what is written is read, and nothing else.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod common;

use common::resealed;
use proptest::prelude::*;
use zlrs_model::ModelError;
use zlrs_model::neurons::{MAX_NEURONS_BYTES, Neurons};

fn sample() -> Neurons {
    Neurons {
        weights_sha256: [7; 32],
        mask_sum: [5; 32],
        calibration_sha256: [9; 32],
        thresholds: vec![0.125, -1.0, 0.0, f32::MAX],
        report: "{\"share\": 0.3}".to_owned(),
    }
}

fn refusal(bytes: &[u8]) -> String {
    match Neurons::from_bytes(bytes) {
        Err(error @ ModelError::BadNeurons { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_written_is_read() {
    let neurons = sample();
    assert_eq!(Neurons::from_bytes(&neurons.to_bytes()).unwrap(), neurons);
}

#[test]
fn they_are_for_one_file_and_one_mask() {
    let masked = sample();
    masked.check([7; 32], Some([5; 32]), 4).unwrap();
    let plain = Neurons { mask_sum: [0; 32], ..sample() };
    plain.check([7; 32], None, 4).unwrap();
    for (sum, layers) in [([8; 32], 4), ([7; 32], 5)] {
        let refused = masked.check(sum, Some([5; 32]), layers);
        assert!(matches!(refused, Err(ModelError::MaskMismatch { .. })));
    }
    for (neurons, mask) in [(&masked, None), (&masked, Some([6; 32])), (&plain, Some([5; 32]))] {
        let error = neurons.check([7; 32], mask, 4).unwrap_err();
        assert!(matches!(error, ModelError::BadNeurons { .. }), "{error}");
        assert!(error.to_string().contains("another mask"), "{error}");
    }
}

/// As files were before they knew of masks.
fn version_1() -> Vec<u8> {
    let mut bytes = sample().to_bytes();
    bytes[8] = 1;
    bytes.drain(52..84);
    resealed(bytes)
}

#[test]
fn a_file_of_version_1_was_measured_without_a_mask() {
    let read = Neurons::from_bytes(&version_1()).unwrap();
    assert_eq!(read, Neurons { mask_sum: [0; 32], ..sample() });
    let bytes = version_1();
    for index in 0..bytes.len() {
        refusal(&bytes[..index]);
    }
    // The number of one version with the header of the other.
    let mut bytes = sample().to_bytes();
    bytes[8] = 1;
    assert!(refusal(&resealed(bytes)).contains("do not fill"));
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
    refusal(&vec![0; MAX_NEURONS_BYTES + 1]);
}

#[test]
fn a_sealed_lie_is_refused() {
    let bytes = sample().to_bytes();
    let with = |at: usize, four: [u8; 4]| {
        let mut bytes = bytes.clone();
        bytes[at..at + 4].copy_from_slice(&four);
        refusal(&resealed(bytes))
    };
    assert!(with(8, 3_u32.to_le_bytes()).contains("version is 3"));
    assert!(with(12, u32::MAX.to_le_bytes()).contains("layers"));
    assert!(with(12, 3_u32.to_le_bytes()).contains("do not fill"));
    assert!(with(16, u32::MAX.to_le_bytes()).contains("report"));
    assert!(with(116, f32::NAN.to_le_bytes()).contains("not finite"));
    assert!(with(116, f32::INFINITY.to_le_bytes()).contains("not finite"));
    assert!(with(132, [0xff; 4]).contains("UTF-8"));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        seal in any::<bool>(),
        version in 1_u32..=2,
    ) {
        let mut bytes = bytes;
        if seal && bytes.len() > 44 {
            bytes[..8].copy_from_slice(b"ZLRSNEUR");
            bytes[8..12].copy_from_slice(&version.to_le_bytes());
            bytes = resealed(bytes);
        }
        if let Ok(neurons) = Neurons::from_bytes(&bytes) {
            let again = neurons.to_bytes();
            prop_assert_eq!(&Neurons::from_bytes(&again).unwrap(), &neurons);
            prop_assert!(version == 1 || again == bytes);
        }
    }
}
