//! The engine's logits against candle's own implementation (quantised; for Gemma 3 in single precision), on real
//! models and real prompts.
//!
//! Both quantise activations, differently (candle rounds a block's scale to f16, we keep f32), so logits differ
//! a little and the argmax may differ where two tokens are close. The bound: wherever candle's margin between
//! its best two tokens exceeds `MARGIN`, the engine chooses the same token. The measured difference is printed.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test: it fails on errors and prints what it measured"
)]

use std::path::PathBuf;

use zlrs_engine::Compute;
use zlrs_engine::backend::Backend;
use zlrs_engine::cpu::CpuBackend;
use zlrs_engine::kv::{Arena, Sequence};
use zlrs_engine::plan::{Plan, Row};
use zlrs_kernels::{Isa, Pool};
use zlrs_model::decoder::Decoder;
use zlrs_model::gguf::File;
use zlrs_model::tokenizer::{Segment, Tokenizer};
use zlrs_model::weights::Weights;
use zlrs_train::reference::Reference;

/// Margin of candle's logits above which the top token must agree.
const MARGIN: f32 = 0.75;
/// Largest root mean square difference of the logits, relative to their own spread. Against candle with its
/// weights dequantised (`CANDLE_DEQUANTIZE_ALL=1`) the difference is of the same size: it is the rounding of
/// activations to 8 bits, which both do, and grows with depth and on small models.
const RELATIVE_RMS: f64 = 0.15;

const PROMPTS: [&str; 4] = [
    "The river rises in the mountains and flows north through three countries before it reaches",
    "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n    if n < 2:\n        return n\n",
    "Question: A train leaves at 14:05 and arrives at 16:20. How long does the journey take?\nAnswer: The journey",
    "Die Bücherei öffnet montags um neun Uhr. 图书馆星期一九点开门。 The library opens on Monday at",
];

/// The model's file where it has been fetched.
fn fetched(name: &str) -> Option<PathBuf> {
    let home = std::env::var_os("ZLRS_HOME").map(PathBuf::from).or_else(|| {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        cache
            .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
            .map(|c| c.join("zlrs"))
    })?;
    Some(home.join("models").join(name)).filter(|path| path.exists())
}

struct Difference {
    rms: f64,
    largest: f32,
    agreed: usize,
    compared: usize,
}

/// Logits of the engine after every token, in chunks of 16 rows.
fn engine_logits(file: &File, prompts: &[Vec<u32>]) -> Vec<Vec<Vec<f32>>> {
    let decoder = Decoder::from_metadata(file.metadata(), file).unwrap();
    let pool = Pool::new(2).unwrap();
    let isa = Isa::detect();
    let weights = Weights::load(&decoder, file, isa, &pool, &|_, _| {}).unwrap();
    let mut backend = CpuBackend::new(decoder, weights, isa, pool, 256, 32).unwrap();
    let shape = backend.shape();
    let arena = Arena::new(shape.block_bytes, shape.blocks * shape.block_bytes).unwrap();
    prompts
        .iter()
        .map(|ids| {
            let mut sequence = Sequence::new(&arena, ids.clone());
            let mut plan = Plan::default();
            let mut rows = Vec::new();
            while !sequence.pending().is_empty() {
                plan.clear();
                let count = sequence.pending().len().min(16);
                let end = sequence.stored() + count;
                sequence.reserve(end, plan.copies_mut()).unwrap();
                let index = plan.add_sequence(sequence.table());
                for (offset, &token) in sequence.pending()[..count].iter().enumerate() {
                    let position = (sequence.stored() + offset) as u32;
                    plan.add_row(Row {
                        token,
                        position,
                        sequence: index,
                        wants_logits: true,
                        compute: Compute::Exact,
                    });
                }
                let logits = backend.step(&plan, &|| false).unwrap();
                rows.extend(logits.chunks_exact(shape.vocabulary).map(<[f32]>::to_vec));
                sequence.advance(count);
            }
            rows
        })
        .collect()
}

fn best_two(logits: &[f32]) -> (usize, f32) {
    let mut best = (0, f32::NEG_INFINITY);
    let mut second = f32::NEG_INFINITY;
    for (index, &logit) in logits.iter().enumerate() {
        if logit > best.1 {
            second = best.1;
            best = (index, logit);
        } else if logit > second {
            second = logit;
        }
    }
    (best.0, best.1 - second)
}

fn compare(ours: &[Vec<f32>], theirs: &[Vec<f32>]) -> Difference {
    let mut difference = Difference { rms: 0.0, largest: 0.0, agreed: 0, compared: 0 };
    let (mut error, mut spread) = (0.0, 0.0);
    for (ours, theirs) in ours.iter().zip(theirs) {
        let mean = theirs.iter().map(|&v| f64::from(v)).sum::<f64>() / theirs.len() as f64;
        for (&a, &b) in ours.iter().zip(theirs) {
            error += f64::from(a - b).powi(2);
            spread += (f64::from(b) - mean).powi(2);
            difference.largest = difference.largest.max((a - b).abs());
        }
        let (token, margin) = best_two(theirs);
        if margin > MARGIN {
            difference.compared += 1;
            difference.agreed += usize::from(best_two(ours).0 == token);
        }
    }
    difference.rms = (error / spread).sqrt();
    difference
}

fn check(name: &str) {
    let Some(path) = fetched(name) else {
        println!("skipped: {name} has not been fetched (`zlrs models pull` fetches it)");
        return;
    };
    let file = File::open(&path).unwrap();
    let tokenizer = Tokenizer::from_metadata(file.metadata()).unwrap();
    let prompts: Vec<Vec<u32>> =
        PROMPTS.iter().map(|text| tokenizer.encode_prompt(&[Segment::text(*text)])).collect();
    let ours = engine_logits(&file, &prompts);
    let mut reference = Reference::open(&path).unwrap();
    for (index, ids) in prompts.iter().enumerate() {
        let theirs = reference.logits(ids).unwrap();
        assert_eq!(ours[index].len(), theirs.len());
        let found = compare(&ours[index], &theirs);
        println!(
            "{name}, prompt {index}: {} tokens, rms {:.4} of the spread, largest {:.3}, top-1 {} of {} with margin > {MARGIN}",
            ids.len(),
            found.rms,
            found.largest,
            found.agreed,
            found.compared
        );
        assert!(found.compared >= 3, "too few clear tokens to say anything");
        assert_eq!(found.agreed, found.compared, "a clear top token differs from candle's");
        assert!(found.rms < RELATIVE_RMS, "logits differ by {} of their spread", found.rms);
    }
}

#[test]
fn smollm2_agrees_with_candle() {
    check("SmolLM2-135M-Instruct.Q4_1.gguf");
}

#[test]
fn qwen_agrees_with_candle() {
    check("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf");
}

#[test]
fn gemma_agrees_with_candle() {
    check("gemma-3-270m-q4_k_m.gguf");
}
