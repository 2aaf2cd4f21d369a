//! Q6_K. Strip block, 1680 bytes: 8 f16 scales | 4 vectors of signed byte scales, four sub-blocks each | 32
//! vectors of nibbles, four a chunk | 16 vectors of upper bit pairs, one for each sub-block of 16 weights,
//! the pair of group 0, 1, 2, 3 at bit 4, 6, 2, 0.
//!
//! Exactness: a pair of products is at most 2 * 63 * 127 = 16002, never saturating. A 16-bit lane collects 8
//! products (u - 32) * a, at most 8 * 32 * 127 = 32512, exact after wrapping as in Q5_0; a 32-bit lane is at
//! most 16 * 16 * 32 * 127 * 128 = 1.4e8.

use super::format::Format;
use super::gemm::gemm;
use super::lanes::{Sums, dot_groups, start_sums, widen_scaled};
use super::packing::{
    centre, lane, pack_chunk_pair, pack_half, set_lane, set_word, unpack_chunk_pair, unpack_half, word,
};
use super::shuffles::signed_byte;
use super::task::Task;
use super::vector::{Packed, Vector};
use crate::TensorType;
use std::ops::Range;

const SCALES: usize = 16;
const NIBBLES: usize = 144;
const PAIRS: usize = 1168;
/// Vectors of a chunk's nibbles in the strip block, in bytes.
const CHUNK: usize = 128;
/// Where a chunk's two scales are expanded to.
const SCALE: usize = 256;
/// The lowest two bits of each byte.
const TWO_BITS: u32 = 0x0303_0303;
/// Where the bit pair of each group lies in its byte.
const PLACE: [u32; 4] = [4, 6, 2, 0];

pub(crate) struct Q6K;

/// For sub-block `s`: the file offset of its first upper bits, and their place in a byte.
fn upper_bits(s: usize) -> (usize, u32) {
    let (half, run) = (s / 8, s % 8 / 2);
    (128 + 32 * half + 16 * (s % 2), 2 * run as u32)
}

/// For each pair of chunks: the file offset of their nibbles, and the chunks (in the low and high ones).
const CHUNK_PAIRS: [(usize, usize, usize); 4] = [(0, 0, 2), (32, 1, 3), (64, 4, 6), (96, 5, 7)];

impl Format for Q6K {
    const TENSOR_TYPE: TensorType = TensorType::Q6K;
    const CHUNK_BYTES: usize = 320;
    const SCALE_BYTES: usize = 32;
    const AUXILIARY: usize = 17;
    const STRETCH: usize = 4;
    const TILE_COLUMNS: usize = 3;

    fn pack(block: &[u8], row: usize, strip: &mut [u8]) {
        pack_half(block, 208, strip, 0, row);
        for i in 0..4 {
            set_lane(strip, SCALES + 32 * i, row, word(block, 192 + 4 * i));
        }
        for (from, low, high) in CHUNK_PAIRS {
            pack_chunk_pair(block, from, strip, (NIBBLES + CHUNK * low, NIBBLES + CHUNK * high), row);
        }
        for s in 0..16 {
            let (from, shift) = upper_bits(s);
            let group = |g: usize| ((word(block, from + 4 * g) >> shift) & TWO_BITS) << PLACE[g];
            set_lane(strip, PAIRS + 32 * s, row, (0..4).map(group).sum());
        }
    }

    fn unpack(strip: &[u8], row: usize, block: &mut [u8]) {
        unpack_half(strip, 0, row, block, 208);
        for i in 0..4 {
            set_word(block, 192 + 4 * i, lane(strip, SCALES + 32 * i, row));
        }
        for (from, low, high) in CHUNK_PAIRS {
            unpack_chunk_pair(strip, (NIBBLES + CHUNK * low, NIBBLES + CHUNK * high), row, block, from);
        }
        block[128..192].fill(0);
        for s in 0..16 {
            let (from, shift) = upper_bits(s);
            let pairs = lane(strip, PAIRS + 32 * s, row);
            for (g, place) in PLACE.into_iter().enumerate() {
                let merged = word(block, from + 4 * g) | (((pairs >> place) & TWO_BITS) << shift);
                set_word(block, from + 4 * g, merged);
            }
        }
    }

    #[inline(always)]
    fn auxiliary(q: &[i8], d: f32, words: &mut [u32]) {
        for (word, q) in words.iter_mut().zip(q.chunks_exact(16)) {
            *word = centre(q, 32);
        }
        words[16] = d.to_bits();
    }

    #[inline(always)]
    unsafe fn expand_chunk<V: Vector>(packed: Packed, chunk: usize, expanded: *mut u8) {
        // SAFETY: the caller's promise (`Format`).
        unsafe {
            let upper = V::set_bytes(0x30);
            for half in 0..2 {
                let s = 2 * chunk + half;
                let (q, pairs) = (NIBBLES + 64 * s, V::load_packed(packed, PAIRS + 32 * s));
                let (g0, g1) = V::nibbles(V::load_packed(packed, q));
                let (g2, g3) = V::nibbles(V::load_packed(packed, q + 32));
                let join = |low, shifted| V::or(low, V::and(shifted, upper));
                let groups = [
                    join(g0, pairs),
                    join(g1, V::shift_right::<2>(pairs)),
                    join(g2, V::shift_left::<2>(pairs)),
                    join(g3, V::shift_left::<4>(pairs)),
                ];
                for (g, group) in groups.into_iter().enumerate() {
                    V::store(expanded.add((4 * half + g) * V::BYTES), group);
                }
                let scales = V::load_packed(packed, SCALES + 32 * (s / 4));
                V::store(expanded.add((8 + half) * V::BYTES), signed_byte::<V>(scales, s % 4));
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
        chunk: usize,
        activations: *const u32,
        isum: &mut Sums<R, C>,
    ) {
        // SAFETY: the caller's promise (`Format`); the words after the 64 groups are `centre` of each
        // sub-block.
        unsafe {
            for half in 0..2 {
                let s = 2 * chunk + half;
                let mut sums = start_sums::<R, C>(activations.add((64 + s) * C));
                let groups = activations.add(4 * C * s);
                dot_groups::<R, C, 4>(expanded.map(|p| p.add(128 * half)), groups, &mut sums);
                widen_scaled(expanded.map(|p| p.add(SCALE + 32 * half)), &sums, isum);
            }
        }
    }

    unsafe fn multiply_many(task: &Task<'_>, strips: Range<usize>) {
        // SAFETY: the caller's promise (`Format`).
        unsafe { gemm::<Self, 2, 3>(task, strips) }
    }
}
