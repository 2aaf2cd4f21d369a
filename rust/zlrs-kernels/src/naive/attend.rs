//! Attention of one query head over keys and values from anywhere: the order of [`super::attention`], for what has
//! no fast path on the processor (other precisions, a bias by distance).

use std::ops::Range;

use super::attention::{SPLIT, TILE};
use super::exponential::exp;
use super::norm::sum;

/// Where one query head's keys and values are.
pub struct Sources<'a> {
    /// The key of a position in a dimension.
    pub key: &'a dyn Fn(usize, usize) -> f32,
    /// The value of a position in a dimension.
    pub value: &'a dyn Fn(usize, usize) -> f32,
}

/// Attention of `query` (one head, not yet scaled) over the positions `visible`, not none, the last of them its own.
/// With a `slope`, `slope · (position - own position)` is added to each score in one rounding (ALiBi,
/// arXiv 2108.12409). O(visible · dim).
pub fn attend(
    query: &[f32],
    scale: f32,
    slope: Option<f32>,
    visible: Range<usize>,
    sources: &Sources<'_>,
    out: &mut [f32],
) {
    let dim = query.len();
    let query: Vec<f32> = query.iter().map(|value| value * scale).collect();
    let own = visible.end - 1;
    let mut total: Option<(f32, f32, Vec<f32>)> = None;
    for split in visible.start / SPLIT..=own / SPLIT {
        let (mut max, mut weight_sum, mut values) = (f32::NEG_INFINITY, 0.0_f32, vec![0.0_f32; dim]);
        for tile in split * SPLIT / TILE..(split + 1) * SPLIT / TILE {
            let seen = visible.start.max(tile * TILE)..visible.end.min((tile + 1) * TILE);
            if seen.is_empty() {
                continue;
            }
            let mut weights = [f32::NEG_INFINITY; TILE];
            let before = max;
            for position in seen.clone() {
                let mut score = 0.0;
                for (d, query) in query.iter().enumerate() {
                    score = query.mul_add((sources.key)(position, d), score);
                }
                if let Some(slope) = slope {
                    score = slope.mul_add(position as f32 - own as f32, score);
                }
                weights[position % TILE] = score;
                max = max.max(score);
            }
            let correction = exp(before - max);
            for weight in &mut weights {
                *weight = exp(*weight - max);
            }
            weight_sum = weight_sum.mul_add(correction, sum(&weights));
            for (d, value) in values.iter_mut().enumerate() {
                *value *= correction;
                for position in seen.clone() {
                    *value = weights[position % TILE].mul_add((sources.value)(position, d), *value);
                }
            }
        }
        total = Some(match total {
            None => (max, weight_sum, values),
            Some((max_before, sum_before, mut values_before)) => {
                let larger = max_before.max(max);
                let (before, after) = (exp(max_before - larger), exp(max - larger));
                for (value, next) in values_before.iter_mut().zip(values) {
                    *value = value.mul_add(before, next * after);
                }
                (larger, sum_before.mul_add(before, weight_sum * after), values_before)
            }
        });
    }
    if let Some((_, sum, values)) = total {
        for (out, value) in out.iter_mut().zip(values) {
            *out = value / sum;
        }
    }
}
