//! Attention with vectors of sixteen floats, see [`x86`](crate::x86).

use core::arch::x86_64::*;

use std::ops::Range;

use super::exponential::exp;
use crate::attention::{Partial, Room, Span};
use crate::avx2::attention as narrow;
use crate::naive::attention::TILE;
use crate::naive::exponential::exp as scalar_exp;
use crate::x86;
use crate::x86::floats::Floats;
use crate::x86::product::{Product, Stored};

/// Vectors of sixteen floats; 24 of the 32 registers are sums.
struct Sixteen;

impl Floats for Sixteen {
    type Vector = __m512;
    const LANES: usize = 16;
    const SUMS: usize = 24;
    const FOUR_VECTORS_UP_TO: usize = usize::MAX;

    #[inline(always)]
    unsafe fn set(value: f32) -> __m512 {
        // SAFETY: the caller has the features.
        unsafe { _mm512_set1_ps(value) }
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> __m512 {
        // SAFETY: the caller has the features and the floats.
        unsafe { _mm512_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn load_half(p: *const u16) -> __m512 {
        // SAFETY: the caller has the features and the numbers.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(p.cast())) }
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: __m512) {
        // SAFETY: the caller has the features and the room.
        unsafe { _mm512_storeu_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn multiply(a: __m512, b: __m512) -> __m512 {
        // SAFETY: the caller has the features.
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn fused(a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: the caller has the features.
        unsafe { _mm512_fmadd_ps(a, b, c) }
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
/// As [`Product::add_queries`]; needs AVX-512.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn add_queries<T: Stored, const VECTORS: usize, const QUERIES: usize>(
    product: &Product<'_, T, VECTORS>,
) {
    // SAFETY: the caller's promise.
    unsafe { product.add_queries::<Sixteen, QUERIES>() }
}

/// As [`naive`](crate::naive::attention::tile).
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(crate) fn tile(
    span: &Span<'_>,
    seen: &[Range<usize>],
    queries: &[f32],
    room: &mut Room<'_>,
    partial: &mut Partial<'_>,
) {
    if !span.head_dim().is_multiple_of(Sixteen::LANES) {
        return narrow::tile(span, seen, queries, room, partial);
    }
    // SAFETY: the features are enabled here, the head dimension was just looked at.
    unsafe { x86::attention::tile::<Sixteen>(span, seen, queries, room, partial) }
}

/// Turns a query's scores into weights; updates its maximum and sum; the correction for what came before.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
#[inline]
fn weigh(weights: &mut [f32; TILE], max: &mut f32, sum: &mut f32) -> f32 {
    let (vectors, _) = weights.as_chunks_mut::<{ Sixteen::LANES }>();
    let mut largest = _mm512_set1_ps(*max);
    for vector in vectors.iter() {
        // SAFETY: the array has 64 bytes.
        largest = _mm512_max_ps(largest, unsafe { _mm512_loadu_ps(vector.as_ptr()) });
    }
    let eight = _mm256_max_ps(_mm512_castps512_ps256(largest), upper(largest));
    let four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
    let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    let new_max = _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));

    let maxima = _mm512_set1_ps(new_max);
    let mut lanes = _mm512_setzero_ps();
    for vector in vectors {
        // SAFETY: the array has the 64 bytes that are read and written.
        unsafe {
            let weight = exp(_mm512_sub_ps(_mm512_loadu_ps(vector.as_ptr()), maxima));
            lanes = _mm512_add_ps(lanes, weight);
            _mm512_storeu_ps(vector.as_mut_ptr(), weight);
        }
    }
    let correction = scalar_exp(*max - new_max);
    *sum = sum.mul_add(correction, crate::avx2::float::fold(_mm512_castps512_ps256(lanes), upper(lanes)));
    *max = new_max;
    correction
}

/// Lanes 8 to 15.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
#[inline]
fn upper(v: __m512) -> __m256 {
    _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(v)))
}
