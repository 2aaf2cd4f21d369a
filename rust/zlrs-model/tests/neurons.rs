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
    assert!(neurons.check([7; 32], 4).is_ok());
    for (sum, layers) in [([8; 32], 4), ([7; 32], 5)] {
        assert!(matches!(neurons.check(sum, layers), Err(ModelError::MaskMismatch { .. })));
    }
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
    assert!(with(8, 2_u32.to_le_bytes()).contains("version is 2"));
    assert!(with(12, u32::MAX.to_le_bytes()).contains("layers"));
    assert!(with(12, 3_u32.to_le_bytes()).contains("do not fill"));
    assert!(with(16, u32::MAX.to_le_bytes()).contains("report"));
    assert!(with(84, f32::NAN.to_le_bytes()).contains("not finite"));
    assert!(with(84, f32::INFINITY.to_le_bytes()).contains("not finite"));
    assert!(with(100, [0xff; 4]).contains("UTF-8"));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400), seal in any::<bool>()) {
        let mut bytes = bytes;
        if seal && bytes.len() > 44 {
            bytes[..8].copy_from_slice(b"ZLRSNEUR");
            bytes[8..12].copy_from_slice(&1_u32.to_le_bytes());
            bytes = resealed(bytes);
        }
        if let Ok(neurons) = Neurons::from_bytes(&bytes) {
            prop_assert_eq!(neurons.to_bytes(), bytes);
        }
    }
}
