//! What Q4_K and Q5_K share: two f16 and twelve bytes of eight 6-bit scales and eight 6-bit minima a block.
//!
//! A strip block begins with 128 bytes: 8 f16 d | 8 f16 dmin | 3 vectors, each dword a row. Byte j of the
//! vectors holds in its low six bits scale j, scale 4 + j, minimum j; their top two bits are bits 0-1, 2-3
//! and 4-5 of minimum 4 + j.
//!
//! Expanded scales, 192 bytes: eight f32 d | eight f32 dmin | 4 vectors of minima as 16-bit pairs (2j,
//! 2j + 1). The words of activations: 64 groups | 4 pairs of sums of sub-blocks | d.

use super::lanes::{
    Accumulators, Sums, accumulate, broadcast, broadcast_float, load, load_floats, multiply_words,
};
use super::packing::{lane, pack_half, pair, set_lane, set_word, sum, unpack_half, word};
use super::shuffles::{LOW, PAIR};
use super::vector::{Packed, Vector};
use std::arch::x86_64::*;

/// Bytes of expanded scales.
pub(crate) const SCALE_BYTES: usize = 192;
/// Auxiliary words of activations.
pub(crate) const AUXILIARY: usize = 5;
/// Where the nibbles of a strip block begin.
pub(crate) const NIBBLES: usize = 128;

/// First word of the sums.
const SUMS: usize = 64;
const DMIN: usize = 16;
const VECTORS: [usize; 3] = [32, 64, 96];
const SIX_BITS: u32 = 0x3f3f_3f3f;
const TWO_BITS: u32 = 0x0303_0303;
const LOW_NIBBLES: u32 = 0x0f0f_0f0f;
const UPPER_TWO_OF_SIX: u32 = 0x3030_3030;

/// Packs the first 16 bytes of a block.
pub(crate) fn pack(block: &[u8], row: usize, strip: &mut [u8]) {
    pack_half(block, 0, strip, 0, row);
    pack_half(block, 2, strip, DMIN, row);
    let (a, b, c) = (word(block, 4), word(block, 8), word(block, 12));
    let scales_upper = (c & LOW_NIBBLES) | ((a >> 2) & UPPER_TWO_OF_SIX);
    let minima_upper = ((c >> 4) & LOW_NIBBLES) | ((b >> 2) & UPPER_TWO_OF_SIX);
    let vectors = [a & SIX_BITS, scales_upper, b & SIX_BITS];
    for (i, (offset, low)) in VECTORS.into_iter().zip(vectors).enumerate() {
        set_lane(strip, offset, row, low | (((minima_upper >> (2 * i)) & TWO_BITS) << 6));
    }
}

/// The inverse of [`pack`].
pub(crate) fn unpack(strip: &[u8], row: usize, block: &mut [u8]) {
    unpack_half(strip, 0, row, block, 0);
    unpack_half(strip, DMIN, row, block, 2);
    let [s0, s1, s2] = VECTORS.map(|offset| lane(strip, offset, row));
    let top = |v: u32| (v >> 6) & TWO_BITS;
    let minima_upper = top(s0) | (top(s1) << 2) | (top(s2) << 4);
    let scales_upper = s1 & SIX_BITS;
    set_word(block, 4, (s0 & SIX_BITS) | (((scales_upper >> 4) & TWO_BITS) << 6));
    set_word(block, 8, (s2 & SIX_BITS) | (((minima_upper >> 4) & TWO_BITS) << 6));
    set_word(block, 12, (scales_upper & LOW_NIBBLES) | ((minima_upper & LOW_NIBBLES) << 4));
}

/// The auxiliary words. A sum of 32 bytes is within +-4064, so a pair fits a dword.
#[inline(always)]
pub(crate) fn auxiliary(q: &[i8], d: f32, words: &mut [u32]) {
    for (word, q) in words.iter_mut().zip(q.chunks_exact(64)) {
        *word = pair(sum(&q[..32]), sum(&q[32..]));
    }
    words[4] = d.to_bits();
}

/// Scale `chunk` of each row in both 16-bit halves of its dword, for `widen_scaled`.
///
/// # Safety
/// Needs what `V` needs; `packed` are strip blocks, `chunk < 8`, `expanded` has a vector.
#[inline(always)]
pub(crate) unsafe fn expand_scale<V: Vector>(packed: Packed, chunk: usize, expanded: *mut u8) {
    // SAFETY: the vectors of scales are the first two.
    unsafe {
        let scales = V::load_packed(packed, VECTORS[0] + 32 * (chunk / 4));
        V::store(expanded, V::shuffle(V::and(scales, V::set_bytes(63)), LOW.entry(chunk % 4)));
    }
}

/// Expands d, dmin and minima.
///
/// # Safety
/// Needs what `V` needs; `packed` are strip blocks, `expanded` has [`SCALE_BYTES`] a strip.
#[inline(always)]
pub(crate) unsafe fn expand<V: Vector>(packed: Packed, expanded: *mut u8) {
    // SAFETY: inside both by the layout in the module's text.
    unsafe {
        let and = |v, mask: i8| V::and(v, V::set_bytes(mask));
        let [s0, s1, s2] = VECTORS.map(|offset| V::load_packed(packed, offset));
        let middle = V::or(and(V::shift_right::<4>(s1), 12), and(V::shift_right::<2>(s2), 48));
        let upper = V::or(and(V::shift_right::<6>(s0), 3), middle);
        for j in 0..2 {
            V::store(expanded.add((2 + j) * V::BYTES), V::shuffle(and(s2, 63), PAIR.entry(j)));
            V::store(expanded.add((4 + j) * V::BYTES), V::shuffle(upper, PAIR.entry(j)));
        }
        V::expand_halves(packed, 0, expanded);
        V::expand_halves(packed, DMIN, expanded.add(V::BYTES));
    }
}

/// `acc = fma(f32(isum), d_w * d, acc)`, then `acc = fma(-f32(msum), dmin * d, acc)`.
///
/// # Safety
/// Needs AVX2 and FMA; `scales` are expanded scales, `activations` one block of a tile.
#[inline(always)]
pub(crate) unsafe fn finish<const R: usize, const C: usize>(
    scales: [*const u8; R],
    activations: *const u32,
    isum: &Sums<R, C>,
    acc: &mut Accumulators<R, C>,
) {
    // SAFETY: inside both by the layouts in the module's text.
    unsafe {
        let d = activations.add((SUMS + 4) * C);
        accumulate(scales, d, isum, acc);
        for r in 0..R {
            let dmin = load_floats(scales[r].add(32));
            for c in 0..C {
                let mut msum = _mm256_setzero_si256();
                for j in 0..4 {
                    let sums = broadcast(activations.add((SUMS + j) * C + c));
                    msum = multiply_words(msum, load(scales[r].add(64 + 32 * j)), sums);
                }
                let factor = _mm256_mul_ps(dmin, broadcast_float(d.add(c)));
                acc[r][c] = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(msum), factor, acc[r][c]);
            }
        }
    }
}
