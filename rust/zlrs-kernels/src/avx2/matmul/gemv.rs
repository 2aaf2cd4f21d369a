//! The product with few columns: bound by reading the weights, so each packed byte is read once, in order,
//! and expanded into registers.

use super::format::Format;
use super::lanes::Buffer;
use super::task::Task;
use super::vector::{One, Packed};
use std::arch::x86_64::*;
use std::mem::MaybeUninit;
use std::ops::Range;

/// The most columns this product takes at once.
pub(crate) const MAX_COLUMNS: usize = 8;

/// How far ahead weights are prefetched, in bytes: a page, since processors' own prefetchers stop at its end; both
/// streams of it leave most of a first-level cache to the activations.
pub(crate) const PREFETCH: usize = 4096;

/// All columns of the task, 1 to [`MAX_COLUMNS`], against some strips. The activations are one tile.
///
/// # Safety
/// Needs AVX2, FMA and F16C. The strips are this worker's alone; weights and activations have the sizes that
/// the task's counts and `F` ask for.
pub(crate) unsafe fn gemv<F: Format>(task: &Task<'_>, strips: Range<usize>) {
    // SAFETY: the caller's promise.
    unsafe {
        match task.columns {
            1 => strips_at_once::<F, 2, 1>(task, strips),
            2 => strips_at_once::<F, 1, 2>(task, strips),
            3 => strips_at_once::<F, 1, 3>(task, strips),
            4 => strips_at_once::<F, 1, 4>(task, strips),
            5 => strips_at_once::<F, 1, 5>(task, strips),
            6 => strips_at_once::<F, 1, 6>(task, strips),
            7 => strips_at_once::<F, 1, 7>(task, strips),
            8 => strips_at_once::<F, 1, 8>(task, strips),
            _ => debug_assert!(false, "a tile has 1 to {MAX_COLUMNS} columns"),
        }
    }
}

/// C columns. S strips far apart are walked together: one core with one stream of reads may not saturate its
/// share of memory, two streams do. With two columns and more, arithmetic hides the difference.
///
/// # Safety
/// As [`gemv`].
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn strips_at_once<F: Format, const S: usize, const C: usize>(task: &Task<'_>, strips: Range<usize>) {
    let apart = strips.len() / S;
    for first in strips.start..strips.start + apart {
        let mut acc = [[[_mm256_setzero_ps(); C]; 1]; S];
        for block in 0..task.blocks {
            for (stream, acc) in acc.iter_mut().enumerate() {
                let strip = first + stream * apart;
                // SAFETY: strip and block exist; the tile has WORDS * C dwords a block.
                unsafe {
                    let packed = task.weights.as_ptr().add((strip * task.blocks + block) * F::STRIP_BLOCK);
                    let activations = task.activations.as_ptr().add(block * F::WORDS * C);
                    multiply_block::<F, C>(packed, activations, acc);
                }
            }
        }
        for (stream, [acc]) in acc.iter().enumerate() {
            for (column, &results) in acc.iter().enumerate() {
                // SAFETY: the strip is this worker's.
                unsafe { task.write(column, first + stream * apart, results) };
            }
        }
    }
    if S > 1 {
        // SAFETY: the caller's promise.
        unsafe { strips_at_once::<F, 1, C>(task, strips.start + S * apart..strips.end) };
    }
}

/// The chunk's share of the prefetches `ahead` bytes further on: a burst would fill the miss buffers. Prefetching reads nothing, so it
/// may run past the end.
#[inline(always)]
pub(crate) fn prefetch_chunk<F: Format>(packed: *const u8, chunk: usize, ahead: usize) {
    let (start, end) = (chunk * F::STRIP_BLOCK / F::CHUNKS, (chunk + 1) * F::STRIP_BLOCK / F::CHUNKS);
    let mut line = start;
    while line < end {
        // SAFETY: SSE is part of the architecture; no memory is read.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(packed.wrapping_add(ahead + line).cast()) };
        line += 64;
    }
}

/// One block of one strip with C columns.
///
/// # Safety
/// As [`Format`] states for `packed` and `activations`.
#[inline(always)]
unsafe fn multiply_block<F: Format, const C: usize>(
    packed: *const u8,
    activations: *const u32,
    acc: &mut [[__m256; C]; 1],
) {
    // SAFETY: the caller's promise; a chunk expands to at most 320 bytes, scales to at most 192.
    unsafe {
        let strip = Packed { first: packed, apart: 0 };
        let mut isum = [[_mm256_setzero_si256(); C]; 1];
        for chunk in 0..F::CHUNKS {
            prefetch_chunk::<F>(packed, chunk, PREFETCH);
            let mut expanded = MaybeUninit::<Buffer<320>>::uninit();
            F::expand_chunk::<One>(strip, chunk, expanded.as_mut_ptr().cast());
            F::dot_chunk::<1, C>([expanded.as_ptr().cast()], chunk, activations, &mut isum);
        }
        let mut scales = MaybeUninit::<Buffer<192>>::uninit();
        F::expand_scales::<One>(strip, scales.as_mut_ptr().cast());
        F::finish_block::<1, C>([scales.as_ptr().cast()], activations, &isum, acc);
    }
}
