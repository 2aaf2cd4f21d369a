//! The exponential of sixteen floats.

use core::arch::x86_64::*;

use crate::naive::exponential::{COEFFICIENTS, EXP_LOWER, EXP_UPPER, LN_2_HIGH, LN_2_LOW, LOG2_E};

/// [`naive::exponential::exp`](crate::naive::exponential::exp) in each lane, by the steps of AVX2's.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
#[inline]
pub(super) fn exp(x: __m512) -> __m512 {
    let n = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(_mm512_mul_ps(
        x,
        _mm512_set1_ps(LOG2_E),
    ));
    let r = _mm512_fnmadd_ps(n, _mm512_set1_ps(LN_2_HIGH), x);
    let r = _mm512_fnmadd_ps(n, _mm512_set1_ps(LN_2_LOW), r);
    let [c6, c5, c4, c3, c2] = COEFFICIENTS;
    let mut p = _mm512_set1_ps(c6);
    for c in [c5, c4, c3, c2, 1.0, 1.0] {
        p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(c));
    }
    let exponent = _mm512_slli_epi32::<23>(_mm512_cvtps_epi32(n));
    let power = _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), exponent));
    let not_small = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(x, _mm512_set1_ps(EXP_LOWER));
    let power = _mm512_maskz_mov_ps(not_small, power);
    let overflow = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(x, _mm512_set1_ps(EXP_UPPER));
    let power = _mm512_mask_mov_ps(power, overflow, _mm512_set1_ps(f32::INFINITY));
    let unordered = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
    _mm512_mask_mov_ps(power, unordered, _mm512_set1_ps(f32::NAN))
}

/// As [`naive::exponential::exp_all`](crate::naive::exponential::exp_all).
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(crate) fn exp_all(x: &mut [f32]) {
    let (chunks, x) = x.as_chunks_mut::<16>();
    for chunk in chunks {
        // SAFETY: the array has the 64 bytes that are read and written.
        unsafe { _mm512_storeu_ps(chunk.as_mut_ptr(), exp(_mm512_loadu_ps(chunk.as_ptr()))) };
    }
    crate::avx2::exponential::exp_all(x);
}
