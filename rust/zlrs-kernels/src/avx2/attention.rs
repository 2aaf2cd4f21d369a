//! Attention: both products are the same small kernel, a few weight rows times an f16 matrix, lanes along the
//! matrix's rows. For scores the matrix is a block's keys (rows are dimensions, lanes positions), for values a
//! block's values (rows are positions, lanes dimensions). No lane is ever added to another.

use core::arch::x86_64::{
    _mm_cvtss_f32, _mm_loadu_si128, _mm_max_ps, _mm_max_ss, _mm_movehdup_ps, _mm_movehl_ps, _mm256_add_ps,
    _mm256_broadcast_ss, _mm256_castps256_ps128, _mm256_cvtph_ps, _mm256_extractf128_ps, _mm256_fmadd_ps,
    _mm256_loadu_ps, _mm256_max_ps, _mm256_mul_ps, _mm256_set1_ps, _mm256_setzero_ps, _mm256_storeu_ps,
    _mm256_sub_ps,
};

use std::ops::Range;

use super::exponential::exp;
use super::float::{fold, load, store};
use crate::attention::{Partial, Span};
use crate::kv::BLOCK_TOKENS;
use crate::naive::attention::{self as scalar, TILE};
use crate::naive::exponential::exp as scalar_exp;

/// `out[h] += Σ weights[h][i] · matrix[i]` over `steps` ascending rows `i`, in `VECTORS` vectors of 8 lanes.
///
/// About 8 accumulators hide the latency of the fused multiply-adds and leave registers for the matrix and the
/// broadcasts: 4 heads with 2 vectors, or 2 with 4, or 1 with 8. The shape changes which sums are computed
/// side by side, never the order inside one.
struct Product<const VECTORS: usize> {
    weights: *const f32,
    /// Between the weights of one head and the next.
    weights_stride: usize,
    /// Where each vector's first row starts.
    matrix: [*const u16; VECTORS],
    /// Between rows.
    matrix_stride: usize,
    steps: usize,
    /// Sums of the first head; its vectors lie side by side.
    out: *mut f32,
    /// Between the sums of one head and the next.
    out_stride: usize,
}

impl<const VECTORS: usize> Product<VECTORS> {
    /// Heads in one pass.
    const HEADS: usize = if VECTORS <= 2 { 4 } else { 8 / VECTORS };

    /// # Safety
    /// For each of `heads` heads there are `steps` weights and 8 · `VECTORS` sums at their strides, and each
    /// vector has `steps` rows of 8 values.
    #[target_feature(enable = "avx2,fma,f16c")]
    #[inline]
    unsafe fn add(&self, heads: usize) {
        let mut head = 0;
        while head < heads {
            // SAFETY: both stay inside what the caller promised, `head` being below `heads`.
            let (weights, out) = unsafe {
                (self.weights.add(head * self.weights_stride), self.out.add(head * self.out_stride))
            };
            let part = Self { weights, out, ..*self };
            // SAFETY: at most the remaining heads are used.
            unsafe {
                match (heads - head).min(Self::HEADS) {
                    1 => part.add_heads::<1>(),
                    2 if VECTORS <= 4 => part.add_heads::<2>(),
                    3 if VECTORS <= 2 => part.add_heads::<3>(),
                    _ if VECTORS <= 2 => part.add_heads::<4>(),
                    _ => {}
                }
            }
            head += Self::HEADS;
        }
    }

    /// # Safety
    /// As [`add`](Self::add) for `N` heads.
    #[target_feature(enable = "avx2,fma,f16c")]
    #[inline]
    unsafe fn add_heads<const N: usize>(&self) {
        let mut sums = [[_mm256_setzero_ps(); VECTORS]; N];
        for (head, sums) in sums.iter_mut().enumerate() {
            for (vector, sum) in sums.iter_mut().enumerate() {
                // SAFETY: within the head's sums.
                *sum = unsafe { _mm256_loadu_ps(self.out.add(head * self.out_stride + 8 * vector)) };
            }
        }
        for step in 0..self.steps {
            let mut row = [_mm256_setzero_ps(); VECTORS];
            for (row, first) in row.iter_mut().zip(self.matrix) {
                // SAFETY: row `step` of the vector, eight values of 16 bits.
                *row =
                    _mm256_cvtph_ps(unsafe { _mm_loadu_si128(first.add(step * self.matrix_stride).cast()) });
            }
            for (head, sums) in sums.iter_mut().enumerate() {
                // SAFETY: within the head's weights.
                let weight = unsafe { &*self.weights.add(head * self.weights_stride + step) };
                let weight = _mm256_broadcast_ss(weight);
                for (sum, row) in sums.iter_mut().zip(row) {
                    *sum = _mm256_fmadd_ps(weight, row, *sum);
                }
            }
        }
        for (head, sums) in sums.iter().enumerate() {
            for (vector, sum) in sums.iter().enumerate() {
                // SAFETY: within the head's sums.
                unsafe { _mm256_storeu_ps(self.out.add(head * self.out_stride + 8 * vector), *sum) };
            }
        }
    }
}

