//! The fifth bits of 5-bit weights: one vector for a chunk of 32 weights.
//!
//! Byte j of a row's dword holds the bits of weights j, 4 + j, 8 + j … 28 + j (one of each group), at places
//! chosen so that one running shift and one AND bring the next group's bits to bit 4.

use super::lanes::nibbles;
use std::arch::x86_64::*;

/// Where the bit of each group lies.
pub(super) const PLACE: [u32; 8] = [4, 5, 6, 7, 3, 2, 1, 0];

/// Nibble to word: bit j of the nibble becomes bit 0 of byte j.
const SPREAD: [u32; 16] = {
    let mut table = [0; 16];
    let mut i = 0;
    while i < 16 {
        let n = i as u32;
        table[i] = (n & 1) | ((n & 2) << 7) | ((n & 4) << 14) | ((n & 8) << 21);
        i += 1;
    }
    table
};

/// A chunk's word from its 32 bits in order of weights.
pub(super) fn pack_bits(bits: u32) -> u32 {
    let group = |g: usize| SPREAD[((bits >> (4 * g)) & 15) as usize] << PLACE[g];
    (0..8).map(group).sum()
}

/// The inverse of [`pack_bits`].
pub(super) fn unpack_bits(word: u32) -> u32 {
    let bit = |k: usize| ((word >> (8 * (k % 4) as u32 + PLACE[k / 4])) & 1) << k;
    (0..32).map(bit).sum()
}

/// The eight groups of a chunk as 5-bit bytes: four vectors of nibbles and the vector of fifth bits.
///
/// # Safety
/// Needs AVX2.
#[inline(always)]
pub(super) unsafe fn join(low: [__m256i; 4], fifth: __m256i) -> [__m256i; 8] {
    // SAFETY: register operations; the caller has AVX2.
    unsafe {
        let bit = _mm256_set1_epi8(16);
        let mut groups = [_mm256_setzero_si256(); 8];
        let mut shifted = fifth;
        for i in 0..4 {
            let (even, odd) = nibbles(low[i]);
            if i == 2 {
                shifted = _mm256_slli_epi16::<1>(fifth);
            }
            groups[2 * i] = _mm256_or_si256(even, _mm256_and_si256(shifted, bit));
            shifted = next(shifted, i);
            groups[2 * i + 1] = _mm256_or_si256(odd, _mm256_and_si256(shifted, bit));
            shifted = next(shifted, i);
        }
        groups
    }
}

/// Right through bits 5, 6, 7, then left through 2, 1, 0.
#[inline(always)]
unsafe fn next(shifted: __m256i, i: usize) -> __m256i {
    // SAFETY: register operations; the caller has AVX2.
    unsafe { if i < 2 { _mm256_srli_epi16::<1>(shifted) } else { _mm256_slli_epi16::<1>(shifted) } }
}
