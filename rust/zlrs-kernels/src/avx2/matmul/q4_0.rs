//! Q4_0. Strip block, 144 bytes: 8 f16 scales | 4 vectors of nibbles.
//!
//! Exactness: a pair of products is at most 2 * 15 * 127 = 3810, never saturating. A 16-bit lane collects 16
//! products (u - 8) * a, at most 16 * 8 * 127 = 16256.

use super::format::Format;
use super::gemm::gemm;
use super::lanes::{Sums, dot_groups, start_sums, widen};
use super::packing::{centre, pack_half, pack_nibbles, unpack_half, unpack_nibbles};
use super::task::Task;
use super::vector::{Packed, Vector};
use crate::TensorType;
use std::ops::Range;

const NIBBLES: usize = 16;

pub(crate) struct Q4_0;

impl Format for Q4_0 {
    const TENSOR_TYPE: TensorType = TensorType::Q4_0;
    const CHUNK_BYTES: usize = 256;
    const SCALE_BYTES: usize = 32;
    const AUXILIARY: usize = 2;
    const STRETCH: usize = 32;
    const TILE_COLUMNS: usize = 3;

    fn pack(block: &[u8], row: usize, strip: &mut [u8]) {
        pack_half(block, 0, strip, 0, row);
        pack_nibbles(block, 2, strip, NIBBLES, row);
    }

    fn unpack(strip: &[u8], row: usize, block: &mut [u8]) {
        unpack_half(strip, 0, row, block, 0);
        unpack_nibbles(strip, NIBBLES, row, block, 2);
    }

    #[inline(always)]
    fn auxiliary(q: &[i8], d: f32, words: &mut [u32]) {
        words[0] = centre(q, 8);
        words[1] = d.to_bits();
    }

    #[inline(always)]
    unsafe fn expand_chunk<V: Vector>(packed: Packed, _chunk: usize, expanded: *mut u8) {
        // SAFETY: the caller's promise (`Format`).
        unsafe {
            for i in 0..4 {
                let (even, odd) = V::nibbles(V::load_packed(packed, NIBBLES + 32 * i));
                V::store(expanded.add(2 * i * V::BYTES), even);
                V::store(expanded.add((2 * i + 1) * V::BYTES), odd);
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
