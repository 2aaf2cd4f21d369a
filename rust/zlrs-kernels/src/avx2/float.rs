//! Loads, stores and folds of eight floats.

use core::arch::x86_64::{
    __m256, _mm_add_ps, _mm_add_ss, _mm_cvtss_f32, _mm_movehdup_ps, _mm_movehl_ps, _mm256_add_ps,
    _mm256_castps256_ps128, _mm256_extractf128_ps, _mm256_loadu_ps, _mm256_storeu_ps,
};

/// Eight floats.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
pub(super) fn load(from: &[f32; 8]) -> __m256 {
    // SAFETY: the array holds the 32 bytes that are read; no alignment is asked for.
    unsafe { _mm256_loadu_ps(from.as_ptr()) }
}

/// Writes eight floats.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
pub(super) fn store(to: &mut [f32; 8], value: __m256) {
    // SAFETY: the array holds the 32 bytes that are written; no alignment is asked for.
    unsafe { _mm256_storeu_ps(to.as_mut_ptr(), value) }
}

/// The fixed tree over 16 lanes of [`naive::norm::fold`](crate::naive::norm::fold), lanes 0 to 7 in `low`.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
pub(crate) fn fold(low: __m256, high: __m256) -> f32 {
    let eight = _mm256_add_ps(low, high);
    let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
}
