//! From the logits of a step to the tokens of its requests.

use std::sync::{Mutex, PoisonError};

use zlrs_kernels::{KernelError, Pool};

use super::running::Running;
use crate::plan::Plan;

/// Logits so many that choosing from them is shared among the workers: waking them costs some microseconds.
const SHARED_LOGITS: usize = 1 << 16;

/// Chooses tokens from the logits of every request. The requests are shared among the threads of `pool`: each choice
/// is a matter of its own request alone.
///
/// # Errors
/// [`KernelError`] of the pool.
pub(super) fn choose(
    running: &mut [Running],
    plan: &Plan,
    logits: &[f32],
    pool: Option<&Pool>,
) -> Result<(), KernelError> {
    let row_length = logits.len() / plan.logits_rows().max(1);
    // Rows of a sequence lie together, in the order of positions.
    let mut counts = vec![0; running.len()];
    for row in plan.rows().iter().filter(|row| row.wants_logits) {
        counts[row.sequence as usize] += 1;
    }
    let mut rest = logits;
    let mut work: Vec<(&mut Running, &[f32])> = Vec::with_capacity(running.len());
    for (running, count) in running.iter_mut().zip(counts) {
        if count > 0 {
            let (own, others) = rest.split_at(count * row_length);
            rest = others;
            work.push((running, own));
        }
    }
    let pool = pool.filter(|pool| pool.threads() > 1 && work.len() > 1 && logits.len() >= SHARED_LOGITS);
    let Some(pool) = pool else {
        for (running, logits) in work {
            running.choose(logits, row_length);
        }
        return Ok(());
    };
    // What takes longest comes first, so that the others fill the rest.
    work.sort_by_key(|(running, logits)| (!running.is_sampled(), usize::MAX - logits.len()));
    let work = Mutex::new(work.into_iter());
    pool.run(&|_| {
        loop {
            let next = work.lock().unwrap_or_else(PoisonError::into_inner).next();
            match next {
                Some((running, logits)) => running.choose(logits, row_length),
                None => break,
            }
        }
    })
}
