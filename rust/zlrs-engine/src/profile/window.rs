//! One text under measurement.

use std::sync::{Mutex, PoisonError};

use super::harm::{Harm, Row};
use crate::backend::{Backend, BackendError};
use crate::cpu::CpuBackend;
use crate::kv::BLOCK_TOKENS;
use crate::plan::{CHUNK_ROWS, Plan, Row as PlanRow};
use crate::{Compute, EngineError};

/// One text, what the full model says after some of its tokens, and what some model reaches before each layer.
pub(super) struct Window {
    ids: Vec<u32>,
    rows: Vec<Row>,
    /// By chunk of the text, `[layers][rows][width]`; nothing where nothing is kept.
    hidden: Vec<Vec<f32>>,
}

impl Window {
    pub fn new(ids: Vec<u32>) -> Self {
        Self { ids, rows: Vec::new(), hidden: Vec::new() }
    }

    pub fn tokens(&self) -> usize {
        self.ids.len()
    }

    pub fn has_hidden(&self) -> bool {
        !self.hidden.is_empty()
    }

    pub fn forget(&mut self) {
        self.hidden = Vec::new();
    }

    /// Keeps the logits after every `every`-th token, and after the last.
    pub fn keep_rows(&mut self, backend: &mut CpuBackend, every: usize) -> Result<(), EngineError> {
        let (vocabulary, isa) = (backend.shape().vocabulary, backend.isa());
        let (mut rows, mut spare) = (Vec::new(), Vec::new());
        for plan in self.plans(Some(every), Compute::Exact) {
            let logits = backend.step(&plan, &|| false).map_err(|error| step_failed(&error))?;
            let wanted = plan.rows().iter().filter(|row| row.wants_logits);
            for (row, logits) in wanted.zip(logits.chunks_exact(vocabulary)) {
                rows.push(Row::new(isa, row.position as usize, logits.to_vec(), &mut spare));
            }
        }
        self.rows = rows;
        Ok(())
    }

    /// Keeps what the text reaches before every layer.
    pub fn keep_hidden(&mut self, backend: &mut CpuBackend) -> Result<(), EngineError> {
        let mut chunks = Vec::new();
        for plan in self.plans(None, Compute::Exact) {
            let mut kept = Vec::new();
            backend
                .step_seen(&plan, &mut |_, hidden| kept.extend_from_slice(hidden))
                .map_err(|error| step_failed(&error))?;
            chunks.push(kept);
        }
        self.hidden = chunks;
        Ok(())
    }

    /// Computes the text and nothing else.
    pub fn pass(&self, backend: &mut CpuBackend) -> Result<(), EngineError> {
        for plan in self.plans(Some(1), Compute::Exact) {
            backend.step(&plan, &|| false).map_err(|error| step_failed(&error))?;
        }
        Ok(())
    }

    /// What each kept row loses, computed from layer `first` on; that is 0 unless hidden states are kept. `compute`
    /// is that of all rows.
    pub fn harms(
        &self,
        backend: &mut CpuBackend,
        every: usize,
        first: usize,
        compute: Compute,
    ) -> Result<Vec<Harm>, EngineError> {
        let (vocabulary, isa) = (backend.shape().vocabulary, backend.isa());
        let pool = backend.pool();
        let (mut harms, mut kept) = (Vec::new(), self.rows.iter());
        for (chunk, plan) in self.plans(Some(every), compute).into_iter().enumerate() {
            let logits = match self.hidden.get(chunk).filter(|_| first > 0) {
                Some(hidden) => {
                    let layer = hidden.len() / backend.decoder().layers.len();
                    backend.step_from(&plan, first, &hidden[first * layer..][..layer])
                }
                None => backend.step(&plan, &|| false),
            }
            .map_err(|error| step_failed(&error))?;
            let rows: Vec<(&Row, &[f32])> = kept.by_ref().zip(logits.chunks_exact(vocabulary)).collect();
            let harm = |unit: usize, spare: &mut Vec<f32>| {
                let (row, logits) = rows[unit];
                row.harm(isa, logits, self.ids.get(row.position + 1).copied(), spare)
            };
            let found = Mutex::new(vec![None; rows.len()]);
            let put = |unit: usize, harm: Harm| {
                found.lock().unwrap_or_else(PoisonError::into_inner)[unit] = Some(harm);
            };
            match &pool {
                Some(pool) => {
                    pool.run_units(rows.len(), &|_, unit| put(unit, harm(unit, &mut Vec::new())))?;
                }
                None => (0..rows.len()).for_each(|unit| put(unit, harm(unit, &mut Vec::new()))),
            }
            harms.extend(found.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().flatten());
        }
        Ok(harms)
    }

    /// The steps that compute the text; logits are wanted after every `every`-th token and after the last, or nowhere.
    fn plans(&self, every: Option<usize>, compute: Compute) -> Vec<Plan> {
        let blocks: Vec<u32> = (0..self.ids.len().div_ceil(BLOCK_TOKENS) as u32).collect();
        let mut plans = Vec::new();
        for (chunk, tokens) in self.ids.chunks(CHUNK_ROWS).enumerate() {
            let mut plan = Plan::default();
            let sequence = plan.add_sequence(&blocks);
            for (position, &token) in (chunk * CHUNK_ROWS..).zip(tokens) {
                let is_last = position + 1 == self.ids.len();
                let wants_logits = every.is_some_and(|every| is_last || (position + 1).is_multiple_of(every));
                plan.add_row(PlanRow { token, position: position as u32, sequence, wants_logits, compute });
            }
            plans.push(plan);
        }
        plans
    }
}

fn step_failed(error: &BackendError) -> EngineError {
    EngineError::Step { message: error.to_string() }
}
