//! The feed-forward part of a layer.

use zlrs_kernels::{
    Isa, KernelError, add, gelu_multiply, matmul, rms_norm, rms_norm_in_place, silu_multiply,
};
use zlrs_model::decoder::Activation;

use super::CpuBackend;

impl CpuBackend {
    /// `hidden += down(activation(gate(norm(hidden))) · up(norm(hidden)))` for `rows` rows.
    pub(super) fn feed(&mut self, rows: usize, layer: usize) -> Result<(), KernelError> {
        let Self { decoder, weights, buffers, machine, .. } = self;
        let (Some(part), Some(weights)) = (&decoder.layers[layer].mlp, &weights.layers[layer].mlp) else {
            return Ok(());
        };
        let (isa, pool, width, epsilon) = (machine.isa, &machine.pool, decoder.width, decoder.norm_epsilon);
        let hidden = &mut buffers.hidden[..rows * width];
        let normed = &mut buffers.normed[..rows * width];
        let branch = &mut buffers.branch[..rows * width];
        let gate = &mut buffers.gate[..rows * part.width];
        let up = &mut buffers.up[..rows * part.width];
        let scratch = &mut buffers.scratch;

        norm_rows(isa, hidden, &weights.norm, epsilon, normed);
        matmul(pool, &weights.gate, normed, rows, None, gate, scratch)?;
        matmul(pool, &weights.up, normed, rows, None, up, scratch)?;
        let activated = &mut buffers.activated[..rows * part.width];
        match part.activation {
            Activation::Silu => silu_multiply(isa, gate, up, activated),
            Activation::Gelu => gelu_multiply(isa, gate, up, activated),
        }
        matmul(pool, &weights.down, activated, rows, None, branch, scratch)?;
        if let Some(norm) = &weights.post_norm {
            for row in branch.chunks_exact_mut(width) {
                rms_norm_in_place(isa, row, norm, epsilon);
            }
        }
        add(isa, branch, hidden);
        Ok(())
    }
}

/// The norm of each row.
pub(super) fn norm_rows(isa: Isa, rows: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
    for (row, out) in rows.chunks_exact(weight.len()).zip(out.chunks_exact_mut(weight.len())) {
        rms_norm(isa, row, weight, epsilon, out);
    }
}
