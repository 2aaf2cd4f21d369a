//! Neurons that aggressive rows take as 0, because their gates let hardly anything through.

use super::CpuBackend;
use crate::Compute;
use crate::plan::Row;

impl CpuBackend {
    /// From now on takes, in aggressive rows, every neuron of a layer as 0 whose gate lets no more through than the
    /// layer's threshold; a layer without a threshold, or with a negative one, keeps all. Or nothing, as at first.
    pub fn install_neurons(&mut self, thresholds: Option<Vec<f32>>) {
        self.neurons = thresholds;
    }
}

/// What gates must exceed in each row; whether that leaves anything out.
pub(super) fn least_of(thresholds: Option<&[f32]>, layer: usize, rows: &[Row], least: &mut Vec<f32>) -> bool {
    let threshold = thresholds.and_then(|thresholds| thresholds.get(layer).copied());
    let Some(threshold) = threshold.filter(|&threshold| threshold >= 0.0) else { return false };
    if rows.iter().all(|row| row.compute == Compute::Exact) {
        return false;
    }
    least.clear();
    least.extend(rows.iter().map(|row| if row.compute == Compute::Aggressive { threshold } else { -1.0 }));
    true
}
