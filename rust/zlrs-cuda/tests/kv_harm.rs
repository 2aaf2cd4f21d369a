//! What keys and values of 8 and 4 bits do to the predictions of a real model: the divergence from f16 and how often
//! the likeliest token stays the same, on the text of this project's documentation. Computed by the processor, block
//! by block, with the reference of the sealed form between the steps: what a GPU computes with them.
//!
//!     ZLRS_TEST_MODEL=FILE cargo test --release -p zlrs-cuda --test kv_harm -- --ignored --nocapture
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a measurement may fail anywhere"
)]

use std::path::{Path, PathBuf};

use zlrs_engine::Compute;
use zlrs_engine::backend::Backend;
use zlrs_engine::cpu::{CpuBackend, kv_layout};
use zlrs_engine::kv::BLOCK_TOKENS;
use zlrs_engine::plan::{KvPrecision, Plan, Row};
use zlrs_kernels::naive::sealed::{CodeBits, open_keys, open_values, seal_keys, seal_values};
use zlrs_kernels::{Isa, KvLayout, Pool};
use zlrs_model::decoder::Decoder;
use zlrs_model::gguf::File;
use zlrs_model::tokenizer::{Segment, Tokenizer};
use zlrs_model::weights::Weights;

const WINDOW: usize = 512;
const WINDOWS: usize = 4;
const BLOCKS: usize = WINDOW / BLOCK_TOKENS;
const TEXTS: [&str; 4] = ["numerics.md", "decision-graph.md", "serving.md", "threat-model.md"];
const PRECISIONS: [KvPrecision; 3] = [KvPrecision::F16, KvPrecision::Q8, KvPrecision::Q4];

fn model_file() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("ZLRS_TEST_MODEL") {
        return Some(path.into());
    }
    let home = std::env::var_os("ZLRS_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cache/zlrs")))?;
    let folder = std::fs::read_dir(home.join("models")).ok()?;
    let mut files = folder.filter_map(|entry| Some(entry.ok()?.path()));
    files.find(|path| path.to_string_lossy().to_lowercase().contains("smollm2-135m"))
}

/// A block as it is once its f16 numbers have been sealed and are read again.
fn sealed(layout: &KvLayout, precision: KvPrecision, block: &mut [u8]) {
    let with = || layout.layers.iter().enumerate().filter(|(_, layer)| layer.kv_heads > 0);
    let edges = [with().next().unwrap().0, with().next_back().unwrap().0];
    for (index, layer) in with() {
        let bytes = precision == KvPrecision::Q8 || edges.contains(&index);
        let bits = if bytes { CodeBits::Eight } else { CodeBits::Four };
        let len = BLOCK_TOKENS * layer.head_dim;
        for head in 0..2 * layer.kv_heads {
            let of_keys = head < layer.kv_heads;
            let offset = if of_keys { layer.key_offset } else { layer.value_offset };
            let first = 2 * (offset + head % layer.kv_heads * len);
            let place = &mut block[first..first + 2 * len];
            let mut halves: Vec<u16> =
                place.chunks_exact(2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]])).collect();
            let mut region = vec![0; 2 * len];
            if of_keys {
                seal_keys(bits, &halves, &mut region);
                open_keys(bits, &region, &mut halves);
            } else {
                seal_values(bits, &halves, &mut region);
                open_values(bits, &region, &mut halves);
            }
            for (bytes, half) in place.chunks_exact_mut(2).zip(halves) {
                bytes.copy_from_slice(&half.to_le_bytes());
            }
        }
    }
}

fn likeliest(logits: &[f32]) -> usize {
    logits.iter().enumerate().fold(0, |best, (index, &logit)| if logit > logits[best] { index } else { best })
}

/// Divergence of `found` from `reference`, in nats.
fn divergence(reference: &[f32], found: &[f32]) -> f64 {
    let total = |logits: &[f32]| {
        let largest = f64::from(logits[likeliest(logits)]);
        logits.iter().map(|&logit| (f64::from(logit) - largest).exp()).sum::<f64>().ln() + largest
    };
    let (p, q) = (total(reference), total(found));
    reference
        .iter()
        .zip(found)
        .map(|(&a, &b)| {
            let (a, b) = (f64::from(a) - p, f64::from(b) - q);
            a.exp() * (a - b)
        })
        .sum()
}

#[test]
#[ignore = "a measurement: needs a model, takes minutes"]
fn harm_of_lower_precision() {
    let Some(path) = model_file() else {
        println!("no model file: set ZLRS_TEST_MODEL");
        return;
    };
    let file = File::open(&path).unwrap();
    let decoder = Decoder::from_metadata(file.metadata(), &file).unwrap();
    let tokenizer = Tokenizer::from_metadata(file.metadata()).unwrap();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let text: String = TEXTS.iter().map(|name| std::fs::read_to_string(docs.join(name)).unwrap()).collect();
    let ids = tokenizer.encode_prompt(&[Segment::text(&text)]);
    let isa = Isa::select().unwrap();
    let pool = Pool::new(std::thread::available_parallelism().unwrap().get()).unwrap();
    let weights = Weights::load(&decoder, &file, isa, &pool, &|_, _| {}).unwrap();
    let layout = kv_layout(&decoder).unwrap();
    let vocabulary = decoder.vocabulary;
    let blocks = PRECISIONS.len() * BLOCKS;
    let mut backend = CpuBackend::new(decoder, weights, isa, pool, WINDOW, blocks).unwrap();

    let (mut sums, mut same, mut rows) = ([0.0; 3], [0_usize; 3], 0);
    for window in ids.chunks_exact(WINDOW).take(WINDOWS) {
        for (block, tokens) in window.chunks_exact(BLOCK_TOKENS).enumerate() {
            let mut reference = Vec::new();
            for (variant, &precision) in PRECISIONS.iter().enumerate() {
                let table: Vec<u32> = (0..=block).map(|index| (variant * BLOCKS + index) as u32).collect();
                let mut plan = Plan::default();
                let sequence = plan.add_sequence(&table);
                for (offset, &token) in tokens.iter().enumerate() {
                    let position = (block * BLOCK_TOKENS + offset) as u32;
                    plan.add_row(Row {
                        token,
                        position,
                        sequence,
                        wants_logits: true,
                        compute: Compute::Exact,
                    });
                }
                let logits = backend.step(&plan, &|| false).unwrap().to_vec();
                if precision == KvPrecision::F16 {
                    reference = logits;
                    rows += tokens.len();
                    continue;
                }
                let pairs = reference.chunks_exact(vocabulary).zip(logits.chunks_exact(vocabulary));
                for (reference, found) in pairs {
                    sums[variant] += divergence(reference, found);
                    same[variant] += usize::from(likeliest(reference) == likeliest(found));
                }
                let mut bytes = Vec::new();
                backend.read_block(table[block], &mut bytes).unwrap();
                sealed(&layout, precision, &mut bytes);
                backend.write_block(table[block], &bytes).unwrap();
            }
        }
    }
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    for (variant, precision) in PRECISIONS.iter().enumerate().skip(1) {
        let (mean, share) = (sums[variant] / rows as f64, same[variant] as f64 / rows as f64);
        println!(
            "{name} {}: divergence {mean:.6} nats, top-1 agreement {share:.4}, {rows} rows",
            precision.name()
        );
        assert!(mean.is_finite() && mean >= 0.0 && share > 0.5, "{mean} {share}");
    }
    assert!(sums[1] < sums[2], "8 bits do more harm than 4");
}
