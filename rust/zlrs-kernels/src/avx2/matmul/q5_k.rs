//! Q5_K. Strip block, 1408 bytes: 128 of scales (`k_scales`) | 32 vectors of nibbles, four a chunk | 8 vectors
//! of fifth bits, one a chunk.
//!
//! Exactness: a 16-bit lane collects 8 products u * a, at most 8 * 31 * 127 = 31496, so each half of a chunk
//! is widened by itself. The widening multiplication applies the 6-bit scale; a 32-bit lane is at most
//! 8 * 2 * 63 * 62992 = 6.4e7.

use super::fifth_bits::{PLACE, join};
use super::format::Format;
use super::gemm::gemm;
use super::k_scales::{self, NIBBLES};
use super::lanes::{Accumulators, Sums, dot_groups, widen_scaled};
use super::packing::{lane, pack_chunk_pair, set_lane, set_word, unpack_chunk_pair, word};
use super::task::Task;
use super::vector::{Packed, Vector};
use crate::TensorType;
use std::arch::x86_64::*;
use std::ops::Range;

/// Vectors of a chunk in the strip block, in bytes.
const CHUNK: usize = 128;
/// Where the fifth bits of a strip block begin.
const FIFTH: usize = 1152;
/// Where a chunk's scale is expanded to.
const SCALE: usize = 256;
/// The lowest bit of each byte.
const ONES: u32 = 0x0101_0101;

pub(crate) struct Q5K;

impl Format for Q5K {
    const TENSOR_TYPE: TensorType = TensorType::Q5K;
    const CHUNK_BYTES: usize = 288;
    const SCALE_BYTES: usize = k_scales::SCALE_BYTES;
    const AUXILIARY: usize = k_scales::AUXILIARY;
    const STRETCH: usize = 4;
    const TILE_COLUMNS: usize = 3;

    fn pack(block: &[u8], row: usize, strip: &mut [u8]) {
        k_scales::pack(block, row, strip);
        for pair in 0..4 {
            let low = NIBBLES + 2 * pair * CHUNK;
            pack_chunk_pair(block, 48 + 32 * pair, strip, (low, low + CHUNK), row);
        }
        // Bit `chunk` of file byte 16 + l is the fifth bit of weight l of the chunk.
        for chunk in 0..8 {
            let group = |g: usize| ((word(block, 16 + 4 * g) >> chunk) & ONES) << PLACE[g];
            set_lane(strip, FIFTH + 32 * chunk, row, (0..8).map(group).sum());
        }
    }

    fn unpack(strip: &[u8], row: usize, block: &mut [u8]) {
        k_scales::unpack(strip, row, block);
        for pair in 0..4 {
            let low = NIBBLES + 2 * pair * CHUNK;
            unpack_chunk_pair(strip, (low, low + CHUNK), row, block, 48 + 32 * pair);
        }
        for g in 0..8 {
            let chunk = |i: usize| ((lane(strip, FIFTH + 32 * i, row) >> PLACE[g]) & ONES) << i;
            set_word(block, 16 + 4 * g, (0..8).map(chunk).sum());
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
            let low = [0, 1, 2, 3].map(|i| V::load_packed(packed, NIBBLES + CHUNK * chunk + 32 * i));
            let fifth = V::load_packed(packed, FIFTH + 32 * chunk);
            for (g, group) in join::<V>(low, fifth).into_iter().enumerate() {
                V::store(expanded.add(g * V::BYTES), group);
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
            for half in 0..2 {
                let mut sums = [[_mm256_setzero_si256(); C]; R];
                let groups = activations.add(8 * C * chunk + 4 * C * half);
                dot_groups::<R, C, 4>(expanded.map(|p| p.add(128 * half)), groups, &mut sums);
                widen_scaled(expanded.map(|p| p.add(SCALE)), &sums, isum);
            }
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
