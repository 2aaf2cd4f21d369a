//! The whole matrix product over file bytes, on one thread.

use super::decode::decoder;
use super::dot::{float_dot, quantised_dot};
use super::quantise::Activations;
use crate::TensorType;

/// Activation rows that share one decoding of a weight row; they never share an accumulator.
const ROWS_AT_ONCE: usize = 16;

/// `out[r] = W x[r] + bias`: weights are file rows, `x` is `[rows][cols]`, `out` is `[rows][weight rows]`.
/// The bias is added last, rounded once. Lengths must fit one another.
pub fn matmul(
    tensor_type: TensorType,
    weights: &[u8],
    cols: usize,
    x: &[f32],
    bias: Option<&[f32]>,
    out: &mut [f32],
) {
    let Some(row_bytes) = tensor_type.row_bytes(cols) else { return };
    let weight_rows = weights.len() / row_bytes;
    let mut activations = Activations::default();
    if !tensor_type.is_float() {
        activations.quantise(x, cols, tensor_type.block_len());
    }
    for (i, weights) in weights.chunks_exact(row_bytes).enumerate() {
        product_row(tensor_type, weights, x, &activations, |row, value| {
            out[row * weight_rows + i] = bias.map_or(value, |bias| value + bias[i]);
        });
    }
}

/// One weight row times every row of `x`; `write(row, product)` takes the results. `activations` is `x`
/// quantised, unless the type is floating-point.
pub fn product_row(
    tensor_type: TensorType,
    weights: &[u8],
    x: &[f32],
    activations: &Activations,
    mut write: impl FnMut(usize, f32),
) {
    let cols = weights.len() / tensor_type.block_bytes() * tensor_type.block_len();
    let Some(decode) = decoder(tensor_type) else {
        for (row, x) in x.chunks_exact(cols).enumerate() {
            write(row, float_dot(tensor_type, weights, x));
        }
        return;
    };
    let rows = x.len() / cols;
    let mut results = [0.0; ROWS_AT_ONCE];
    for first in (0..rows).step_by(ROWS_AT_ONCE) {
        let results = &mut results[..ROWS_AT_ONCE.min(rows - first)];
        quantised_dot(tensor_type, decode, weights, activations, first, results);
        for (i, &value) in results.iter().enumerate() {
            write(first + i, value);
        }
    }
}
