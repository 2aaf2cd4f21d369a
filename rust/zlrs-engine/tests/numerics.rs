//! One number for all logits of 24 prompts × 32 greedy steps, equal over instruction sets, threads, chunks and
//! batches, and equal to the committed one. A change of the numbers is a change of `NUMERICS_VERSION`:
//!
//! ```sh
//! ZLRS_UPDATE_NUMERICS=1 cargo test --release -p zlrs-engine --test numerics
//! ```
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod support;

use std::fmt::Write as _;
use std::path::Path;

use support::model::{Model, arena, isas, run, text_ids};
use zlrs_engine::kv::Sequence;
use zlrs_kernels::{Isa, NUMERICS_VERSION};
use zlrs_model::decoder::Architecture;
use zlrs_model::synthetic::Types;

const PROMPTS: usize = 24;
const STEPS: usize = 32;
/// Threads, rows of a sequence per step, sequences per step.
const VARIANTS: [(usize, usize, usize); 3] = [(1, 256, 1), (2, 7, 5), (2, 10, 24)];

/// FNV-1a over 64 bits.
struct Hash(u64);

impl Hash {
    fn add(&mut self, logits: &[f32]) {
        for byte in logits.iter().flat_map(|logit| logit.to_bits().to_le_bytes()) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

fn argmax(logits: &[f32]) -> u32 {
    let best = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    logits.iter().position(|&logit| logit == best).unwrap() as u32
}

/// Prompts of 1 to 70 tokens, `batch` sequences at a time.
fn hash(model: &Model, isa: Isa, threads: usize, chunk: usize, batch: usize) -> u64 {
    let mut backend = model.backend(isa, threads, 8 * batch);
    let arena = arena(&backend);
    let prompts: Vec<Vec<u32>> =
        (0..PROMPTS).map(|index| text_ids(1 + 3 * index, 100 + index as u64)).collect();
    let mut rows = vec![Vec::new(); PROMPTS];
    for first in (0..PROMPTS).step_by(batch) {
        let mut sequences: Vec<Sequence> = prompts[first..(first + batch).min(PROMPTS)]
            .iter()
            .map(|ids| Sequence::new(&arena, ids.clone()))
            .collect();
        for _ in 0..STEPS {
            let mut together: Vec<&mut Sequence> = sequences.iter_mut().collect();
            let logits = run(&mut backend, &mut together, chunk);
            for (offset, logits) in logits.into_iter().enumerate() {
                sequences[offset].push(argmax(logits.last().unwrap()));
                rows[first + offset].extend(logits);
            }
        }
    }
    let mut hash = Hash(0xcbf2_9ce4_8422_2325);
    rows.iter().flatten().for_each(|logits| hash.add(logits));
    hash.0
}

#[test]
fn all_logits_have_the_committed_hash() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/numerics.txt");
    let mut table = format!("numerics_version {NUMERICS_VERSION}\n");
    for architecture in Architecture::ALL {
        let model = Model::of(architecture, Types::Mixed);
        let mut hashes = Vec::new();
        for isa in isas() {
            // The specification itself is slow: one variant of it is enough.
            let variants = if isa == Isa::Naive { &VARIANTS[1..2] } else { &VARIANTS[..] };
            for &(threads, chunk, batch) in variants {
                hashes.push(((isa, threads, chunk, batch), hash(&model, isa, threads, chunk, batch)));
            }
        }
        let expected = hashes[0].1;
        for (variant, hash) in hashes {
            assert_eq!(hash, expected, "{architecture:?} {variant:?}");
        }
        writeln!(table, "{} {expected:016x}", architecture.name()).unwrap();
    }
    if std::env::var_os("ZLRS_UPDATE_NUMERICS").is_some() {
        std::fs::write(&path, &table).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(table, committed, "the logits have changed; see the head of this file");
}
