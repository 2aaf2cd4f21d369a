//! The network in floating point: forward, and backward by hand.

use super::numbers::{add_scaled, dot};
use super::random::Random;
use crate::DIMENSIONS;
use crate::weights::{BYTES, CHANNELS_1, CHANNELS_2, FEATURES, WIDTH_1, WIDTH_2};

/// Numbers that stand for a byte.
pub const EMBEDDING: usize = 24;

/// Where each layer's numbers lie in one list.
pub struct Layout;

impl Layout {
    /// `[BYTES][EMBEDDING]`
    pub const EMBEDDING: (usize, usize) = (0, BYTES * EMBEDDING);
    /// `[WIDTH_1][EMBEDDING][CHANNELS_1]`
    pub const FIRST: (usize, usize) = after(Self::EMBEDDING, WIDTH_1 * EMBEDDING * CHANNELS_1);
    pub const BIAS_1: (usize, usize) = after(Self::FIRST, CHANNELS_1);
    /// `[WIDTH_2][CHANNELS_1][CHANNELS_2]`
    pub const SECOND: (usize, usize) = after(Self::BIAS_1, WIDTH_2 * CHANNELS_1 * CHANNELS_2);
    pub const BIAS_2: (usize, usize) = after(Self::SECOND, CHANNELS_2);
    /// `[DIMENSIONS][FEATURES]`
    pub const PROJECTION: (usize, usize) = after(Self::BIAS_2, DIMENSIONS * FEATURES);
    pub const BIAS_3: (usize, usize) = after(Self::PROJECTION, DIMENSIONS);
    pub const COUNT: usize = Self::BIAS_3.0 + Self::BIAS_3.1;
}

const fn after(before: (usize, usize), length: usize) -> (usize, usize) {
    (before.0 + before.1, length)
}

/// A layer's numbers.
pub fn part(list: &[f32], (start, length): (usize, usize)) -> &[f32] {
    &list[start..start + length]
}

fn part_mut(list: &mut [f32], (start, length): (usize, usize)) -> &mut [f32] {
    &mut list[start..start + length]
}

/// Small random numbers (He, uniform).
pub fn initial(random: &mut Random) -> Vec<f32> {
    let mut list = vec![0.0; Layout::COUNT];
    for (layer, inputs) in [
        (Layout::EMBEDDING, 6),
        (Layout::FIRST, WIDTH_1 * EMBEDDING),
        (Layout::SECOND, WIDTH_2 * CHANNELS_1),
        (Layout::PROJECTION, FEATURES),
    ] {
        let bound = (6.0 / inputs as f32).sqrt();
        for value in part_mut(&mut list, layer) {
            *value = random.signed() * bound;
        }
    }
    list
}

/// Everything of one text that the way back needs.
pub struct Activations {
    bytes: Vec<u8>,
    /// `[bytes][CHANNELS_1]`
    pub first: Vec<f32>,
    /// `[pairs][CHANNELS_1]`
    pooled: Vec<f32>,
    /// Which of the pair it came from.
    from_second: Vec<bool>,
    /// `[pairs][CHANNELS_2]`
    second: Vec<f32>,
    largest_at: Vec<usize>,
    /// `[FEATURES]`
    pub features: Vec<f32>,
    /// Of unit length.
    pub direction: Vec<f32>,
    length: f32,
}

fn places(at: usize, width: usize, length: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..width).filter_map(move |offset| {
        (at + offset).checked_sub(width / 2).filter(|place| *place < length).map(|place| (offset, place))
    })
}

/// Runs the network on prepared bytes, which are not empty. Wider registers change the time and no bit: no sum is in
/// another order, and products are rounded before they are added.
pub fn forward(weights: &[f32], bytes: &[u8]) -> Activations {
    #[cfg(target_arch = "x86_64")]
    if crate::scan::is_wide() {
        // SAFETY: the instructions are there, as was just asked.
        #[expect(unsafe_code, reason = "the one way to reach code of another instruction set")]
        return unsafe { forward_wide(weights, bytes) };
    }
    forward_plain(weights, bytes)
}

