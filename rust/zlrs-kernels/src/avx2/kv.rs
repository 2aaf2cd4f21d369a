//! Rounding of keys and values to f16, eight at a time; the last few by the scalar functions.

use core::arch::x86_64::{_MM_FROUND_TO_NEAREST_INT, _mm_storeu_si128, _mm256_cvtps_ph};

use super::float::load;
use crate::kv::BLOCK_TOKENS;
use crate::naive::kv as scalar;

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn to_half(from: &[f32; 8], to: &mut [u16; 8]) {
    let half = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(load(from));
    // SAFETY: the array holds the 16 bytes that are written; no alignment is asked for.
    unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), half) }
}

/// As [`scalar::store_key`].
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn store_key(key: &[f32], slot: usize, keys: &mut [u16]) {
    let (chunks, key) = key.as_chunks();
    let (places, rest) = keys.split_at_mut(chunks.len() * 8 * BLOCK_TOKENS);
    for (chunk, places) in chunks.iter().zip(places.chunks_exact_mut(8 * BLOCK_TOKENS)) {
        let mut half = [0; 8];
        to_half(chunk, &mut half);
        for (positions, half) in places.chunks_exact_mut(BLOCK_TOKENS).zip(half) {
            positions[slot] = half;
        }
    }
    scalar::store_key(key, slot, rest);
}

/// As [`scalar::store_value`].
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn store_value(value: &[f32], values: &mut [u16]) {
    let (chunks, value) = value.as_chunks();
    let (outs, out) = values.as_chunks_mut();
    for (out, chunk) in outs.iter_mut().zip(chunks) {
        to_half(chunk, out);
    }
    scalar::store_value(value, out);
}
