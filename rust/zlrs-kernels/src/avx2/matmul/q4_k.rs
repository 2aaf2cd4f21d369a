//! Q4_K. Strip block, 1152 bytes: 128 of scales (`k_scales`) | 32 vectors of nibbles, four a chunk.
//!
//! Exactness: a 16-bit lane collects 16 products u * a, at most 16 * 15 * 127 = 30480. The widening
//! multiplication applies the 6-bit scale; a 32-bit lane is at most 8 * 63 * 60960 = 3.1e7.

use super::format::Format;
use super::gemm::gemm;
use super::k_scales::{self, NIBBLES};
use super::lanes::{Accumulators, Sums, dot_groups, widen_scaled};
use super::packing::{pack_chunk_pair, unpack_chunk_pair};
use super::task::Task;
use super::vector::{Packed, Vector};
use crate::TensorType;
use std::arch::x86_64::*;
use std::ops::Range;

/// Vectors of a chunk in the strip block, in bytes.
const CHUNK: usize = 128;
/// Where a chunk's scale is expanded to.
const SCALE: usize = 256;

pub(crate) struct Q4K;

impl Format for Q4K {
    const TENSOR_TYPE: TensorType = TensorType::Q4K;
    const CHUNK_BYTES: usize = 288;
    const SCALE_BYTES: usize = k_scales::SCALE_BYTES;
    const AUXILIARY: usize = k_scales::AUXILIARY;
    const STRETCH: usize = 4;
    const TILE_COLUMNS: usize = 3;

    fn pack(block: &[u8], row: usize, strip: &mut [u8]) {
        k_scales::pack(block, row, strip);
        for pair in 0..4 {
            let low = NIBBLES + 2 * pair * CHUNK;
            pack_chunk_pair(block, 16 + 32 * pair, strip, (low, low + CHUNK), row);
        }
    }

    fn unpack(strip: &[u8], row: usize, block: &mut [u8]) {
        k_scales::unpack(strip, row, block);
        for pair in 0..4 {
            let low = NIBBLES + 2 * pair * CHUNK;
            unpack_chunk_pair(strip, (low, low + CHUNK), row, block, 16 + 32 * pair);
        }
    }

    #[inline(always)]
    fn auxiliary(q: &[i8], d: f32, words: &mut [u32]) {
        k_scales::auxiliary(q, d, words);
    }

    #[inline(always)]
    unsafe fn expand_chunk<V: Vector>(packed: Packed, chunk: usize, expanded: *mut u8) {
        // SAFETY: the caller's promise (`Format`).
        unsafe {
            for i in 0..4 {
                let (even, odd) = V::nibbles(V::load_packed(packed, NIBBLES + CHUNK * chunk + 32 * i));
                V::store(expanded.add(2 * i * V::BYTES), even);
                V::store(expanded.add((2 * i + 1) * V::BYTES), odd);
            }
            k_scales::expand_scale::<V>(packed, chunk, expanded.add(8 * V::BYTES));
        }
    }

    #[inline(always)]
    unsafe fn expand_scales<V: Vector>(packed: Packed, expanded: *mut u8) {
        // SAFETY: the caller's promise (`Format`).
        unsafe { k_scales::expand::<V>(packed, expanded) }
    }

    #[inline(always)]
    unsafe fn dot_chunk<const R: usize, const C: usize>(
        expanded: [*const u8; R],
        chunk: usize,
        activations: *const u32,
        isum: &mut Sums<R, C>,
    ) {
        // SAFETY: the caller's promise (`Format`).
        unsafe {
            let mut sums = [[_mm256_setzero_si256(); C]; R];
            dot_groups::<R, C, 8>(expanded, activations.add(8 * C * chunk), &mut sums);
            widen_scaled(expanded.map(|p| p.add(SCALE)), &sums, isum);
        }
    }

    #[inline(always)]
    unsafe fn finish_block<const R: usize, const C: usize>(
        scales: [*const u8; R],
        activations: *const u32,
        isum: &Sums<R, C>,
        acc: &mut Accumulators<R, C>,
    ) {
        // SAFETY: the caller's promise (`Format`).
        unsafe { k_scales::finish(scales, activations, isum, acc) }
    }

    unsafe fn multiply_many(task: &Task<'_>, strips: Range<usize>) {
        // SAFETY: the caller's promise (`Format`).
        unsafe { gemm::<Self, 2, 3>(task, strips) }
    }
}
