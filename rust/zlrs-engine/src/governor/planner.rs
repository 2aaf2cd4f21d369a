//! Plans of another planner, with a precision.

use super::Governor;
use crate::kv::{ArenaError, Sequence};
use crate::plan::{Candidate, KvPrecision, Plan, Planner};

/// Where the precision comes from.
#[derive(Debug, Clone)]
enum Source {
    Fixed(KvPrecision),
    Governed(Governor),
}

/// Adds the precision of keys and values to what another planner decides.
pub struct PrecisionPlanner {
    inner: Box<dyn Planner>,
    source: Source,
}

impl PrecisionPlanner {
    /// The same precision always.
    pub fn fixed(inner: Box<dyn Planner>, precision: KvPrecision) -> Self {
        Self { inner, source: Source::Fixed(precision) }
    }

    /// What the governor says when a step is planned.
    pub fn governed(inner: Box<dyn Planner>, governor: Governor) -> Self {
        Self { inner, source: Source::Governed(governor) }
    }
}

impl Planner for PrecisionPlanner {
    fn rows(&mut self, candidates: &[Candidate], rows: &mut Vec<usize>) {
        self.inner.rows(candidates, rows);
    }

    fn fill(
        &mut self,
        sequences: &mut [&mut Sequence],
        rows: &[usize],
        plan: &mut Plan,
    ) -> Result<(), ArenaError> {
        self.inner.fill(sequences, rows, plan)?;
        plan.kv_precision = match &self.source {
            Source::Fixed(precision) => *precision,
            Source::Governed(governor) => governor.precision(),
        };
        Ok(())
    }
}
