//! Whole loads: synthetic models of every architecture and type, damaged sources, masks.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod common;

use std::sync::Mutex;

use zlrs_kernels::{Isa, Pool, TensorType};
use zlrs_model::ModelError;
use zlrs_model::decoder::{Architecture, Decoder};
use zlrs_model::gguf::File;
use zlrs_model::source::TensorSource;
use zlrs_model::synthetic::{Settings, Types, model};
use zlrs_model::weights::Weights;

fn load(file: &File) -> Result<(Decoder, Weights), ModelError> {
    let decoder = Decoder::from_metadata(file.metadata(), file)?;
    let pool = Pool::new(2).unwrap();
    let weights = Weights::load(&decoder, file, Isa::detect(), &pool, &|_, _| {})?;
    Ok((decoder, weights))
}

#[test]
fn every_architecture_and_type_loads() {
    for architecture in Architecture::ALL {
        for types in TensorType::ALL.map(Types::One).into_iter().chain([Types::Mixed]) {
            let settings = Settings { architecture, types, ..Settings::default() };
            let file = common::synthetic(&settings);
            let (decoder, weights) = load(&file).unwrap();
            assert_eq!(decoder.layers.len(), 2);
            assert_eq!(weights.layers.len(), 2);
            assert_eq!(weights.output.is_none(), decoder.tied_head);
            let attention = weights.layers[1].attention.as_ref().unwrap();
            assert_eq!(attention.query.bias.is_some(), architecture == Architecture::Qwen2);
            assert_eq!(attention.query_norm.is_some(), architecture.qk_norm());
            assert_eq!(attention.post_norm.is_some(), architecture.post_norms());
            assert_eq!((attention.key.matrix.rows(), attention.key.matrix.cols()), (128, 256));
        }
    }
}

/// Every type but the packed ones can be decoded here plainly, from the file's own bytes.
#[test]
fn loaded_rows_are_the_files_rows() {
    for tensor_type in [TensorType::F32, TensorType::Q8_0] {
        let settings = Settings { types: Types::One(tensor_type), ..Settings::default() };
        let file = common::synthetic(&settings);
        let (_, weights) = load(&file).unwrap();
        let info = file.info("token_embd.weight").unwrap();
        let mut decoded = vec![0.0; info.cols];
        for row in [0, 1, 7, 8, info.rows - 1] {
            let mut bytes = vec![0; info.row_bytes];
            file.read(info, (row * info.row_bytes) as u64, &mut bytes).unwrap();
            let expected: Vec<f32> = match tensor_type {
                TensorType::F32 => {
                    bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
                }
                _ => bytes
                    .chunks_exact(34)
                    .flat_map(|block| {
                        let scale = half::f16::from_le_bytes([block[0], block[1]]).to_f32();
                        block[2..].iter().map(move |&quant| scale * f32::from(quant as i8))
                    })
                    .collect(),
            };
            weights.embedding.decode_row(row, &mut decoded).unwrap();
            assert_eq!(decoded, expected, "{tensor_type} row {row}");
        }
    }
}

#[test]
fn the_head_is_tied_when_the_file_has_none() {
    let file = common::synthetic(&Settings { tied_head: true, ..Settings::default() });
    let (decoder, weights) = load(&file).unwrap();
    assert!(decoder.tied_head && weights.output.is_none());
    assert!(std::ptr::eq(weights.head(), &raw const weights.embedding));
}

#[test]
fn packed_weights_take_about_the_files_bytes() {
    let file = common::synthetic(&Settings::default());
    let (_, weights) = load(&file).unwrap();
    let data: u64 = file.tensors().iter().map(|tensor| tensor.bytes).sum();
    assert!((weights.bytes() as f64) < 1.1 * data as f64, "{} of {data}", weights.bytes());
}

#[test]
fn an_emptied_part_is_not_loaded() {
    let file = common::synthetic(&Settings::default());
    let mut decoder = Decoder::from_metadata(file.metadata(), &file).unwrap();
    let full = decoder.tensors().len();
    decoder.layers[0].attention = None;
    decoder.layers[1].mlp = None;
    assert_eq!(decoder.tensors().len(), full - 5 - 4);
    let pool = Pool::new(1).unwrap();
    let weights = Weights::load(&decoder, &file, Isa::Naive, &pool, &|_, _| {}).unwrap();
    assert!(weights.layers[0].attention.is_none() && weights.layers[0].mlp.is_some());
    assert!(weights.layers[1].attention.is_some() && weights.layers[1].mlp.is_none());
}

#[test]
fn progress_ends_with_everything() {
    let file = common::synthetic(&Settings::default());
    let decoder = Decoder::from_metadata(file.metadata(), &file).unwrap();
    let pool = Pool::new(2).unwrap();
    let calls = Mutex::new(Vec::new());
    Weights::load(&decoder, &file, Isa::detect(), &pool, &|done, total| {
        calls.lock().unwrap().push((done, total));
    })
    .unwrap();
    let calls = calls.into_inner().unwrap();
    let total: u64 = file.tensors().iter().map(|tensor| tensor.bytes).sum();
    assert_eq!(calls.first(), Some(&(0, total)));
    assert_eq!(calls.last(), Some(&(total, total)));
    assert!(calls.len() > 20 && calls.iter().all(|&(done, of)| done <= of && of == total));
    // Every byte is read once: the call before the last already says so.
    assert_eq!(calls[calls.len() - 2].0, total);
}

#[test]
fn a_file_that_shrinks_gives_an_error() {
    let bytes = model(&Settings::default());
    let handle = common::file_of(&bytes);
    let file = File::open(handle.path()).unwrap();
    let decoder = Decoder::from_metadata(file.metadata(), &file).unwrap();
    let end = bytes.len() as u64 / 2;
    std::fs::OpenOptions::new().write(true).open(handle.path()).unwrap().set_len(end).unwrap();
    let pool = Pool::new(2).unwrap();
    let error = Weights::load(&decoder, &file, Isa::detect(), &pool, &|_, _| {}).err().unwrap();
    assert!(matches!(error, ModelError::Pack { .. } | ModelError::Io { .. }), "{error}");
    assert!(error.to_string().contains("shorter"), "{error}");
    assert!(matches!(file.check_unchanged().unwrap_err().cause(), ModelError::Changed { .. }));
    assert!(matches!(file.sha256().unwrap_err().cause(), ModelError::Changed { .. }));
}

#[test]
fn real_models_load_within_their_size() {
    for name in [common::SMOLLM2, common::QWEN] {
        let Some(path) = common::real_model(name) else { continue };
        let file = File::open(&path).unwrap();
        let (decoder, weights) = load(&file).unwrap();
        assert!((weights.bytes() as f64) < 1.01 * file.bytes() as f64);
        let attention = weights.layers[0].attention.as_ref().unwrap();
        match decoder.architecture {
            Architecture::Llama => assert!(decoder.tied_head && attention.query.bias.is_none()),
            _ => assert!(!decoder.tied_head && attention.query.bias.is_some()),
        }
    }
}
