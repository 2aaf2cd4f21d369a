//! A result matrix that several workers fill at once, each its own columns, and how they share the work.
#![expect(
    unsafe_code,
    reason = "disjoint parts of rows cannot be handed out by safe slicing without allocating"
)]

use crate::{KernelError, Pool};
use std::marker::PhantomData;
use std::ops::Range;

/// `[rows][width]` of f32, writable from several threads column range by column range.
pub(crate) struct Columns<'a> {
    base: *mut f32,
    width: usize,
    len: usize,
    lifetime: PhantomData<&'a mut [f32]>,
}

// SAFETY: the pointer is only used by `segment`, whose callers promise that no two threads hold overlapping
// segments; f32 may be written from any thread.
unsafe impl Sync for Columns<'_> {}

impl<'a> Columns<'a> {
    /// Borrows `out` for as long as the value lives. `width` divides its length.
    pub(crate) fn new(out: &'a mut [f32], width: usize) -> Self {
        Self { base: out.as_mut_ptr(), width, len: out.len(), lifetime: PhantomData }
    }

    /// Columns `columns` of row `row`.
    ///
    /// # Safety
    /// `columns` ends within the width and the row exists. While the result lives, no other segment that
    /// overlaps it does.
    #[expect(clippy::mut_from_ref, reason = "the caller keeps segments disjoint")]
    pub(crate) unsafe fn segment(&self, row: usize, columns: Range<usize>) -> &mut [f32] {
        debug_assert!(columns.start <= columns.end && columns.end <= self.width);
        debug_assert!((row + 1) * self.width <= self.len);
        // SAFETY: inside the borrowed slice by the bounds above; exclusive by the caller's promise.
        unsafe {
            std::slice::from_raw_parts_mut(self.base.add(row * self.width + columns.start), columns.len())
        }
    }
}

/// The part of `total` items that `worker` of `workers` takes: contiguous, in order, sizes within one.
fn share(total: usize, workers: usize, worker: usize) -> Range<usize> {
    // 128 bits, so that no product overflows.
    let at = |w: usize| (total as u128 * w as u128 / workers as u128) as usize;
    at(worker)..at(worker + 1)
}

/// Multiply-adds below which a product stays on the calling thread: a few microseconds of work, about what
/// waking a sleeping worker costs.
const SMALL_WORK: usize = 1 << 17;

/// Runs `job` over `items` in contiguous shares, one a worker; all on the calling thread if the whole is only
/// `work` multiply-adds and that is little. Who computes an item changes nothing in it.
pub(crate) fn run_shares(
    pool: &Pool,
    items: usize,
    work: usize,
    job: &(dyn Fn(Range<usize>) + Sync),
) -> Result<(), KernelError> {
    if work < SMALL_WORK {
        pool.run_alone(&|| job(0..items))
    } else {
        pool.run(&|worker| job(share(items, pool.threads(), worker)))
    }
}
