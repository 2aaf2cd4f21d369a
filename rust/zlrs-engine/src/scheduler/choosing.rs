//! From the logits of a step to the tokens of its requests.

use std::sync::{Mutex, PoisonError};

use zlrs_kernels::{KernelError, Pool};

use super::running::Running;
use crate::plan::Plan;
use crate::vocabulary::Vocabulary;

/// Logits so many that choosing from them is shared among the workers: waking them costs some microseconds.
const SHARED_LOGITS: usize = 1 << 16;

/// What a step said.
#[derive(Clone, Copy)]
pub(super) struct Said<'step> {
    /// `[logits_rows][vocabulary]`.
    pub logits: &'step [f32],
    /// The model's last state of the same rows, where somebody reads it.
    pub states: &'step [f32],
    pub vocabulary: &'step dyn Vocabulary,
}

/// Chooses tokens from the logits of every request. The requests are shared among the threads of `pool`: each choice
/// is a matter of its own request alone.
///
/// # Errors
/// [`KernelError`] of the pool.
pub(super) fn choose(
    running: &mut [Running],
    plan: &Plan,
    said: Said<'_>,
    pool: Option<&Pool>,
) -> Result<(), KernelError> {
    let rows = plan.logits_rows().max(1);
    let (row_length, state_length) = (said.logits.len() / rows, said.states.len() / rows);
    // Rows of a sequence lie together, in the order of positions.
    let mut counts = vec![0; running.len()];
    for row in plan.rows().iter().filter(|row| row.wants_logits) {
        counts[row.sequence as usize] += 1;
    }
    let (mut rest, mut states) = (said.logits, said.states);
    let mut work: Vec<(&mut Running, Said<'_>)> = Vec::with_capacity(running.len());
    for (running, count) in running.iter_mut().zip(counts) {
        if count > 0 {
            let (own, others) = rest.split_at(count * row_length);
            rest = others;
            let (own_states, others) = states.split_at(count * state_length);
            states = others;
            work.push((running, Said { logits: own, states: own_states, ..said }));
        }
    }
    let pool = pool.filter(|pool| pool.threads() > 1 && work.len() > 1 && said.logits.len() >= SHARED_LOGITS);
    let Some(pool) = pool else {
        for (running, said) in work {
            running.choose(said, row_length);
        }
        return Ok(());
    };
    // What takes longest comes first, so that the others fill the rest.
    work.sort_by_key(|(running, said)| (!running.is_sampled(), usize::MAX - said.logits.len()));
    let work = Mutex::new(work.into_iter());
    pool.run(&|_| {
        loop {
            let next = work.lock().unwrap_or_else(PoisonError::into_inner).next();
            match next {
                Some((running, said)) => running.choose(said, row_length),
                None => break,
            }
        }
    })
}
