//! Q8_0. Strip block, 272 bytes: 8 f16 scales | 8 vectors of bytes, vector g the weights 4g..4g + 4.
//!
//! Both sides are signed, so the product is |w| times sign(a, w). Exactness: |w| as an unsigned byte is right
//! even for -128; a is within +-127, so its sign can change; a pair is at most 2 * 128 * 127 = 32512, never
//! saturating, and is widened to 32 bits at once.

use super::format::Format;
use super::gemm::gemm;
use super::lanes::{Sums, broadcast, load, multiply_words};
use super::packing::{lane, pack_half, set_lane, set_word, sum, unpack_half, word};
use super::task::Task;
use super::vector::{Packed, Vector};
use crate::TensorType;
use std::arch::x86_64::*;
use std::ops::Range;

/// Where the weights of a strip block begin.
pub(crate) const BYTES: usize = 16;

pub(crate) struct Q8_0;

impl Format for Q8_0 {
    const TENSOR_TYPE: TensorType = TensorType::Q8_0;
    const CHUNK_BYTES: usize = 256;
    const SCALE_BYTES: usize = 32;
    const AUXILIARY: usize = 2;
    const STRETCH: usize = 32;
    const TILE_COLUMNS: usize = 4;

    fn pack(block: &[u8], row: usize, strip: &mut [u8]) {
        pack_half(block, 0, strip, 0, row);
        for g in 0..8 {
            set_lane(strip, BYTES + 32 * g, row, word(block, 2 + 4 * g));
        }
    }

    fn unpack(strip: &[u8], row: usize, block: &mut [u8]) {
        unpack_half(strip, 0, row, block, 0);
        for g in 0..8 {
            set_word(block, 2 + 4 * g, lane(strip, BYTES + 32 * g, row));
        }
    }

    #[inline(always)]
    fn auxiliary(q: &[i8], d: f32, words: &mut [u32]) {
        // For products of unsigned bytes only, which take w + 128.
        words[0] = (-128 * sum(q)) as u32;
        words[1] = d.to_bits();
    }

    #[inline(always)]
    unsafe fn expand_chunk<V: Vector>(packed: Packed, _chunk: usize, expanded: *mut u8) {
        // SAFETY: the caller's promise (`Format`).
        unsafe {
            for g in 0..8 {
                V::store(expanded.add(g * V::BYTES), V::load_packed(packed, BYTES + 32 * g));
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
        // SAFETY: the caller's promise (`Format`).
        unsafe {
            let one = _mm256_set1_epi16(1);
            for g in 0..8 {
                for r in 0..R {
                    let w = load(expanded[r].add(32 * g));
                    let magnitude = _mm256_abs_epi8(w);
                    for c in 0..C {
                        let a = _mm256_sign_epi8(broadcast(activations.add(g * C + c)), w);
                        isum[r][c] = multiply_words(isum[r][c], _mm256_maddubs_epi16(magnitude, a), one);
                    }
                }
            }
        }
    }

    unsafe fn multiply_many(task: &Task<'_>, strips: Range<usize>) {
        // SAFETY: the caller's promise (`Format`).
        unsafe { gemm::<Self, 1, 4>(task, strips) }
    }
}
