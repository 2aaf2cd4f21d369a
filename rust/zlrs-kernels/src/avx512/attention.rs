//! A tile of attention, see [`avx2`](crate::avx2): vectors of 16 positions for scores, of 16 dimensions for
//! values; up to six queries share what is read.

use core::arch::x86_64::*;
use std::ops::Range;

use super::exponential::exp;
use crate::attention::{Partial, Span};
use crate::avx2::attention as narrow;
use crate::kv::BLOCK_TOKENS;
use crate::naive::attention::TILE;
use crate::naive::exponential::exp as scalar_exp;

/// Lanes of a vector.
const LANES: usize = 16;
/// The most queries that share a pass: with four vectors, 24 of the 32 registers are sums.
const QUERIES: usize = 6;

/// `out[q] += Σ weights[q][i] · matrix[i]` over `steps` ascending rows `i`, in `VECTORS` vectors of 16 lanes.
struct Product<const VECTORS: usize> {
    weights: *const f32,
    /// Between the weights of one query and the next.
    weights_stride: usize,
    /// Where each vector's first row starts.
    matrix: [*const u16; VECTORS],
    /// Between rows.
    matrix_stride: usize,
    steps: usize,
    /// Sums of the first query; its vectors lie side by side.
    out: *mut f32,
    /// Between the sums of one query and the next.
    out_stride: usize,
}

impl<const VECTORS: usize> Product<VECTORS> {
    /// # Safety
    /// Needs AVX-512. For each of `queries` queries there are `steps` weights and 16 · `VECTORS` sums at their
    /// strides, and each vector has `steps` rows of 16 values.
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
    #[inline]
    unsafe fn add(&self, queries: usize) {
        // Passes of about equal size: one query alone would wait for its own sums.
        let passes = queries.div_ceil(QUERIES);
        for pass in 0..passes {
            let (first, end) = (pass * queries / passes, (pass + 1) * queries / passes);
            // SAFETY: both stay inside what the caller promised.
            let (weights, out) = unsafe {
                (self.weights.add(first * self.weights_stride), self.out.add(first * self.out_stride))
            };
            let part = Self { weights, out, ..*self };
            // SAFETY: the queries from `first` to `end`.
            unsafe {
                match end - first {
                    1 => part.add_queries::<1>(),
                    2 => part.add_queries::<2>(),
                    3 => part.add_queries::<3>(),
                    4 => part.add_queries::<4>(),
                    5 => part.add_queries::<5>(),
                    _ => part.add_queries::<QUERIES>(),
                }
            }
        }
    }

    /// # Safety
    /// As [`add`](Self::add) for `N` queries.
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
    #[inline]
    unsafe fn add_queries<const N: usize>(&self) {
        let mut sums = [[_mm512_setzero_ps(); VECTORS]; N];
        for (query, sums) in sums.iter_mut().enumerate() {
            for (vector, sum) in sums.iter_mut().enumerate() {
                // SAFETY: within the query's sums.
                *sum = unsafe { _mm512_loadu_ps(self.out.add(query * self.out_stride + LANES * vector)) };
            }
        }
        for step in 0..self.steps {
            let mut row = [_mm512_setzero_ps(); VECTORS];
            for (row, first) in row.iter_mut().zip(self.matrix) {
                // SAFETY: row `step` of the vector, sixteen values of 16 bits.
                *row = _mm512_cvtph_ps(unsafe {
                    _mm256_loadu_si256(first.add(step * self.matrix_stride).cast())
                });
            }
            for (query, sums) in sums.iter_mut().enumerate() {
                // SAFETY: within the query's weights.
                let weight = _mm512_set1_ps(unsafe { *self.weights.add(query * self.weights_stride + step) });
                for (sum, row) in sums.iter_mut().zip(row) {
                    *sum = _mm512_fmadd_ps(weight, row, *sum);
                }
            }
        }
        for (query, sums) in sums.iter().enumerate() {
            for (vector, sum) in sums.iter().enumerate() {
                // SAFETY: within the query's sums.
                unsafe { _mm512_storeu_ps(self.out.add(query * self.out_stride + LANES * vector), *sum) };
            }
        }
    }
}

