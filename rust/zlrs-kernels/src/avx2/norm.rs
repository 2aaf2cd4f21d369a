//! Root-mean-square norm: the 16 virtual lanes are two registers.

use core::arch::x86_64::{__m256, _mm256_fmadd_ps, _mm256_mul_ps, _mm256_set1_ps, _mm256_setzero_ps};

use super::float::{fold, load, store};
use crate::naive::norm::{LANES, inverse_rms};

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn add_squares(chunk: &[f32; LANES], low: __m256, high: __m256) -> (__m256, __m256) {
    let ([first, second], []) = chunk.as_chunks() else { return (low, high) };
    let (first, second) = (load(first), load(second));
    (_mm256_fmadd_ps(first, first, low), _mm256_fmadd_ps(second, second, high))
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn sum_of_squares(x: &[f32]) -> f32 {
    let (mut low, mut high) = (_mm256_setzero_ps(), _mm256_setzero_ps());
    let (chunks, tail) = x.as_chunks::<LANES>();
    for chunk in chunks {
        (low, high) = add_squares(chunk, low, high);
    }
    // Zeros in the lanes past the end change nothing: a sum of squares is never -0.
    let mut padded = [0.0; LANES];
    padded[..tail.len()].copy_from_slice(tail);
    (low, high) = add_squares(&padded, low, high);
    fold(low, high)
}

/// The three slices have equal lengths.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn rms_norm(x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
    let factor = inverse_rms(sum_of_squares(x), x.len(), epsilon);
    let ((xs, x), (weights, weight)) = (x.as_chunks(), weight.as_chunks());
    let (outs, out) = out.as_chunks_mut();
    let factors = _mm256_set1_ps(factor);
    for ((out, x), weight) in outs.iter_mut().zip(xs).zip(weights) {
        store(out, _mm256_mul_ps(_mm256_mul_ps(load(x), factors), load(weight)));
    }
    for ((out, &x), &weight) in out.iter_mut().zip(x).zip(weight) {
        *out = (x * factor) * weight;
    }
}

/// The slices have equal lengths.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn rms_norm_in_place(x: &mut [f32], weight: &[f32], epsilon: f32) {
    let factor = inverse_rms(sum_of_squares(x), x.len(), epsilon);
    let (weights, weight) = weight.as_chunks();
    let (xs, x) = x.as_chunks_mut();
    let factors = _mm256_set1_ps(factor);
    for (x, weight) in xs.iter_mut().zip(weights) {
        store(x, _mm256_mul_ps(_mm256_mul_ps(load(x), factors), load(weight)));
    }
    for (x, &weight) in x.iter_mut().zip(weight) {
        *x = (*x * factor) * weight;
    }
}
