//! From floating point to integers: each channel gets the range that real texts fill.

use super::float::{Activations, EMBEDDING, Layout, part};
use crate::DIMENSIONS;
use crate::weights::{BYTES, CHANNELS_1, CHANNELS_2, FEATURES, WIDTH_1, WIDTH_2, Weights};

/// The largest value of each channel over texts.
pub struct Ranges {
    first: Vec<f32>,
    features: Vec<f32>,
}

impl Ranges {
    pub fn new() -> Self {
        Self { first: vec![1e-6; CHANNELS_1], features: vec![1e-6; FEATURES] }
    }

    pub fn observe(&mut self, seen: &Activations) {
        for row in seen.first.chunks_exact(CHANNELS_1) {
            self.first.iter_mut().zip(row).for_each(|(largest, value)| *largest = largest.max(*value));
        }
        self.features
            .iter_mut()
            .zip(&seen.features)
            .for_each(|(largest, value)| *largest = largest.max(*value));
    }
}

/// The step of a list of weights: its largest is 127 of them.
fn step(list: impl Iterator<Item = f32>) -> f32 {
    list.fold(1e-9_f32, |largest, value| largest.max(value.abs())) / 127.0
}

fn narrow(value: f32, step: f32) -> i8 {
    (value / step).round().clamp(-127.0, 127.0) as i8
}

pub fn integers(weights: &[f32], ranges: &Ranges) -> Weights {
    let (embedding, first) = (part(weights, Layout::EMBEDDING), part(weights, Layout::FIRST));
    let mut table = vec![0.0_f32; WIDTH_1 * BYTES * CHANNELS_1];
    for offset in 0..WIDTH_1 {
        for byte in 0..BYTES {
            for channel in 0..CHANNELS_1 {
                let terms = (0..EMBEDDING).map(|index| {
                    embedding[byte * EMBEDDING + index]
                        * first[(offset * EMBEDDING + index) * CHANNELS_1 + channel]
                });
                table[(offset * BYTES + byte) * CHANNELS_1 + channel] = terms.sum();
            }
        }
    }
    let column = |channel: usize| table.iter().skip(channel).step_by(CHANNELS_1).copied();
    let steps_1: Vec<f32> = (0..CHANNELS_1).map(|channel| step(column(channel))).collect();
    // Rare peaks are cut off: finer steps for all the others are worth more.
    let step_first: Vec<f32> = ranges.first.iter().map(|range| range * 0.8 / 127.0).collect();
    let step_features: Vec<f32> = ranges.features.iter().map(|range| range * 0.9 / 127.0).collect();

    let second = part(weights, Layout::SECOND);
    let mut convolution = vec![0_i8; CHANNELS_2 * WIDTH_2 * CHANNELS_1];
    let mut steps_2 = Vec::with_capacity(CHANNELS_2);
    for (channel, out) in convolution.chunks_exact_mut(WIDTH_2 * CHANNELS_1).enumerate() {
        let weight = |at: usize| second[at * CHANNELS_2 + channel] * step_first[at % CHANNELS_1];
        let size = step((0..WIDTH_2 * CHANNELS_1).map(weight));
        out.iter_mut().enumerate().for_each(|(at, out)| *out = narrow(weight(at), size));
        steps_2.push(size);
    }
    let rows = part(weights, Layout::PROJECTION);
    let mut projection = vec![0_i8; DIMENSIONS * FEATURES];
    let mut factor_3 = Vec::with_capacity(DIMENSIONS);
    for (dimension, out) in projection.chunks_exact_mut(FEATURES).enumerate() {
        let weight = |at: usize| rows[dimension * FEATURES + at] * step_features[at];
        let size = step((0..FEATURES).map(weight));
        out.iter_mut().enumerate().for_each(|(at, out)| *out = narrow(weight(at), size));
        factor_3.push(size);
    }
    let biases = |layer, steps: &[f32]| -> Vec<i32> {
        part(weights, layer).iter().zip(steps).map(|(bias, step)| (bias / step).round() as i32).collect()
    };
    Weights {
        bias_1: biases(Layout::BIAS_1, &steps_1),
        factor_1: steps_1.iter().zip(&step_first).map(|(step, into)| step / into).collect(),
        bias_2: biases(Layout::BIAS_2, &steps_2),
        factor_2: (0..FEATURES).map(|at| steps_2[at % CHANNELS_2] / step_features[at]).collect(),
        bias_3: part(weights, Layout::BIAS_3).to_vec(),
        table: table.iter().enumerate().map(|(at, value)| narrow(*value, steps_1[at % CHANNELS_1])).collect(),
        convolution,
        projection,
        factor_3,
    }
}
