//! Attention of one query row over the positions it sees.
//!
//! The head dimension is `dim`, the query heads that share a KV head form a group. Positions are absolute and
//! fall into splits of [`SPLIT`] and, inside those, tiles of [`TILE`]; both start at multiples of their length
//! wherever the row, the window or the cached part begins. For each query head:
//!
//! 1. The query is multiplied by the scale, each value rounded once.
//! 2. Inside a split, state is a maximum (at first negative infinity), a sum and `dim` values (at first 0).
//!    Tiles that hold a visible position are taken in ascending order:
//!    - the score of each visible position is a chain of fused multiply-adds over the head dimension from 0,
//!      dimensions ascending; positions that are not visible score negative infinity;
//!    - the new maximum is the larger of the old one and the scores; the correction is
//!      `exp(old maximum - new maximum)`, the weight of a position `exp(score - new maximum)`;
//!    - `sum = fma(sum, correction, sum of the tile's 64 weights in 16 virtual lanes)`;
//!    - each value is multiplied by the correction, then takes `fma(weight, value, ·)` for each visible position
//!      in ascending order.
//! 3. Splits that hold a visible position are merged in ascending order. The first is taken as it is; then with
//!    `m` the larger maximum, `a = exp(max - m)` for the merged part and `b = exp(max - m)` for the next one,
//!    `sum = fma(sum, a, sum_next · b)` and likewise each value.
//! 4. Each value is divided by the sum.
//!
//! A row therefore depends on its query, its position, its window and the stored keys and values it sees, and
//! on nothing else. A position that is not visible is never read into a value, whatever its memory holds. A NaN
//! in the query or a visible key, or a score of positive infinity, makes all values of the query head NaN.

use std::ops::Range;

use super::exponential::exp;
use super::kv::from_half;
use super::norm::sum;
use crate::attention::{Partial, Room, Span};
use crate::kv::BLOCK_TOKENS;

/// Positions of a tile.
pub const TILE: usize = 64;

/// Positions of a split.
pub const SPLIT: usize = 512;

/// What queries take from one tile. `seen` are the positions that each row sees of it, not none; `queries` are those
/// of the rows, scaled, `[queries][dim]`; `room` is working space; `partial` is the split's state so far.
pub(crate) fn tile(
    span: &Span<'_>,
    seen: &[Range<usize>],
    queries: &[f32],
    room: &mut Room<'_>,
    partial: &mut Partial<'_>,
) {
    let dim = span.head_dim();
    let heads = queries.chunks_exact(dim).zip(room.scores.chunks_exact_mut(TILE)).enumerate();
    let group = partial.max.len() / seen.len();
    for (head, (query, weights)) in heads {
        let positions = &seen[head / group];
        let mut max = partial.max[head];
        weights.fill(f32::NEG_INFINITY);
        for position in positions.clone() {
            let keys = span.keys(position / BLOCK_TOKENS);
            let mut score = 0.0;
            for (query, keys) in query.iter().zip(keys.chunks_exact(BLOCK_TOKENS)) {
                score = query.mul_add(from_half(keys[position % BLOCK_TOKENS]), score);
            }
            weights[position % TILE] = score;
            max = max.max(score);
        }
        let correction = exp(partial.max[head] - max);
        for weight in weights.iter_mut() {
            *weight = exp(*weight - max);
        }
        partial.max[head] = max;
        partial.sum[head] = partial.sum[head].mul_add(correction, sum(weights));
        let values = &mut partial.values[head * dim..][..dim];
        for value in values.iter_mut() {
            *value *= correction;
        }
        for position in positions.clone() {
            let stored = &span.values(position / BLOCK_TOKENS)[position % BLOCK_TOKENS * dim..];
            for (value, &stored) in values.iter_mut().zip(stored) {
                *value = weights[position % TILE].mul_add(from_half(stored), *value);
            }
        }
    }
}

/// Merges the next split of a group of query heads into those before it.
pub(crate) fn merge(total: &mut Partial<'_>, next: &Partial<'_>) {
    let dim = total.values.len() / total.max.len();
    let heads = total.values.chunks_exact_mut(dim).zip(next.values.chunks_exact(dim)).enumerate();
    for (head, (values, next_values)) in heads {
        let (before, after) = merge_scalars(total.max, total.sum, next, head);
        for (value, next_value) in values.iter_mut().zip(next_values) {
            *value = value.mul_add(before, next_value * after);
        }
    }
}

/// Merges maximum and sum of one head; the factors on the values of both sides.
pub(crate) fn merge_scalars(max: &mut [f32], sum: &mut [f32], next: &Partial<'_>, head: usize) -> (f32, f32) {
    let larger = max[head].max(next.max[head]);
    let (before, after) = (exp(max[head] - larger), exp(next.max[head] - larger));
    max[head] = larger;
    sum[head] = sum[head].mul_add(before, next.sum[head] * after);
    (before, after)
}
