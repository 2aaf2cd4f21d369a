//! The feed-forward part of a layer.

use super::CudaBackend;
use crate::{Address, CudaError, Device};

impl<D: Device> CudaBackend<D> {
    /// `hidden += down(activation(gate(norm(hidden))) · up(norm(hidden)))` for `rows` rows.
    pub(super) fn feed(&mut self, hidden: Address, rows: usize, layer: usize) -> Result<(), CudaError> {
        let (Some(part), Some(weights)) = (&self.decoder.layers[layer].mlp, &self.weights.layers[layer].1)
        else {
            return Ok(());
        };
        let (width, activation) = (part.width, part.activation);
        let (norm, post_norm) = (weights.norm, weights.post_norm);
        let (gate, up, down) = (weights.gate, weights.up, weights.down);
        let none = Address::default();
        let buffers = &self.buffers;
        let (normed, branch, activated) = (buffers.normed, buffers.branch, buffers.activated);
        let (gate_out, up_out) = (buffers.gate, buffers.up);

        self.queue.rms_norm(hidden, norm, normed, rows, self.decoder.width, self.decoder.norm_epsilon)?;
        self.products(normed, rows, &[(gate, none, gate_out), (up, none, up_out)])?;
        self.queue.gate(activation, gate_out, up_out, activated, rows * width)?;
        self.products(activated, rows, &[(down, none, branch)])?;
        self.add_branch(post_norm, hidden, rows)
    }
}
