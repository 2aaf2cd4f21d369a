//! The network's arithmetic, written plainly: what every faster form must equal.

use crate::weights::{BYTES, CHANNELS_1, CHANNELS_2, FEATURES, WIDTH_1, WIDTH_2, Weights};
use crate::{DIMENSIONS, Fingerprint, prepared};

/// The fingerprint of a text; `None` where it has none.
pub fn fingerprint(weights: &Weights, text: &str) -> Option<Fingerprint> {
    let text = prepared(text)?;
    let bytes = text.as_bytes();
    let inside = |at: usize, offset: usize, width: usize, length: usize| {
        (at + offset).checked_sub(width / 2).filter(|place| *place < length)
    };
    let mut first = Vec::new();
    for at in 0..bytes.len() {
        for channel in 0..CHANNELS_1 {
            let mut sum = weights.bias_1[channel];
            for offset in 0..WIDTH_1 {
                if let Some(place) = inside(at, offset, WIDTH_1, bytes.len()) {
                    let byte = usize::from(bytes[place]);
                    sum += i32::from(weights.table[(offset * BYTES + byte) * CHANNELS_1 + channel]);
                }
            }
            first.push(squeezed(sum as f32, weights.factor_1[channel]));
        }
    }
    let pairs = bytes.len().div_ceil(2);
    let pooled = |pair: usize, channel: usize| {
        let value = |at: usize| first.get(at * CHANNELS_1 + channel).copied().unwrap_or(0);
        value(2 * pair).max(value(2 * pair + 1))
    };
    let mut features = vec![0; FEATURES];
    for channel in 0..CHANNELS_2 {
        let (mut largest, mut total) = (0, 0);
        for at in 0..pairs {
            let mut sum = weights.bias_2[channel];
            for offset in 0..WIDTH_2 {
                if let Some(place) = inside(at, offset, WIDTH_2, pairs) {
                    for from in 0..CHANNELS_1 {
                        let weight = weights.convolution[(channel * WIDTH_2 + offset) * CHANNELS_1 + from];
                        sum += i32::from(weight) * pooled(place, from);
                    }
                }
            }
            largest = largest.max(sum);
            total += i64::from(sum.max(0));
        }
        features[channel] = squeezed(largest as f32, weights.factor_2[channel]);
        let mean = total as f32 / pairs as f32;
        features[CHANNELS_2 + channel] = squeezed(mean, weights.factor_2[CHANNELS_2 + channel]);
    }
    let mut direction = [0.0; DIMENSIONS];
    for (dimension, value) in direction.iter_mut().enumerate() {
        let row = &weights.projection[dimension * FEATURES..][..FEATURES];
        let sum: i32 = row.iter().zip(&features).map(|(weight, feature)| i32::from(*weight) * feature).sum();
        *value = sum as f32 * weights.factor_3[dimension] + weights.bias_3[dimension];
    }
    Some(Fingerprint::of_direction(&direction))
}

/// A sum as 0 to 127.
fn squeezed(sum: f32, factor: f32) -> i32 {
    (sum * factor).round().clamp(0.0, 127.0) as i32
}
