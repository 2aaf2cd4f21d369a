//! Quantising activations and laying them out as the products read them.

use crate::avx512::Wide;
use crate::naive::quantise::{LIFT, LIFT_BELOW};
use std::arch::x86_64::*;
use std::ops::Range;

/// The most weights a block holds.
const MAX_BLOCK: usize = 256;
/// The most auxiliary words a format has.
const MAX_AUXILIARY: usize = 17;

/// Quantises one block as [`naive::quantise`](crate::naive::quantise) specifies. `x` and `q` have the same
/// length, a multiple of 32.
#[target_feature(enable = "avx2,fma,f16c")]
fn quantise_block(x: &[f32], q: &mut [i8]) -> f32 {
    let magnitude = _mm256_set1_epi32(0x7fff_ffff);
    let mut largest = _mm256_setzero_si256();
    for x in x.chunks_exact(8) {
        // SAFETY: the chunk has 32 bytes.
        let bits = unsafe { _mm256_loadu_si256(x.as_ptr().cast()) };
        largest = _mm256_max_epu32(largest, _mm256_and_si256(bits, magnitude));
    }
    let amax = f32::from_bits(largest_lane(largest));
    if !amax.is_finite() || amax < f32::MIN_POSITIVE {
        q.fill(0);
        return if amax.is_finite() { 0.0 } else { f32::NAN };
    }
    let lift = if amax < LIFT_BELOW { LIFT } else { 1.0 };
    let (inverse, lift) = (_mm256_set1_ps(127.0 / (amax * lift)), _mm256_set1_ps(lift));
    // Packing interleaves the 128-bit halves; this puts the dwords back in order.
    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    for (x, q) in x.chunks_exact(32).zip(q.chunks_exact_mut(32)) {
        let mut rounded = [_mm256_setzero_si256(); 4];
        for (rounded, x) in rounded.iter_mut().zip(x.chunks_exact(8)) {
            // SAFETY: the chunk has 32 bytes.
            let x = unsafe { _mm256_loadu_ps(x.as_ptr()) };
            // The conversion rounds to nearest, ties to even.
            *rounded = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_mul_ps(x, lift), inverse));
        }
        let low = _mm256_packs_epi32(rounded[0], rounded[1]);
        let high = _mm256_packs_epi32(rounded[2], rounded[3]);
        let bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
        let clamped = _mm256_max_epi8(bytes, _mm256_set1_epi8(-127));
        // SAFETY: the chunk has 32 bytes.
        unsafe { _mm256_storeu_si256(q.as_mut_ptr().cast(), clamped) };
    }
    amax / 127.0
}

/// The largest of eight unsigned lanes.
#[target_feature(enable = "avx2")]
fn largest_lane(v: __m256i) -> u32 {
    let v = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
    let v = _mm_max_epu32(v, _mm_shuffle_epi32::<0b01_00_11_10>(v));
    let v = _mm_max_epu32(v, _mm_shuffle_epi32::<0b10_11_00_01>(v));
    _mm_cvtsi128_si32(v) as u32
}

/// Quantises blocks `blocks` of `x`, `[columns][cols]`, into their part of one tile's stream
/// `[block][word][column]` of `F::WORDS` words: as AVX2's products read them, or those of unsigned bytes (`WIDE`).
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn pack_tile<F: Wide, const WIDE: bool>(
    x: &[f32],
    cols: usize,
    blocks: Range<usize>,
    tile: &mut [u32],
) {
    let columns = x.len() / cols;
    let mut q = [0_i8; MAX_BLOCK];
    let mut auxiliary = [0_u32; MAX_AUXILIARY];
    let q = &mut q[..F::BLOCK];
    for (block, words) in blocks.zip(tile.chunks_exact_mut(F::WORDS * columns)) {
        for column in 0..columns {
            let start = column * cols + block * F::BLOCK;
            let d = quantise_block(&x[start..start + F::BLOCK], q);
            if WIDE {
                F::words(q, d, &mut auxiliary);
            } else {
                F::auxiliary(q, d, &mut auxiliary);
            }
            let (groups, further) = words.split_at_mut(F::BLOCK / 4 * columns);
            for (word, q) in groups[column..].iter_mut().step_by(columns).zip(q.as_chunks::<4>().0) {
                *word = u32::from_le_bytes(q.map(|q| q as u8));
            }
            for (word, &value) in further[column..].iter_mut().step_by(columns).zip(&auxiliary) {
                *word = value;
            }
        }
    }
}
