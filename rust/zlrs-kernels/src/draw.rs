//! What choosing a token computes of every logit.

use crate::Isa;
use crate::dispatch::dispatch_wide;

/// `out[i] = e^((logits[i] - largest) / temperature)` in f64, within some units of the last place, 0 below the
/// smallest normal number. No logit is above `largest`, all are finite, `temperature > 0`. On the calling thread.
///
/// # Panics
/// If the lengths differ.
pub fn weights(isa: Isa, logits: &[f32], largest: f32, temperature: f32, out: &mut [f64]) {
    assert_eq!(logits.len(), out.len(), "weights: lengths of logits and out");
    dispatch_wide!(isa, draw::weights(logits, largest, temperature, out));
}

/// The largest of the logits; `None` if there are none or any is NaN or infinite. On the calling thread.
pub fn largest(isa: Isa, logits: &[f32]) -> Option<f32> {
    dispatch_wide!(isa, draw::largest(logits))
}
