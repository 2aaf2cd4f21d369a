//! The fifth bits of 5-bit weights: one vector for a chunk of 32 weights.
//!
//! Byte j of a row's dword holds the bits of weights j, 4 + j, 8 + j … 28 + j (one of each group), at places
//! chosen so that one running shift and one AND bring the next group's bits to bit 4.

use super::vector::Vector;

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
/// Needs what `V` needs.
#[inline(always)]
pub(super) unsafe fn join<V: Vector>(low: [V::Integers; 4], fifth: V::Integers) -> [V::Integers; 8] {
    // SAFETY: register operations; the caller's promise.
    unsafe {
        let bit = V::set_bytes(16);
        let mut groups = [bit; 8];
        let mut shifted = fifth;
        for i in 0..4 {
            let (even, odd) = V::nibbles(low[i]);
            if i == 2 {
                shifted = V::shift_left::<1>(fifth);
            }
            groups[2 * i] = V::or(even, V::and(shifted, bit));
            shifted = next::<V>(shifted, i);
            groups[2 * i + 1] = V::or(odd, V::and(shifted, bit));
            shifted = next::<V>(shifted, i);
        }
        groups
    }
}

/// Right through bits 5, 6, 7, then left through 2, 1, 0.
///
/// # Safety
/// Needs what `V` needs.
#[inline(always)]
unsafe fn next<V: Vector>(shifted: V::Integers, i: usize) -> V::Integers {
    // SAFETY: register operations; the caller's promise.
    unsafe { if i < 2 { V::shift_right::<1>(shifted) } else { V::shift_left::<1>(shifted) } }
}
