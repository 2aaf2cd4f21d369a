//! The exponential of eight floats.

use core::arch::x86_64::{
    __m256, _CMP_GT_OQ, _CMP_LT_OQ, _CMP_UNORD_Q, _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEAREST_INT,
    _mm256_add_epi32, _mm256_andnot_ps, _mm256_blendv_ps, _mm256_castps_si256, _mm256_castsi256_ps,
    _mm256_cmp_ps, _mm256_cvtps_epi32, _mm256_fmadd_ps, _mm256_fnmadd_ps, _mm256_mul_ps, _mm256_round_ps,
    _mm256_set1_ps, _mm256_slli_epi32,
};

use super::float::{load, store};
use crate::naive::exponential::{
    self as scalar, COEFFICIENTS, EXP_LOWER, EXP_UPPER, LN_2_HIGH, LN_2_LOW, LOG2_E,
};

/// [`naive::exponential::exp`](crate::naive::exponential::exp) in each lane. Lanes outside its range compute
/// something meaningless first and are replaced at the end.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
pub(super) fn exp(x: __m256) -> __m256 {
    let n = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(_mm256_mul_ps(
        x,
        _mm256_set1_ps(LOG2_E),
    ));
    let r = _mm256_fnmadd_ps(n, _mm256_set1_ps(LN_2_HIGH), x);
    let r = _mm256_fnmadd_ps(n, _mm256_set1_ps(LN_2_LOW), r);
    let [c6, c5, c4, c3, c2] = COEFFICIENTS;
    let mut p = _mm256_set1_ps(c6);
    for c in [c5, c4, c3, c2, 1.0, 1.0] {
        p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(c));
    }
    let exponent = _mm256_slli_epi32::<23>(_mm256_cvtps_epi32(n));
    let power = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponent));
    let power = _mm256_andnot_ps(_mm256_cmp_ps::<_CMP_LT_OQ>(x, _mm256_set1_ps(EXP_LOWER)), power);
    let overflow = _mm256_cmp_ps::<_CMP_GT_OQ>(x, _mm256_set1_ps(EXP_UPPER));
    let power = _mm256_blendv_ps(power, _mm256_set1_ps(f32::INFINITY), overflow);
    _mm256_blendv_ps(power, _mm256_set1_ps(f32::NAN), _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x))
}

/// As [`naive::exponential::exp_all`](crate::naive::exponential::exp_all).
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn exp_all(x: &mut [f32]) {
    let (chunks, x) = x.as_chunks_mut();
    for chunk in chunks {
        store(chunk, exp(load(chunk)));
    }
    scalar::exp_all(x);
}
