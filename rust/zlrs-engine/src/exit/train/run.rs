//! Texts through the model, row by row compared.

use super::fit::Example;
use crate::backend::Backend;
use crate::cpu::{CpuBackend, first_choice};
use crate::exit::{ExitState, Followers, RowTrace};
use crate::kv::BLOCK_TOKENS;
use crate::plan::{Plan, Row};
use crate::{Compute, EngineError};

/// Rows of a step. Every one of them wants logits, which take memory.
const STEP_ROWS: usize = 64;

/// Computes texts from their beginning.
pub(super) struct Runner<'a> {
    backend: &'a mut CpuBackend,
    plan: Plan,
    state: ExitState,
}

/// What was seen of a domain.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub rows: usize,
    pub differing: usize,
    pub left: usize,
    pub row_layers: usize,
}

impl Tally {
    pub fn add(&mut self, full: &[u32], own: &[u32], traces: &[RowTrace]) {
        self.rows += full.len();
        self.differing += full.iter().zip(own).filter(|(full, own)| full != own).count();
        self.left += traces.iter().filter(|trace| trace.skipped_layers > 0).count();
        self.row_layers += traces.iter().map(|trace| usize::from(trace.skipped_layers)).sum::<usize>();
    }
}

impl<'a> Runner<'a> {
    pub fn new(backend: &'a mut CpuBackend) -> Self {
        Self { backend, plan: Plan::default(), state: ExitState::default() }
    }

    /// The first choice after every token, and what became of the rows.
    pub fn firsts(mut self, ids: &[u32], compute: Compute) -> Result<(Vec<u32>, Vec<RowTrace>), EngineError> {
        let (mut firsts, mut traces) = (Vec::new(), Vec::new());
        for start in (0..ids.len()).step_by(STEP_ROWS) {
            firsts.extend(self.step(ids, start, compute)?);
            traces.extend_from_slice(self.backend.traces());
            self.backend.traces().iter().for_each(|&trace| self.state.advance(trace));
        }
        Ok((firsts, traces))
    }

    /// Adds up by probe what the layers behind it add; the backend records that. Returns the rows.
    pub fn added(mut self, ids: &[u32], sums: &mut [Vec<f64>]) -> Result<usize, EngineError> {
        for start in (0..ids.len()).step_by(STEP_ROWS) {
            self.step(ids, start, Compute::Aggressive)?;
            for sample in self.backend.take_samples() {
                let sum = &mut sums[sample.probe];
                sum.iter_mut().zip(&sample.added).for_each(|(sum, &added)| *sum += f64::from(added));
            }
        }
        Ok(ids.len())
    }

    /// Examples for every probe; the backend records choices.
    pub fn label(mut self, ids: &[u32], into: &mut [Vec<Example>]) -> Result<(), EngineError> {
        for start in (0..ids.len()).step_by(STEP_ROWS) {
            let firsts = self.step(ids, start, Compute::Aggressive)?;
            for sample in self.backend.take_samples() {
                let differs = sample.first_choice != firsts[sample.row];
                into[sample.probe].push(Example { features: sample.features, differs });
            }
        }
        Ok(())
    }

    fn step(&mut self, ids: &[u32], start: usize, compute: Compute) -> Result<Vec<u32>, EngineError> {
        let vocabulary = self.backend.shape().vocabulary;
        let blocks: Vec<u32> = (0..ids.len().div_ceil(BLOCK_TOKENS) as u32).collect();
        self.plan.clear();
        let sequence = self.plan.add_sequence(&blocks);
        self.plan.set_exit_state(sequence, self.state);
        for position in start..ids.len().min(start + STEP_ROWS) {
            let token = ids[position];
            let row = Row { token, position: position as u32, sequence, wants_logits: true, compute };
            match compute {
                Compute::Exact => self.plan.add_row(row),
                Compute::Aggressive => {
                    self.plan.add_aggressive_row(row, Followers::of(&ids[..=position]));
                }
            }
        }
        let logits = self
            .backend
            .step(&self.plan, &|| false)
            .map_err(|error| EngineError::Step { message: error.to_string() })?;
        Ok(logits.chunks_exact(vocabulary).map(first_choice).collect())
    }
}
