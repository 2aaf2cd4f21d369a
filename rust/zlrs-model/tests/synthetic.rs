//! The model writer is deterministic, and its weights are plausible.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod common;

use zlrs_kernels::{Isa, Pool, TensorType};
use zlrs_model::decoder::{Architecture, Decoder};
use zlrs_model::synthetic::{Settings, Types, model};
use zlrs_model::weights::Weights;

#[test]
fn the_same_settings_give_the_same_bytes() {
    let settings = Settings::default();
    assert_eq!(model(&settings), model(&settings));
    assert_ne!(model(&settings), model(&Settings { seed: 2, ..settings.clone() }));
    // The bytes are part of what other tests rely on; a change here changes their expectations too.
    let file = common::synthetic(&settings);
    assert_eq!(file.sha256().unwrap(), "6a5965708145b4c8c26ad85fb0205db966de47f052ef3c01c762e9e3d07a2747");
}

#[test]
fn a_mix_has_every_type() {
    let file = common::synthetic(&Settings::default());
    for wanted in TensorType::ALL {
        assert!(file.tensors().iter().any(|tensor| tensor.tensor_type == wanted), "{wanted}");
    }
}

/// Rows of every type have about the deviation they were made for, and no outliers that would hide errors.
#[test]
fn weights_of_every_type_spread_alike() {
    for tensor_type in TensorType::ALL {
        let settings = Settings { types: Types::One(tensor_type), ..Settings::default() };
        let file = common::synthetic(&settings);
        let decoder = Decoder::from_metadata(file.metadata(), &file).unwrap();
        let pool = Pool::new(1).unwrap();
        let weights = Weights::load(&decoder, &file, Isa::Naive, &pool, &|_, _| {}).unwrap();
        let matrix = &weights.embedding;
        let mut values = Vec::new();
        for row in 0..matrix.rows() {
            let mut decoded = vec![0.0; matrix.cols()];
            matrix.decode_row(row, &mut decoded).unwrap();
            values.extend(decoded);
        }
        let count = values.len() as f32;
        let mean = values.iter().sum::<f32>() / count;
        let deviation = (values.iter().map(|value| (value - mean).powi(2)).sum::<f32>() / count).sqrt();
        let wanted = 1.0 / 16.0;
        assert!(mean.abs() < 0.3 * wanted, "{tensor_type}: mean {mean}");
        assert!((0.5..2.0).contains(&(deviation / wanted)), "{tensor_type}: deviation {deviation}");
        assert!(values.iter().all(|value| value.abs() < 12.0 * wanted), "{tensor_type}");
    }
}

#[test]
fn other_shapes_are_described_too() {
    let settings = Settings {
        architecture: Architecture::Qwen3,
        layers: 3,
        width: 512,
        mlp_width: 768,
        heads: 8,
        kv_heads: 1,
        tied_head: true,
        ..Settings::default()
    };
    let file = common::synthetic(&settings);
    let decoder = Decoder::from_metadata(file.metadata(), &file).unwrap();
    assert_eq!((decoder.layers.len(), decoder.width, decoder.tied_head), (3, 512, true));
}
