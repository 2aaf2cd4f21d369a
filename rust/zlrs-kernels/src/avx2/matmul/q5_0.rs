//! Q5_0. Strip block, 176 bytes: 8 f16 scales | 4 vectors of nibbles | 1 vector of fifth bits.
//!
//! Exactness: a pair of products is at most 2 * 31 * 127 = 7874, never saturating. A 16-bit lane collects 16
//! products (u - 16) * a, at most 16 * 16 * 127 = 32512, so the final lane is exact although sums of u * a on
//! the way may wrap: additions are modulo 2^16 and `-16 * sum(a)` is the lane's start.

use super::fifth_bits::{join, pack_bits, unpack_bits};
use super::format::Format;
use super::gemm::gemm;
use super::lanes::{Sums, dot_groups, start_sums, widen};
use super::packing::{
    centre, lane, pack_half, pack_nibbles, set_lane, set_word, unpack_half, unpack_nibbles, word,
};
use super::task::Task;
use super::vector::{Packed, Vector};
use crate::TensorType;
use std::ops::Range;

const NIBBLES: usize = 16;
const FIFTH: usize = 144;

pub(crate) struct Q5_0;

impl Format for Q5_0 {
    const TENSOR_TYPE: TensorType = TensorType::Q5_0;
    const CHUNK_BYTES: usize = 256;
    const SCALE_BYTES: usize = 32;
    const AUXILIARY: usize = 2;
    const STRETCH: usize = 32;
    const TILE_COLUMNS: usize = 3;

    fn pack(block: &[u8], row: usize, strip: &mut [u8]) {
        pack_half(block, 0, strip, 0, row);
        pack_nibbles(block, 6, strip, NIBBLES, row);
        set_lane(strip, FIFTH, row, pack_bits(word(block, 2)));
    }

    fn unpack(strip: &[u8], row: usize, block: &mut [u8]) {
        unpack_half(strip, 0, row, block, 0);
        unpack_nibbles(strip, NIBBLES, row, block, 6);
        set_word(block, 2, unpack_bits(lane(strip, FIFTH, row)));
    }

    #[inline(always)]
    fn auxiliary(q: &[i8], d: f32, words: &mut [u32]) {
        words[0] = centre(q, 16);
        words[1] = d.to_bits();
    }

    #[inline(always)]
    unsafe fn expand_chunk<V: Vector>(packed: Packed, _chunk: usize, expanded: *mut u8) {
        // SAFETY: the caller's promise (`Format`).
        unsafe {
            let low = [0, 1, 2, 3].map(|i| V::load_packed(packed, NIBBLES + 32 * i));
            let fifth = V::load_packed(packed, FIFTH);
            for (g, group) in join::<V>(low, fifth).into_iter().enumerate() {
                V::store(expanded.add(g * V::BYTES), group);
            }
        }
    }

    #[inline(always)]
    unsafe fn expand_scales<V: Vector>(packed: Packed, expanded: *mut u8) {
        // SAFETY: the caller's promise (`Format`).
        unsafe { V::expand_halves(packed, 0, expanded) }
    }

    #[inline(always)]
    unsafe fn dot_chunk<const R: usize, const C: usize>(
        expanded: [*const u8; R],
        _chunk: usize,
        activations: *const u32,
        isum: &mut Sums<R, C>,
    ) {
        // SAFETY: the caller's promise (`Format`); the word after the eight groups is `centre`.
        unsafe {
            let mut sums = start_sums::<R, C>(activations.add(8 * C));
            dot_groups::<R, C, 8>(expanded, activations, &mut sums);
            widen(&sums, isum);
        }
    }

    unsafe fn multiply_many(task: &Task<'_>, strips: Range<usize>) {
        // SAFETY: the caller's promise (`Format`).
        unsafe { gemm::<Self, 2, 3>(task, strips) }
    }
}
