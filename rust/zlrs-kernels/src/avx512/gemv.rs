//! The product with few columns, see [`avx2`](crate::avx2): one strip a vector.

use super::lanes::{Lanes, One};
use super::wide::{Wide, dot_chunk, finish_block};
use crate::avx2::matmul::gemv::{MAX_COLUMNS, PREFETCH, prefetch_chunk};
use crate::avx2::matmul::lanes::Buffer;
use crate::avx2::matmul::task::Task;
use std::arch::x86_64::*;
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
            1 => strips_at_once::<F, 2, 1>(task, strips),
            2 => strips_at_once::<F, 2, 2>(task, strips),
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

/// C columns; S strips far apart are walked together, so that one core keeps two streams of reads going.
///
/// # Safety
/// As [`gemv`].
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn strips_at_once<F: Wide, const S: usize, const C: usize>(task: &Task<'_>, strips: Range<usize>) {
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

/// One block of one strip with C columns.
///
/// # Safety
/// As `Format` states for `packed` and `activations`.
#[inline(always)]
unsafe fn multiply_block<F: Wide, const C: usize>(
    packed: *const u8,
    activations: *const u32,
    acc: &mut [[__m256; C]; 1],
) {
    // SAFETY: the caller's promise; a chunk expands to at most 320 bytes, scales to at most 192.
    unsafe {
        let mut isum = [[One::zero(); C]; 1];
        for chunk in 0..F::CHUNKS {
            prefetch_chunk::<F>(packed, chunk, PREFETCH);
            let mut expanded = MaybeUninit::<Buffer<320>>::uninit();
            F::expand_bytes(packed, chunk, expanded.as_mut_ptr().cast());
            dot_chunk::<F, One, 1, C>([expanded.as_ptr().cast()], chunk, activations, &mut isum);
        }
        let mut scales = MaybeUninit::<Buffer<192>>::uninit();
        F::expand_scales(packed, scales.as_mut_ptr().cast());
        finish_block::<F, One, 1, C>([scales.as_ptr().cast()], activations, &isum, acc);
    }
}
