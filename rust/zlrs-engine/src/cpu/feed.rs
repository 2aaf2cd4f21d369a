//! The feed-forward part of a layer.

use zlrs_kernels::{
    Gate, KernelError, Product, gelu_multiply, matmul, matmul_gated, matmul_gated_above, silu_multiply,
};
use zlrs_model::decoder::Activation;

use super::CpuBackend;
use super::buffers::parts;
use super::draft::described;
use super::neurons::least_of;
use super::rows::{add_branch, add_constant, norm_rows};
use crate::plan::Plan;

impl CpuBackend {
    /// `hidden += down(activation(gate(norm(hidden))) · up(norm(hidden)))` for the first `rows` rows of the plan.
    pub(super) fn feed(&mut self, plan: &Plan, rows: usize, layer: usize) -> Result<(), KernelError> {
        let Self { decoder, draft, neurons, weights, buffers, machine, observer, .. } = self;
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
        if least_of(neurons.as_deref(), layer, &buffers.live[..rows], &mut buffers.least) {
            let least = &buffers.least[..];
            matmul_gated_above(pool, &mut pair, activation, least, branch, rows, activated, scratch)?;
        } else {
            matmul_gated(pool, &mut pair, activation, branch, rows, activated, scratch)?;
        }
        if let Some(observer) = observer {
            let ([gate, _], ones) = (pair, vec![1.0; rows * part.width]);
            let mut through = vec![0.0; rows * part.width];
            match activation {
                Gate::Silu => silu_multiply(machine.isa, gate.out, &ones, &mut through),
                Gate::Gelu => gelu_multiply(machine.isa, gate.out, &ones, &mut through),
            }
            observer.gates(layer, part.width, &through);
        }
        matmul(pool, &weights.down, activated, rows, None, branch, scratch)?;
        add_branch(machine, branch, weights.post_norm.as_deref(), epsilon, hidden, width, |hidden, branch| {
            if let Some(observer) = observer {
                observer.mlp(layer, hidden, branch);
            }
        })
    }
}
