//! Attention with vectors of eight floats, see [`x86`](crate::x86).

use core::arch::x86_64::{
    __m256, _mm_cvtss_f32, _mm_loadu_si128, _mm_max_ps, _mm_max_ss, _mm_movehdup_ps, _mm_movehl_ps,
    _mm256_add_ps, _mm256_castps256_ps128, _mm256_cvtph_ps, _mm256_extractf128_ps, _mm256_fmadd_ps,
    _mm256_loadu_ps, _mm256_max_ps, _mm256_mul_ps, _mm256_set1_ps, _mm256_setzero_ps, _mm256_storeu_ps,
    _mm256_sub_ps,
};

use std::ops::Range;

use super::exponential::exp;
use super::float::{fold, load, store};
use crate::attention::{Partial, Room, Span};
use crate::naive::attention::{self as scalar, TILE};
use crate::naive::exponential::exp as scalar_exp;
use crate::x86;
use crate::x86::floats::Floats;
use crate::x86::product::{Product, Stored};

/// Vectors of eight floats; 12 of the 16 registers are sums.
struct Eight;

impl Floats for Eight {
    type Vector = __m256;
    const LANES: usize = 8;
    const SUMS: usize = 12;
    const FOUR_VECTORS_UP_TO: usize = 3;

    #[inline(always)]
    unsafe fn set(value: f32) -> __m256 {
        // SAFETY: the caller has the features.
        unsafe { _mm256_set1_ps(value) }
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> __m256 {
        // SAFETY: the caller has the features and the floats.
        unsafe { _mm256_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn load_half(p: *const u16) -> __m256 {
        // SAFETY: the caller has the features and the numbers.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(p.cast())) }
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: __m256) {
        // SAFETY: the caller has the features and the room.
        unsafe { _mm256_storeu_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn multiply(a: __m256, b: __m256) -> __m256 {
        // SAFETY: the caller has the features.
        unsafe { _mm256_mul_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn fused(a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: the caller has the features.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn weigh(weights: &mut [f32; TILE], max: &mut f32, sum: &mut f32) -> f32 {
        // SAFETY: the caller has the features.
        unsafe { weigh(weights, max, sum) }
    }
    #[inline(always)]
    unsafe fn add_queries<T: Stored, const VECTORS: usize, const QUERIES: usize>(
        product: &Product<'_, T, VECTORS>,
    ) {
        // SAFETY: the caller's promise.
        unsafe { add_queries::<T, VECTORS, QUERIES>(product) }
    }
}

/// # Safety
/// As [`Product::add_queries`]; needs AVX2.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn add_queries<T: Stored, const VECTORS: usize, const QUERIES: usize>(
    product: &Product<'_, T, VECTORS>,
) {
    // SAFETY: the caller's promise.
    unsafe { product.add_queries::<Eight, QUERIES>() }
}

/// As [`scalar::tile`].
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn tile(
    span: &Span<'_>,
    seen: &[Range<usize>],
    queries: &[f32],
    room: &mut Room<'_>,
    partial: &mut Partial<'_>,
) {
    if !span.head_dim().is_multiple_of(Eight::LANES) {
        return scalar::tile(span, seen, queries, room, partial);
    }
    // SAFETY: the features are enabled here, the head dimension was just looked at.
    unsafe { x86::attention::tile::<Eight>(span, seen, queries, room, partial) }
}

/// Turns a head's scores into weights; updates its maximum and sum; the correction for what came before.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn weigh(weights: &mut [f32; TILE], max: &mut f32, sum: &mut f32) -> f32 {
    let (vectors, _) = weights.as_chunks_mut::<8>();
    let mut largest = _mm256_set1_ps(*max);
    for vector in vectors.iter() {
        largest = _mm256_max_ps(largest, load(vector));
    }
    let four = _mm_max_ps(_mm256_castps256_ps128(largest), _mm256_extractf128_ps::<1>(largest));
    let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    let new_max = _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));

    let maxima = _mm256_set1_ps(new_max);
    let mut lanes = [_mm256_setzero_ps(); 2];
    for pair in vectors.as_chunks_mut::<2>().0 {
        for (vector, lanes) in pair.iter_mut().zip(&mut lanes) {
            let weight = exp(_mm256_sub_ps(load(vector), maxima));
            *lanes = _mm256_add_ps(*lanes, weight);
            store(vector, weight);
        }
    }
    let correction = scalar_exp(*max - new_max);
    *sum = sum.mul_add(correction, fold(lanes[0], lanes[1]));
    *max = new_max;
    correction
}

/// As [`scalar::merge`].
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn merge(total: &mut Partial<'_>, next: &Partial<'_>) {
    let dim = total.values.len() / total.max.len();
    let heads = total.values.chunks_exact_mut(dim).zip(next.values.chunks_exact(dim)).enumerate();
    for (head, (values, next_values)) in heads {
        let (before, after) = scalar::merge_scalars(total.max, total.sum, next, head);
        let (before8, after8) = (_mm256_set1_ps(before), _mm256_set1_ps(after));
        let ((chunks, values), (next_chunks, next_values)) =
            (values.as_chunks_mut(), next_values.as_chunks());
        for (chunk, next_chunk) in chunks.iter_mut().zip(next_chunks) {
            let scaled = _mm256_mul_ps(load(next_chunk), after8);
            store(chunk, _mm256_fmadd_ps(load(chunk), before8, scaled));
        }
        for (value, next_value) in values.iter_mut().zip(next_values) {
            *value = value.mul_add(before, next_value * after);
        }
    }
}
