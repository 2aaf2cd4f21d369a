//! A look at what the parts of a model add.

/// Is shown what every part computes, rows one after the other. For profiling: an engine that serves has none.
pub trait Observer: Send {
    /// The results of a layer's query heads, each of `head_dim` values, before the output projection.
    fn heads(&mut self, layer: usize, head_dim: usize, attended: &[f32]);

    /// The hidden states before a layer's attention and what it adds to them.
    fn attention(&mut self, layer: usize, hidden: &[f32], branch: &[f32]);

    /// What the gates of a layer's MLP let through, `width` values a row, after their activation.
    fn gates(&mut self, layer: usize, width: usize, through: &[f32]) {
        let _ = (layer, width, through);
    }

    /// The hidden states before a layer's MLP and what it adds to them.
    fn mlp(&mut self, layer: usize, hidden: &[f32], branch: &[f32]);
}
