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

/// A buffer whose parts several workers fill at once.
pub(crate) struct Parts<'a, T> {
    base: *mut T,
    len: usize,
    lifetime: PhantomData<&'a mut [T]>,
}

// SAFETY: the pointer is only used by `part`, whose callers promise that no two threads hold overlapping parts.
unsafe impl<T: Send> Sync for Parts<'_, T> {}

impl<'a, T> Parts<'a, T> {
    /// Borrows `buffer` for as long as the value lives.
    pub(crate) fn new(buffer: &'a mut [T]) -> Self {
        Self { base: buffer.as_mut_ptr(), len: buffer.len(), lifetime: PhantomData }
    }

    /// The elements of `range`.
    ///
    /// # Safety
    /// `range` lies within the buffer. While the result lives, no other part that overlaps it does.
    #[expect(clippy::mut_from_ref, reason = "the caller keeps parts disjoint")]
    pub(crate) unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        debug_assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: inside the borrowed slice by the caller's promise, exclusive by it too.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(range.start), range.len()) }
    }
}

/// The part of `total` items that `worker` of `workers` takes: contiguous, in order, sizes within one.
pub(crate) fn share(total: usize, workers: usize, worker: usize) -> Range<usize> {
    // 128 bits, so that no product overflows; `worker` may be past the last, whose share is empty.
    let at = |w: usize| (total as u128 * w.min(workers) as u128 / workers as u128) as usize;
    at(worker)..at(worker + 1)
}

/// Multiply-adds below which a product stays on the calling thread: a few microseconds of work, about what
/// waking a sleeping worker costs.
pub(crate) const SMALL_WORK: usize = 1 << 17;

/// Least elements of a row-wise job that a second thread is woken for.
const SMALL_ROWS: usize = 1 << 14;
/// Elements that a worker takes at a time from a row-wise job, about.
const ROWS_AT_ONCE: usize = 1 << 12;

/// Runs `job(first_row, rows)` over `out`, `[rows][width]`, in runs of whole rows, on the pool if there are many:
/// norms, activations and the like, which compute each row by itself. Who computes a row changes nothing in it.
///
/// # Errors
/// Those of [`Pool::run`].
///
/// # Panics
/// If `width` is 0.
pub fn for_rows(
    pool: &Pool,
    width: usize,
    out: &mut [f32],
    job: &(dyn Fn(usize, &mut [f32]) + Sync),
) -> Result<(), KernelError> {
    let rows = out.len() / width;
    let small = out.len() < SMALL_ROWS || pool.threads() == 1;
    let out = Parts::new(&mut out[..rows * width]);
    if small {
        // SAFETY: the whole buffer, on this thread alone.
        return pool.run_alone(&|| job(0, unsafe { out.part(0..rows * width) }));
    }
    let at_once = (ROWS_AT_ONCE / width).max(1);
    pool.run_units(rows.div_ceil(at_once), &|_, unit| {
        let range = unit * at_once..rows.min((unit + 1) * at_once);
        // SAFETY: units are disjoint and end within the buffer.
        job(range.start, unsafe { out.part(range.start * width..range.end * width) });
    })
}

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
