//! Q4_1. Strip block, 160 bytes: 8 f16 scales | 8 f16 minima | 4 vectors of nibbles.
//!
//! Exactness: a pair of products is at most 2 * 15 * 127 = 3810, never saturating. A 16-bit lane collects 16
//! products u * a, at most 16 * 15 * 127 = 30480. The minimum is added: `acc = fma(f32(sum of q), m * d, acc)`.

use super::format::Format;
use super::gemm::gemm;
use super::lanes::{Accumulators, Sums, accumulate, broadcast_float, dot_groups, load_floats, widen};
use super::packing::{pack_half, pack_nibbles, sum, unpack_half, unpack_nibbles};
use super::task::Task;
use super::vector::{Packed, Vector};
use crate::TensorType;
use std::arch::x86_64::*;
use std::ops::Range;

const MINIMA: usize = 16;
const NIBBLES: usize = 32;

pub(crate) struct Q4_1;

impl Format for Q4_1 {
    const TENSOR_TYPE: TensorType = TensorType::Q4_1;
    const CHUNK_BYTES: usize = 256;
    const SCALE_BYTES: usize = 64;
    const AUXILIARY: usize = 2;
    const STRETCH: usize = 32;
    const TILE_COLUMNS: usize = 3;

    fn pack(block: &[u8], row: usize, strip: &mut [u8]) {
        pack_half(block, 0, strip, 0, row);
        pack_half(block, 2, strip, MINIMA, row);
        pack_nibbles(block, 4, strip, NIBBLES, row);
    }

    fn unpack(strip: &[u8], row: usize, block: &mut [u8]) {
        unpack_half(strip, 0, row, block, 0);
        unpack_half(strip, MINIMA, row, block, 2);
        unpack_nibbles(strip, NIBBLES, row, block, 4);
    }

    #[inline(always)]
    fn auxiliary(q: &[i8], d: f32, words: &mut [u32]) {
        words[0] = (sum(q) as f32).to_bits();
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
        unsafe {
            V::expand_halves(packed, 0, expanded);
            V::expand_halves(packed, MINIMA, expanded.add(V::BYTES));
        }
    }

    #[inline(always)]
    unsafe fn dot_chunk<const R: usize, const C: usize>(
        expanded: [*const u8; R],
        _chunk: usize,
        activations: *const u32,
        isum: &mut Sums<R, C>,
    ) {
        // SAFETY: the caller's promise (`Format`).
        unsafe {
            let mut sums = [[_mm256_setzero_si256(); C]; R];
            dot_groups::<R, C, 8>(expanded, activations, &mut sums);
            widen(&sums, isum);
        }
    }

    #[inline(always)]
    unsafe fn finish_block<const R: usize, const C: usize>(
        scales: [*const u8; R],
        activations: *const u32,
        isum: &Sums<R, C>,
        acc: &mut Accumulators<R, C>,
    ) {
        // SAFETY: the caller's promise (`Format`); the words after the eight groups are the sum and d.
        unsafe {
            accumulate(scales, activations.add(9 * C), isum, acc);
            for r in 0..R {
                let minimum = load_floats(scales[r].add(32));
                for c in 0..C {
                    let factor = _mm256_mul_ps(minimum, broadcast_float(activations.add(9 * C + c)));
                    let sum = broadcast_float(activations.add(8 * C + c));
                    acc[r][c] = _mm256_fmadd_ps(sum, factor, acc[r][c]);
                }
            }
        }
    }

    unsafe fn multiply_many(task: &Task<'_>, strips: Range<usize>) {
        // SAFETY: the caller's promise (`Format`).
        unsafe { gemm::<Self, 2, 3>(task, strips) }
    }
}
