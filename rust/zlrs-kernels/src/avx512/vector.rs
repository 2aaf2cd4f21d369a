//! Two strips side by side: 512 bits. Their packed blocks lie apart, so a vector is loaded by halves.

use crate::avx2::matmul::vector::{Packed, Vector};
use std::arch::x86_64::*;

/// Two strips.
pub(crate) struct Two;

impl Vector for Two {
    type Integers = __m512i;
    const BYTES: usize = 64;

    #[inline(always)]
    unsafe fn load_packed(packed: Packed, offset: usize) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe {
            let first = packed.first.add(offset);
            let low = _mm512_castsi256_si512(_mm256_loadu_si256(first.cast()));
            _mm512_inserti64x4::<1>(low, _mm256_loadu_si256(first.add(packed.apart).cast()))
        }
    }
    #[inline(always)]
    unsafe fn expand_halves(packed: Packed, offset: usize, p: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let first = packed.first.add(offset);
            let low = _mm256_castsi128_si256(_mm_loadu_si128(first.cast()));
            let halves = _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(first.add(packed.apart).cast()));
            _mm512_storeu_ps(p.cast(), _mm512_cvtph_ps(halves));
        }
    }
    #[inline(always)]
    unsafe fn store(p: *mut u8, v: __m512i) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_si512(p.cast(), v) }
    }
    #[inline(always)]
    unsafe fn set_bytes(byte: i8) -> __m512i {
        // SAFETY: the caller has the features.
        unsafe { _mm512_set1_epi8(byte) }
    }
    #[inline(always)]
    unsafe fn and(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the caller has the features.
        unsafe { _mm512_and_si512(a, b) }
    }
    #[inline(always)]
    unsafe fn or(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the caller has the features.
        unsafe { _mm512_or_si512(a, b) }
    }
    #[inline(always)]
    unsafe fn xor(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the caller has the features.
        unsafe { _mm512_xor_si512(a, b) }
    }
    // Shifts by a register, since the other form takes its count as another type; a constant becomes immediate.
    #[inline(always)]
    unsafe fn shift_left<const BITS: i32>(v: __m512i) -> __m512i {
        // SAFETY: the caller has the features.
        unsafe { _mm512_sll_epi16(v, _mm_cvtsi32_si128(BITS)) }
    }
    #[inline(always)]
    unsafe fn shift_right<const BITS: i32>(v: __m512i) -> __m512i {
        // SAFETY: the caller has the features.
        unsafe { _mm512_srl_epi16(v, _mm_cvtsi32_si128(BITS)) }
    }
    #[inline(always)]
    unsafe fn upper_bytes(v: __m512i) -> __m512i {
        // SAFETY: the caller has the features.
        unsafe { _mm512_srai_epi16::<8>(v) }
    }
    #[inline(always)]
    unsafe fn shuffle(v: __m512i, table: __m256i) -> __m512i {
        // SAFETY: the caller has the features.
        unsafe { _mm512_shuffle_epi8(v, _mm512_broadcast_i64x4(table)) }
    }
}