/// Adds to `gradient` what a change of the direction by `slope` means for every weight. As for [`forward`], wider
/// registers change no bit.
pub fn backward(weights: &[f32], seen: &Activations, slope: &[f32], gradient: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if crate::scan::is_wide() {
        // SAFETY: the instructions are there, as was just asked.
        #[expect(unsafe_code, reason = "the one way to reach code of another instruction set")]
        unsafe {
            backward_wide(weights, seen, slope, gradient);
        }
        return;
    }
    backward_plain(weights, seen, slope, gradient);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn forward_wide(weights: &[f32], bytes: &[u8]) -> Activations {
    forward_plain(weights, bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn backward_wide(weights: &[f32], seen: &Activations, slope: &[f32], gradient: &mut [f32]) {
    backward_plain(weights, seen, slope, gradient);
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled into each of its callers' instruction sets")]
fn forward_plain(weights: &[f32], bytes: &[u8]) -> Activations {
    let (embedding, first_weights) = (part(weights, Layout::EMBEDDING), part(weights, Layout::FIRST));
    let mut first = Vec::with_capacity(bytes.len() * CHANNELS_1);
    for at in 0..bytes.len() {
        let start = first.len();
        first.extend_from_slice(part(weights, Layout::BIAS_1));
        let row = &mut first[start..];
        for (offset, place) in places(at, WIDTH_1, bytes.len()) {
            for (index, value) in
                embedding[usize::from(bytes[place]) * EMBEDDING..][..EMBEDDING].iter().enumerate()
            {
                let from = (offset * EMBEDDING + index) * CHANNELS_1;
                add_scaled(row, *value, &first_weights[from..from + CHANNELS_1]);
            }
        }
        for value in row.iter_mut() {
            *value = value.max(0.0);
        }
    }
    let pairs = bytes.len().div_ceil(2);
    let mut pooled = vec![0.0; pairs * CHANNELS_1];
    let mut from_second = vec![false; pairs * CHANNELS_1];
    for (at, row) in first.chunks_exact(CHANNELS_1).enumerate() {
        let base = at / 2 * CHANNELS_1;
        for (channel, value) in row.iter().enumerate() {
            if *value > pooled[base + channel] {
                pooled[base + channel] = *value;
                from_second[base + channel] = at % 2 == 1;
            }
        }
    }
    let second_weights = part(weights, Layout::SECOND);
    let mut second = Vec::with_capacity(pairs * CHANNELS_2);
    for at in 0..pairs {
        let start = second.len();
        second.extend_from_slice(part(weights, Layout::BIAS_2));
        let row = &mut second[start..];
        for (offset, place) in places(at, WIDTH_2, pairs) {
            for (index, value) in pooled[place * CHANNELS_1..][..CHANNELS_1].iter().enumerate() {
                if *value > 0.0 {
                    let from = (offset * CHANNELS_1 + index) * CHANNELS_2;
                    add_scaled(row, *value, &second_weights[from..from + CHANNELS_2]);
                }
            }
        }
        for value in row.iter_mut() {
            *value = value.max(0.0);
        }
    }
    let mut features = vec![0.0; FEATURES];
    let mut largest_at = vec![0; CHANNELS_2];
    let share = 1.0 / pairs as f32;
    for (at, row) in second.chunks_exact(CHANNELS_2).enumerate() {
        for (channel, value) in row.iter().enumerate() {
            if *value > features[channel] {
                features[channel] = *value;
                largest_at[channel] = at;
            }
            features[CHANNELS_2 + channel] += value * share;
        }
    }
    let projection = part(weights, Layout::PROJECTION);
    let mut direction: Vec<f32> = projection
        .chunks_exact(FEATURES)
        .zip(part(weights, Layout::BIAS_3))
        .map(|(row, bias)| dot(row, &features) + bias)
        .collect();
    let length = dot(&direction, &direction).sqrt().max(1e-12);
    for value in &mut direction {
        *value /= length;
    }
    Activations {
        bytes: bytes.to_vec(),
        first,
        pooled,
        from_second,
        second,
        largest_at,
        features,
        direction,
        length,
    }
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled into each of its callers' instruction sets")]
fn backward_plain(weights: &[f32], seen: &Activations, slope: &[f32], gradient: &mut [f32]) {
    let along = dot(slope, &seen.direction);
    let raw: Vec<f32> = slope
        .iter()
        .zip(&seen.direction)
        .map(|(slope, direction)| (slope - along * direction) / seen.length)
        .collect();
    let projection = part(weights, Layout::PROJECTION);
    let mut features = vec![0.0; FEATURES];
    for (dimension, slope) in raw.iter().enumerate() {
        add_scaled(&mut features, *slope, &projection[dimension * FEATURES..][..FEATURES]);
        let row = &mut part_mut(gradient, Layout::PROJECTION)[dimension * FEATURES..][..FEATURES];
        add_scaled(row, *slope, &seen.features);
        part_mut(gradient, Layout::BIAS_3)[dimension] += slope;
    }
    let pairs = seen.bytes.len().div_ceil(2);
    let share = 1.0 / pairs as f32;
    let mut pooled = vec![0.0; pairs * CHANNELS_1];
    let second_weights = part(weights, Layout::SECOND);
    let mut row = vec![0.0; CHANNELS_2];
    for at in 0..pairs {
        for (channel, slope) in row.iter_mut().enumerate() {
            let is_on = seen.second[at * CHANNELS_2 + channel] > 0.0;
            let is_largest = seen.largest_at[channel] == at;
            let through =
                features[CHANNELS_2 + channel] * share + if is_largest { features[channel] } else { 0.0 };
            *slope = if is_on { through } else { 0.0 };
        }
        add_scaled(part_mut(gradient, Layout::BIAS_2), 1.0, &row);
        for (offset, place) in places(at, WIDTH_2, pairs) {
            for index in 0..CHANNELS_1 {
                let value = seen.pooled[place * CHANNELS_1 + index];
                // What the first layer has cut off has no slope either.
                if value > 0.0 {
                    let from = (offset * CHANNELS_1 + index) * CHANNELS_2;
                    pooled[place * CHANNELS_1 + index] += dot(&second_weights[from..from + CHANNELS_2], &row);
                    let into = &mut part_mut(gradient, Layout::SECOND)[from..from + CHANNELS_2];
                    add_scaled(into, value, &row);
                }
            }
        }
    }
    backward_first(weights, seen, &pooled, gradient);
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled into each of its callers' instruction sets")]
fn backward_first(weights: &[f32], seen: &Activations, pooled: &[f32], gradient: &mut [f32]) {
    let (embedding, first_weights) = (part(weights, Layout::EMBEDDING), part(weights, Layout::FIRST));
    let mut row = vec![0.0; CHANNELS_1];
    for at in 0..seen.bytes.len() {
        let base = at / 2 * CHANNELS_1;
        for (channel, slope) in row.iter_mut().enumerate() {
            let is_chosen =
                seen.from_second[base + channel] == (at % 2 == 1) && seen.pooled[base + channel] > 0.0;
            *slope = if is_chosen { pooled[base + channel] } else { 0.0 };
        }
        add_scaled(part_mut(gradient, Layout::BIAS_1), 1.0, &row);
        for (offset, place) in places(at, WIDTH_1, seen.bytes.len()) {
            let byte = usize::from(seen.bytes[place]);
            for index in 0..EMBEDDING {
                let from = (offset * EMBEDDING + index) * CHANNELS_1;
                let slope = dot(&first_weights[from..from + CHANNELS_1], &row);
                part_mut(gradient, Layout::EMBEDDING)[byte * EMBEDDING + index] += slope;
                let value = embedding[byte * EMBEDDING + index];
                add_scaled(&mut part_mut(gradient, Layout::FIRST)[from..from + CHANNELS_1], value, &row);
            }
        }
    }
}
