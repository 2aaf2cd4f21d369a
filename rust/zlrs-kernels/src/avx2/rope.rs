//! Rotation of pairs, four or eight pairs at a time; the last few by the scalar functions.

use core::arch::x86_64::{
    __m256, _mm_loadu_ps, _mm256_castps128_ps256, _mm256_fmadd_ps, _mm256_fmaddsub_ps, _mm256_fmsub_ps,
    _mm256_mul_ps, _mm256_permute_ps, _mm256_permutevar8x32_ps, _mm256_setr_epi32,
};

use super::float::{load, store};
use crate::naive::rope as scalar;

/// Four floats, each twice: `a a b b c c d d`.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn load_doubled(from: &[f32; 4]) -> __m256 {
    // SAFETY: the array holds the 16 bytes that are read; no alignment is asked for.
    let four = unsafe { _mm_loadu_ps(from.as_ptr()) };
    _mm256_permutevar8x32_ps(_mm256_castps128_ps256(four), _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3))
}

/// As [`scalar::adjacent`]; `head` holds exactly `2 · cos.len()` values, `sin` as many as `cos`.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn adjacent(cos: &[f32], sin: &[f32], head: &mut [f32]) {
    let ((cosines, cos), (sines, sin)) = (cos.as_chunks(), sin.as_chunks());
    let (chunks, head) = head.as_chunks_mut();
    for ((chunk, cos), sin) in chunks.iter_mut().zip(cosines).zip(sines) {
        let x = load(chunk);
        // b a d c …: each value beside its partner's place.
        let partners = _mm256_permute_ps::<0b10_11_00_01>(x);
        // Even lanes subtract, odd lanes add.
        let turned = _mm256_mul_ps(partners, load_doubled(sin));
        store(chunk, _mm256_fmaddsub_ps(x, load_doubled(cos), turned));
    }
    scalar::adjacent(cos, sin, head);
}

/// As [`scalar::halves`]; `head` holds exactly `2 · cos.len()` values, `sin` as many as `cos`.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn halves(cos: &[f32], sin: &[f32], head: &mut [f32]) {
    let (first, second) = head.split_at_mut(cos.len());
    let ((cosines, cos), (sines, sin)) = (cos.as_chunks(), sin.as_chunks());
    let ((firsts, first), (seconds, second)) = (first.as_chunks_mut(), second.as_chunks_mut());
    for (((first, second), cos), sin) in firsts.iter_mut().zip(seconds).zip(cosines).zip(sines) {
        let (a, b, cos, sin) = (load(first), load(second), load(cos), load(sin));
        store(first, _mm256_fmsub_ps(a, cos, _mm256_mul_ps(b, sin)));
        store(second, _mm256_fmadd_ps(b, cos, _mm256_mul_ps(a, sin)));
    }
    scalar::split_halves(cos, sin, first, second);
}
