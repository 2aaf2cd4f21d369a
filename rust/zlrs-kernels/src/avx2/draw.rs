//! The loops of [`naive::draw`](crate::naive::draw), compiled for wider vectors.

use crate::naive;

#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn weights(logits: &[f32], largest: f32, temperature: f32, out: &mut [f64]) {
    naive::draw::weights(logits, largest, temperature, out);
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn largest(logits: &[f32]) -> Option<f32> {
    naive::draw::largest(logits)
}
