//! The product with few columns, see [`avx2`](crate::avx2): two strips a vector.

use super::lanes::Lanes;
use super::vector::Two;
use super::wide::{Wide, dot_chunk, finish_block};
use crate::avx2::matmul::gemv::{MAX_COLUMNS, PREFETCH, prefetch_chunk};
use crate::avx2::matmul::lanes::Buffer;
use crate::avx2::matmul::task::Task;
use crate::avx2::matmul::vector::{One, Packed};
use std::mem::MaybeUninit;
use std::ops::Range;

/// All columns of the task, 1 to [`MAX_COLUMNS`], against some strips. The activations are one tile.
///
/// # Safety
/// Needs AVX-512 (F, BW, VL), VNNI, F16C. The strips are this worker's alone; weights and activations have the
/// sizes that the task's counts and `F` ask for.
pub(crate) unsafe fn gemv<F: Wide>(task: &Task<'_>, strips: Range<usize>) {
    // SAFETY: the caller's promise.
    unsafe {
        match task.columns {
            1 => all_strips::<F, 1>(task, strips),
            2 => all_strips::<F, 2>(task, strips),
            3 => all_strips::<F, 3>(task, strips),
            4 => all_strips::<F, 4>(task, strips),
            5 => all_strips::<F, 5>(task, strips),
            6 => all_strips::<F, 6>(task, strips),
            7 => all_strips::<F, 7>(task, strips),
            8 => all_strips::<F, 8>(task, strips),
            _ => debug_assert!(false, "a tile has 1 to {MAX_COLUMNS} columns"),
        }
    }
}

/// C columns. The two strips of a vector are far apart, so that one core keeps two streams of reads going.
///
/// # Safety
/// As [`gemv`].
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn all_strips<F: Wide, const C: usize>(task: &Task<'_>, strips: Range<usize>) {
    // SAFETY: the caller's promise; an odd strip is walked alone.
    unsafe {
        let end = strips.start + strips.len() / 2 * 2;
        walk::<F, Two, C>(task, strips.start..end);
        walk::<F, One, C>(task, end..strips.end);
    }
}

/// C columns with vectors of `L::STRIPS` strips, which divides the number of strips.
///
/// # Safety
/// As [`gemv`].
#[inline(always)]
unsafe fn walk<F: Wide, L: Lanes, const C: usize>(task: &Task<'_>, strips: Range<usize>) {
    let apart = strips.len() / L::STRIPS;
    let strip_bytes = task.blocks * F::STRIP_BLOCK;
    for first in strips.start..strips.start + apart {
        // SAFETY: strip and block exist; the tile has WORDS * C dwords a block; the strips are this worker's.
        unsafe {
            let mut acc = [[L::zero_floats(); C]; 1];
            let strip = task.weights.as_ptr().add(first * strip_bytes);
            for block in 0..task.blocks {
                let packed = Packed { first: strip.add(block * F::STRIP_BLOCK), apart: apart * strip_bytes };
                let activations = task.activations.as_ptr().add(block * F::WORDS * C);
                multiply_block::<F, L, C>(packed, activations, &mut acc);
            }
            for (column, &results) in acc[0].iter().enumerate() {
                for (i, &results) in L::strips(results)[..L::STRIPS].iter().enumerate() {
                    task.write(column, first + i * apart, results);
                }
            }
        }
    }
}

/// One block of a vector's strips with C columns.
///
/// # Safety
/// As `Format` states for `packed` and `activations`.
#[inline(always)]
unsafe fn multiply_block<F: Wide, L: Lanes, const C: usize>(
    packed: Packed,
    activations: *const u32,
    acc: &mut [[L::Floats; C]; 1],
) {
    // SAFETY: the caller's promise; a chunk expands to at most 320 bytes a strip, scales to at most 192.
    unsafe {
        let mut isum = [[L::zero(); C]; 1];
        for chunk in 0..F::CHUNKS {
            for strip in 0..L::STRIPS {
                prefetch_chunk::<F>(packed.first, chunk, PREFETCH + strip * packed.apart);
            }
            let mut expanded = MaybeUninit::<Buffer<{ 2 * 320 }>>::uninit();
            F::expand_bytes::<L>(packed, chunk, expanded.as_mut_ptr().cast());
            dot_chunk::<F, L, 1, C>([expanded.as_ptr().cast()], chunk, activations, &mut isum);
        }
        let mut scales = MaybeUninit::<Buffer<{ 2 * 192 }>>::uninit();
        F::expand_scales::<L>(packed, scales.as_mut_ptr().cast());
        finish_block::<F, L, 1, C>([scales.as_ptr().cast()], activations, &isum, acc);
    }
}
