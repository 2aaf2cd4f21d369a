//! Working memory that calls reuse, so that a step of the engine allocates nothing once it is warm.

use crate::naive::quantise::Activations;

/// Buffers that grow to the largest call seen and stay. One per engine thread; contents mean nothing between
/// calls.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Quantised rows of [`matmul`](crate::matmul()), plain.
    pub(crate) activations: Activations,
    /// Quantised rows of [`matmul`](crate::matmul()), laid out for packed weights.
    pub(crate) packed: Vec<u32>,
    /// Per-worker tiles of [`attention`](crate::attention()).
    pub(crate) attention: Vec<f32>,
    /// Rows of each part of [`attention`](crate::attention()).
    pub(crate) attention_parts: Vec<std::ops::Range<usize>>,
}

impl Scratch {
    /// Empty buffers.
    pub fn new() -> Self {
        Self::default()
    }
}
