//! Synthetic models, backends over them, and steps without a scheduler.

use std::io::Write;
use std::path::Path;

use zlrs_engine::Compute;
use zlrs_engine::backend::Backend;
use zlrs_engine::cpu::CpuBackend;
use zlrs_engine::exit::Followers;
use zlrs_engine::kv::{Arena, BLOCK_TOKENS, Sequence};
use zlrs_engine::plan::{Candidate, Plan, Planner, Row};
use zlrs_kernels::{Isa, Pool};
use zlrs_model::decoder::{Architecture, Decoder};
use zlrs_model::gguf::File;
use zlrs_model::synthetic::{self, Settings, Types};
use zlrs_model::weights::Weights;

use super::reference::Reference;

/// A model on disk; a synthetic one is removed in the end.
pub struct Model {
    pub file: File,
    pub decoder: Decoder,
    _path: Option<tempfile::TempPath>,
}

impl Model {
    pub fn new(settings: &Settings) -> Self {
        let mut file = tempfile::Builder::new().suffix(".gguf").tempfile().unwrap();
        file.write_all(&synthetic::model(settings)).unwrap();
        let path = file.into_temp_path();
        let model = Self::at(&path);
        Self { _path: Some(path), ..model }
    }

    pub fn at(path: &Path) -> Self {
        let file = File::open(path).unwrap();
        let decoder = Decoder::from_metadata(file.metadata(), &file).unwrap();
        Self { file, decoder, _path: None }
    }

    pub fn of(architecture: Architecture, types: Types) -> Self {
        Self::new(&Settings { architecture, types, ..Settings::default() })
    }

    pub fn backend(&self, isa: Isa, threads: usize, blocks: usize) -> CpuBackend {
        let pool = Pool::new(threads).unwrap();
        let weights = Weights::load(&self.decoder, &self.file, isa, &pool, &|_, _| {}).unwrap();
        let context = self.decoder.context_length;
        CpuBackend::new(self.decoder.clone(), weights, isa, pool, context, blocks).unwrap()
    }

    /// Logits after every token, by the plainest code.
    pub fn reference(&self, ids: &[u32]) -> Vec<Vec<f32>> {
        let mut reference = Reference::new(&self.decoder, &self.file, ids.len());
        ids.iter().map(|&id| reference.next(id)).collect()
    }
}

/// Some tokens that are text, from a seed.
pub fn text_ids(count: usize, seed: u64) -> Vec<u32> {
    (0..count as u64).map(|index| (zlrs_engine::sampling::uniform(seed, index) * 256.0) as u32).collect()
}

/// Instruction sets of this machine.
pub fn isas() -> Vec<Isa> {
    Isa::ALL.into_iter().filter(|isa| isa.is_available()).collect()
}

pub fn arena(backend: &CpuBackend) -> Arena {
    let shape = backend.shape();
    Arena::new(shape.block_bytes, shape.blocks * shape.block_bytes).unwrap()
}

/// What the scheduler asks of a planner for one step.
pub fn plan_step(planner: &mut dyn Planner, sequences: &mut [&mut Sequence], plan: &mut Plan) {
    let candidates: Vec<Candidate> = sequences.iter().map(|sequence| candidate(sequence)).collect();
    let mut rows = Vec::new();
    planner.rows(&candidates, &mut rows);
    planner.fill(sequences, &rows, plan).unwrap();
}

pub fn candidate(sequence: &Sequence) -> Candidate {
    let guesses = sequence.guesses().len();
    let pending = sequence.pending().len() - guesses;
    Candidate { pending, guesses, decoding: pending == 1 }
}

/// Computes the pending tokens of the sequences, at most `chunk` of each per step (256 in all), and returns the logits after
/// every one of them, by sequence.
pub fn run(backend: &mut CpuBackend, sequences: &mut [&mut Sequence], chunk: usize) -> Vec<Vec<Vec<f32>>> {
    let vocabulary = backend.shape().vocabulary;
    let mut out = vec![Vec::new(); sequences.len()];
    let mut plan = Plan::default();
    while sequences.iter().any(|sequence| !sequence.pending().is_empty()) {
        plan.clear();
        for sequence in sequences.iter_mut() {
            let rows = sequence.pending().len().min(chunk);
            let end = sequence.stored() + rows;
            sequence.reserve(end, plan.copies_mut()).unwrap();
            let index = plan.add_sequence(&sequence.table()[..end.div_ceil(BLOCK_TOKENS)]);
            plan.set_exit_state(index, sequence.exit_state());
            for (offset, &token) in sequence.pending()[..rows].iter().enumerate() {
                let position = (sequence.stored() + offset) as u32;
                let compute = sequence.compute();
                let row = Row { token, position, sequence: index, wants_logits: true, compute };
                match compute {
                    Compute::Exact => plan.add_row(row),
                    Compute::Aggressive => {
                        plan.add_aggressive_row(row, Followers::of(&sequence.known()[..=position as usize]));
                    }
                }
            }
        }
        let logits = backend.step(&plan, &|| false).unwrap();
        for (row, logits) in plan.rows().iter().zip(logits.chunks_exact(vocabulary)) {
            sequences[row.sequence as usize].advance(1);
            out[row.sequence as usize].push(logits.to_vec());
        }
        for (row, &trace) in plan.rows().iter().zip(backend.traces()) {
            let sequence = &mut *sequences[row.sequence as usize];
            let mut state = sequence.exit_state();
            state.advance(trace);
            sequence.set_exit_state(state);
        }
    }
    out
}

/// Logits after every token of one fresh sequence.
pub fn logits_of(backend: &mut CpuBackend, ids: &[u32], chunk: usize) -> Vec<Vec<f32>> {
    let mut sequence = Sequence::new(&arena(backend), ids.to_vec());
    run(backend, &mut [&mut sequence], chunk).remove(0)
}

/// Fails on the first row that differs in any bit.
pub fn assert_same_bits(expected: &[Vec<f32>], got: &[Vec<f32>], what: &str) {
    assert_eq!(expected.len(), got.len(), "{what}: rows");
    for (row, (expected, got)) in expected.iter().zip(got).enumerate() {
        assert_eq!(expected.len(), got.len(), "{what}: row {row}");
        let differs = expected.iter().zip(got).position(|(a, b)| a.to_bits() != b.to_bits());
        if let Some(index) = differs {
            panic!("{what}: row {row}, logit {index}: {} and {}", expected[index], got[index]);
        }
        assert!(expected.iter().all(|logit| logit.is_finite()), "{what}: row {row} is not finite");
    }
}