/// Scores of `VECTORS` whole blocks from block `first` of the sequence on, added to zeros in `tile`.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
#[inline]
fn score<const VECTORS: usize>(span: &Span<'_>, queries: &[f32], first: usize, tile: &mut [f32]) {
    let dim = span.head_dim();
    let (count, lane) = (queries.len() / dim, first * BLOCK_TOKENS % TILE);
    assert!(lane + LANES * VECTORS <= TILE && tile.len() == count * TILE);
    let product = Product::<VECTORS> {
        weights: queries.as_ptr(),
        weights_stride: dim,
        matrix: std::array::from_fn(|vector| {
            let keys = span.keys(first + vector);
            assert!(keys.len() == dim * BLOCK_TOKENS);
            keys.as_ptr()
        }),
        matrix_stride: BLOCK_TOKENS,
        steps: dim,
        out: tile[lane..].as_mut_ptr(),
        out_stride: TILE,
    };
    // SAFETY: `queries` is [count][dim]; each vector is a block's keys, [dim][16]; `tile` is [count][64], of which
    // the vectors from `lane` on end within each query's row.
    unsafe { product.add(count) };
}

/// Adds the weighted values of `steps` positions, `values` being `[steps][dim]`, to `VECTORS` vectors of each
/// query's sums from `lane` on. `weights` starts at the first position's weight of the first query.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
#[inline]
fn accumulate<const VECTORS: usize>(
    dim: usize,
    weights: &[f32],
    values: &[u16],
    lane: usize,
    sums: &mut [f32],
) {
    let (count, steps) = (sums.len() / dim, values.len() / dim);
    assert!(lane + LANES * VECTORS <= dim && weights.len() >= (count - 1) * TILE + steps);
    let product = Product::<VECTORS> {
        weights: weights.as_ptr(),
        weights_stride: TILE,
        matrix: std::array::from_fn(|vector| values[lane + LANES * vector..].as_ptr()),
        matrix_stride: dim,
        steps,
        out: sums[lane..].as_mut_ptr(),
        out_stride: dim,
    };
    // SAFETY: `steps` weights of each query are there at a stride of 64; `values` is [steps][dim] and `sums`
    // [count][dim], and the vectors from `lane` on end within a row of either.
    unsafe { product.add(count) };
}

/// As [`naive`](crate::naive::attention::tile).
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(crate) fn tile(
    span: &Span<'_>,
    positions: Range<usize>,
    queries: &[f32],
    tile: &mut [f32],
    partial: &mut Partial<'_>,
) {
    let dim = span.head_dim();
    if !dim.is_multiple_of(LANES) {
        return narrow::tile(span, positions, queries, tile, partial);
    }
    let count = partial.max.len();
    assert!(
        queries.len() == count * dim && tile.len() == count * TILE && partial.values.len() == count * dim
    );
    let blocks = positions.start / BLOCK_TOKENS..positions.end.div_ceil(BLOCK_TOKENS);
    tile.fill(0.0);
    match blocks.len() {
        1 => score::<1>(span, queries, blocks.start, tile),
        2 => score::<2>(span, queries, blocks.start, tile),
        3 => score::<3>(span, queries, blocks.start, tile),
        _ => score::<4>(span, queries, blocks.start, tile),
    }
    let visible = positions.start % TILE..positions.start % TILE + positions.len();
    for (query, weights) in tile.as_chunks_mut().0.iter_mut().enumerate() {
        weights[..visible.start].fill(f32::NEG_INFINITY);
        weights[visible.end..].fill(f32::NEG_INFINITY);
        let correction = weigh(weights, &mut partial.max[query], &mut partial.sum[query]);
        if correction != 1.0 {
            narrow::scale(correction, &mut partial.values[query * dim..][..dim]);
        }
    }
    for block in blocks {
        let first = positions.start.max(block * BLOCK_TOKENS);
        let steps = positions.end.min((block + 1) * BLOCK_TOKENS) - first;
        let values = &span.values(block)[first % BLOCK_TOKENS * dim..][..steps * dim];
        let (weights, sums) = (&tile[first % TILE..], &mut *partial.values);
        let mut lane = 0;
        while lane < dim {
            lane += LANES
                * match (dim - lane) / LANES {
                    1 => {
                        accumulate::<1>(dim, weights, values, lane, sums);
                        1
                    }
                    2 => {
                        accumulate::<2>(dim, weights, values, lane, sums);
                        2
                    }
                    3 => {
                        accumulate::<3>(dim, weights, values, lane, sums);
                        3
                    }
                    _ => {
                        accumulate::<4>(dim, weights, values, lane, sums);
                        4
                    }
                };
        }
    }
}

/// Turns a query's scores into weights; updates its maximum and sum; the correction for what came before.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
#[inline]
fn weigh(weights: &mut [f32; TILE], max: &mut f32, sum: &mut f32) -> f32 {
    let (vectors, _) = weights.as_chunks_mut::<LANES>();
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