/// Scores of `VECTORS / 2` whole blocks from block `first` of the sequence on, added to zeros in `tile`.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn score<const VECTORS: usize>(span: &Span<'_>, queries: &[f32], first: usize, tile: &mut [f32]) {
    let dim = span.head_dim();
    let (group, lane) = (queries.len() / dim, first * BLOCK_TOKENS % TILE);
    assert!(lane + 8 * VECTORS <= TILE && tile.len() == group * TILE);
    let product = Product::<VECTORS> {
        weights: queries.as_ptr(),
        weights_stride: dim,
        matrix: std::array::from_fn(|vector| {
            let keys = &span.keys(first + vector / 2)[vector % 2 * 8..];
            assert!(keys.len() + 8 >= dim * BLOCK_TOKENS);
            keys.as_ptr()
        }),
        matrix_stride: BLOCK_TOKENS,
        steps: dim,
        out: tile[lane..].as_mut_ptr(),
        out_stride: TILE,
    };
    // SAFETY: `queries` is [group][dim]; each vector is half a block's keys, [dim][16]; `tile` is [group][64],
    // of which the vectors from `lane` on end within each head's row.
    unsafe { product.add(group) };
}

/// Adds the weighted values of `steps` positions, `values` being `[steps][dim]`, to `VECTORS` vectors of each
/// head's sums from `lane` on. `weights` starts at the first position's weight of the first head.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn accumulate<const VECTORS: usize>(
    dim: usize,
    weights: &[f32],
    values: &[u16],
    lane: usize,
    sums: &mut [f32],
) {
    let (group, steps) = (sums.len() / dim, values.len() / dim);
    assert!(lane + 8 * VECTORS <= dim && weights.len() >= (group - 1) * TILE + steps);
    let product = Product::<VECTORS> {
        weights: weights.as_ptr(),
        weights_stride: TILE,
        matrix: std::array::from_fn(|vector| values[lane + 8 * vector..].as_ptr()),
        matrix_stride: dim,
        steps,
        out: sums[lane..].as_mut_ptr(),
        out_stride: dim,
    };
    // SAFETY: `steps` weights of each head are there at a stride of 64; `values` is [steps][dim] and `sums`
    // [group][dim], and the vectors from `lane` on end within a row of either.
    unsafe { product.add(group) };
}

/// As [`scalar::tile`].
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn tile(
    span: &Span<'_>,
    positions: Range<usize>,
    queries: &[f32],
    tile: &mut [f32],
    partial: &mut Partial<'_>,
) {
    let dim = span.head_dim();
    if !dim.is_multiple_of(8) {
        return scalar::tile(span, positions, queries, tile, partial);
    }
    let group = partial.max.len();
    assert!(
        queries.len() == group * dim && tile.len() == group * TILE && partial.values.len() == group * dim
    );
    let blocks = positions.start / BLOCK_TOKENS..positions.end.div_ceil(BLOCK_TOKENS);
    tile.fill(0.0);
    let mut block = blocks.start;
    while block < blocks.end {
        block += match (group, blocks.end - block) {
            (1, 4..) => {
                score::<8>(span, queries, block, tile);
                4
            }
            (1 | 2, 2..) => {
                score::<4>(span, queries, block, tile);
                2
            }
            _ => {
                score::<2>(span, queries, block, tile);
                1
            }
        };
    }
    let visible = positions.start % TILE..positions.start % TILE + positions.len();
    for (head, weights) in tile.as_chunks_mut().0.iter_mut().enumerate() {
        weights[..visible.start].fill(f32::NEG_INFINITY);
        weights[visible.end..].fill(f32::NEG_INFINITY);
        let correction = weigh(weights, &mut partial.max[head], &mut partial.sum[head]);
        scale(correction, &mut partial.values[head * dim..][..dim]);
    }
    for block in blocks {
        let first = positions.start.max(block * BLOCK_TOKENS);
        let steps = positions.end.min((block + 1) * BLOCK_TOKENS) - first;
        let values = &span.values(block)[first % BLOCK_TOKENS * dim..][..steps * dim];
        let (weights, sums) = (&tile[first % TILE..], &mut *partial.values);
        let mut lane = 0;
        while lane < dim {
            lane += match (group, dim - lane) {
                (1, 64..) => {
                    accumulate::<8>(dim, weights, values, lane, sums);
                    64
                }
                (1 | 2, 32..) => {
                    accumulate::<4>(dim, weights, values, lane, sums);
                    32
                }
                (_, 16..) => {
                    accumulate::<2>(dim, weights, values, lane, sums);
                    16
                }
                _ => {
                    accumulate::<1>(dim, weights, values, lane, sums);
                    8
                }
            };
        }
    }
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

/// The length is a multiple of 8.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
pub(crate) fn scale(factor: f32, values: &mut [f32]) {
    for chunk in values.as_chunks_mut().0 {
        store(chunk, _mm256_mul_ps(load(chunk), _mm256_set1_ps(factor)));
    }
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
