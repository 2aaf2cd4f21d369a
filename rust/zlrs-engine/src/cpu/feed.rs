//! The feed-forward part of a layer.

use zlrs_kernels::{Gate, KernelError, Product, matmul, matmul_gated};
use zlrs_model::decoder::Activation;

use super::CpuBackend;
use super::buffers::parts;
use super::draft::described;
use super::rows::{add_branch, add_constant, norm_rows};
use crate::plan::Plan;

impl CpuBackend {
    /// `hidden += down(activation(gate(norm(hidden))) · up(norm(hidden)))` for the first `rows` rows of the plan.
    pub(super) fn feed(&mut self, plan: &Plan, rows: usize, layer: usize) -> Result<(), KernelError> {
        let Self { decoder, draft, weights, buffers, machine, observer, .. } = self;
        let decoder = described(decoder, draft.as_ref(), plan.layers);
        let (Some(part), Some(weights)) = (&decoder.layers[layer].mlp, &weights.layers[layer].mlp) else {
            let hidden = &mut buffers.hidden[..rows * decoder.width];
            return add_constant(machine, decoder.layers[layer].mlp_constant.as_deref(), hidden);
        };
        let (pool, width, epsilon) = (&machine.pool, decoder.width, decoder.norm_epsilon);
        let hidden = &mut buffers.hidden[..rows * width];
        let branch = &mut buffers.branch[..rows * width];
        let [gate, up, activated] = parts(&mut buffers.between, [rows * part.width; 3]);
        let scratch = &mut buffers.scratch;

        norm_rows(machine, hidden, &weights.norm, epsilon, branch)?;
        let mut pair = [
            Product { weights: &weights.gate, bias: None, out: gate },
            Product { weights: &weights.up, bias: None, out: up },
        ];
        let activation = match part.activation {
            Activation::Silu => Gate::Silu,
            Activation::Gelu => Gate::Gelu,
        };
        matmul_gated(pool, &mut pair, activation, branch, rows, activated, scratch)?;
        matmul(pool, &weights.down, activated, rows, None, branch, scratch)?;
        add_branch(machine, branch, weights.post_norm.as_deref(), epsilon, hidden, width, |hidden, branch| {
            if let Some(observer) = observer {
                observer.mlp(layer, hidden, branch);
            }
        })
    }
}
