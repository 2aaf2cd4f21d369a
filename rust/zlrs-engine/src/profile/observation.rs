//! Sums over what parts add to the hidden state.

use std::sync::{Arc, Mutex, PoisonError};

use zlrs_model::decoder::Decoder;

use crate::cpu::Observer;

/// What every part added over some texts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observation {
    /// One entry a layer.
    pub layers: Vec<LayerObservation>,
}

/// What one layer added.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LayerObservation {
    /// Rows seen.
    pub rows: usize,
    /// Sum of the lengths of each query head's result, before the output projection.
    pub head_norms: Vec<f64>,
    /// Largest absolute value in each query head's result.
    pub head_peaks: Vec<f32>,
    /// The attention block.
    pub attention: PartObservation,
    /// The MLP block.
    pub mlp: PartObservation,
    /// Sum of 1 − cos(hidden state before the layer, after it): block influence (`ShortGPT`).
    pub influence: f64,
}

/// What one block added.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PartObservation {
    /// Rows seen.
    pub rows: usize,
    /// Sum of the lengths of what it added.
    pub norm: f64,
    /// Sum of those lengths over that of the hidden state they were added to.
    pub relative_norm: f64,
    /// Sum of what it added, value by value.
    pub sum: Vec<f64>,
    /// Largest absolute value that it added.
    pub peak: f32,
}

impl Observation {
    pub(super) fn new(decoder: &Decoder) -> Self {
        let part = || PartObservation { sum: vec![0.0; decoder.width], ..PartObservation::default() };
        let layers = decoder.layers.iter().map(|layer| {
            let heads = layer.attention.as_ref().map_or(0, |part| part.heads);
            LayerObservation {
                head_norms: vec![0.0; heads],
                head_peaks: vec![0.0; heads],
                attention: part(),
                mlp: part(),
                ..LayerObservation::default()
            }
        });
        Self { layers: layers.collect() }
    }
}

impl PartObservation {
    /// The mean of what it added: what may stand in for it.
    pub fn mean(&self) -> Vec<f32> {
        self.sum.iter().map(|sum| (sum / self.rows.max(1) as f64) as f32).collect()
    }

    fn add(&mut self, hidden: &[f32], branch: &[f32], width: usize) {
        for (hidden, branch) in hidden.chunks_exact(width).zip(branch.chunks_exact(width)) {
            let norm = length(branch);
            self.rows += 1;
            self.norm += norm;
            self.relative_norm += norm / length(hidden).max(f64::MIN_POSITIVE);
            self.peak = peak(branch, self.peak);
            self.sum.iter_mut().zip(branch).for_each(|(sum, &value)| *sum += f64::from(value));
        }
    }
}

/// Fills an observation while a backend computes.
pub(super) struct Recorder {
    observation: Arc<Mutex<Observation>>,
    width: usize,
    /// Hidden states before the layer.
    before: Vec<f32>,
}

impl Recorder {
    pub fn new(observation: Arc<Mutex<Observation>>, width: usize) -> Self {
        Self { observation, width, before: Vec::new() }
    }

    fn with(&self, layer: usize, record: impl FnOnce(&mut LayerObservation)) {
        let mut observation = self.observation.lock().unwrap_or_else(PoisonError::into_inner);
        record(&mut observation.layers[layer]);
    }
}

impl Observer for Recorder {
    fn heads(&mut self, layer: usize, head_dim: usize, attended: &[f32]) {
        self.with(layer, |layer| {
            let heads = layer.head_norms.len();
            for (index, head) in attended.chunks_exact(head_dim).enumerate() {
                layer.head_norms[index % heads] += length(head);
                layer.head_peaks[index % heads] = peak(head, layer.head_peaks[index % heads]);
            }
        });
    }

    fn attention(&mut self, layer: usize, hidden: &[f32], branch: &[f32]) {
        self.before.clear();
        self.before.extend_from_slice(hidden);
        self.with(layer, |layer| layer.attention.add(hidden, branch, self.width));
    }

    fn mlp(&mut self, layer: usize, hidden: &[f32], branch: &[f32]) {
        let rows = self.before.chunks_exact(self.width).zip(hidden.chunks_exact(self.width));
        let after = rows.zip(branch.chunks_exact(self.width)).map(|((before, hidden), branch)| {
            let after: Vec<f32> = hidden.iter().zip(branch).map(|(a, b)| a + b).collect();
            1.0 - cosine(before, &after)
        });
        let (count, influence) = after.fold((0, 0.0), |(count, sum), value| (count + 1, sum + value));
        self.with(layer, |layer| {
            layer.mlp.add(hidden, branch, self.width);
            layer.rows += count;
            layer.influence += influence;
        });
    }
}

fn length(values: &[f32]) -> f64 {
    dot(values, values).sqrt()
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    dot(a, b) / (length(a) * length(b)).max(f64::MIN_POSITIVE)
}

fn peak(values: &[f32], before: f32) -> f32 {
    values.iter().fold(before, |peak, value| peak.max(value.abs()))
}
