//! Kernels that read weights: embedding and products, with what they take of activations.

use zlrs_kernels::TensorType;

use super::{Queue, int};
use crate::weights::Matrix;
use crate::{Address, Argument, CudaError, Device, UNIT};

/// Rows up to which a product takes the kernels of few rows.
const FEW_ROWS: usize = 8;

/// Activations as the integer products read them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quantised {
    pub quants: Address,
    pub scales: Address,
    pub sums: Address,
}

impl<D: Device> Queue<D> {
    /// `out[r] = W[ids[r]] · factor`
    pub fn embed(
        &mut self,
        weights: &Matrix,
        ids: Address,
        rows: usize,
        factor: f32,
        out: Address,
    ) -> Result<(), CudaError> {
        let float = weights.tensor_type.is_float();
        let planes = if float { 1 } else { 5 };
        let mut arguments = [int(0); 9];
        for (argument, &plane) in arguments.iter_mut().zip(&weights.planes[..planes]) {
            *argument = Argument::Address(plane);
        }
        let rest =
            [Argument::Address(ids), Argument::Address(out), int(weights.cols), Argument::Float(factor)];
        arguments[planes..planes + 4].copy_from_slice(&rest);
        let threads = if float { 256 } else { 32 };
        let blocks = weights.cols.div_ceil(if float { 256 } else { UNIT });
        let name = names(weights.tensor_type).embed;
        self.run(name, [blocks, rows, 1], threads, 0, &arguments[..planes + 4])
    }

    /// Makes bytes of rows for matrices with blocks of `block` weights.
    pub fn quantise(
        &mut self,
        x: Address,
        out: &Quantised,
        rows: usize,
        width: usize,
        block: usize,
    ) -> Result<(), CudaError> {
        let [x, quants, scales, sums] = [x, out.quants, out.scales, out.sums].map(Argument::Address);
        let arguments = [x, quants, scales, sums, int(width), int(block)];
        self.run("quantise_rows", [width / block, rows, 1], 32, 0, &arguments)
    }

    /// `out[r] = W x[r] + bias` for a matrix of quantised weights and rows made for its blocks, or for a
    /// floating-point matrix and the rows themselves.
    pub fn product(
        &mut self,
        weights: &Matrix,
        x: Address,
        quantised: &Quantised,
        bias: Address,
        out: Address,
        rows: usize,
    ) -> Result<(), CudaError> {
        let names = names(weights.tensor_type);
        let outputs = weights.rows;
        let sizes = [int(weights.cols), int(outputs), int(rows)];
        if weights.tensor_type.is_float() {
            let [weights, x, bias, out] = [weights.planes[0], x, bias, out].map(Argument::Address);
            let arguments = [weights, x, bias, out, sizes[0], sizes[1], sizes[2]];
            return self.run(names.product, [outputs.div_ceil(16), rows.div_ceil(4), 1], 128, 0, &arguments);
        }
        if rows > FEW_ROWS && rows <= 2 * FEW_ROWS {
            // Twice few rows: tiles of so few outputs and rows would leave most of a device idle, and what the second
            // pass reads of the weights is in the cache.
            let rest = rows - FEW_ROWS;
            let block = weights.tensor_type.block_len();
            let behind =
                |address: Address, of_row: usize| address.offset(FEW_ROWS * of_row * size_of::<f32>());
            self.product(weights, x, quantised, bias, out, FEW_ROWS)?;
            let quantised = Quantised {
                quants: quantised.quants.offset(FEW_ROWS * weights.cols),
                scales: behind(quantised.scales, weights.cols / block),
                sums: behind(quantised.sums, weights.cols / 16),
            };
            return self.product(weights, x, &quantised, bias, behind(out, outputs), rest);
        }
        let [a, b, c, d, e] = weights.planes.map(Argument::Address);
        let Quantised { quants, scales, sums } = *quantised;
        let [quants, scales, sums, bias, out] = [quants, scales, sums, bias, out].map(Argument::Address);
        let arguments = [a, b, c, d, e, quants, scales, sums, bias, out, sizes[0], sizes[1], sizes[2]];
        if rows > FEW_ROWS {
            let grid = [outputs.div_ceil(64), rows.div_ceil(32), 1];
            return self.run(names.product, grid, 128, 0, &arguments);
        }
        let columns = rows.next_power_of_two();
        // The kernel's gemv_outputs.
        let chains = if weights.tensor_type == TensorType::Q4_1 { 8 } else { 16 };
        let outputs_of_block = (chains / columns).min(4);
        let name = names.few_rows[columns.ilog2() as usize];
        self.run(name, [outputs.div_ceil(outputs_of_block), 1, 1], 128, 0, &arguments)
    }
}

/// The kernels of a type.
struct Names {
    embed: &'static str,
    /// Any number of rows.
    product: &'static str,
    /// Up to 1, 2, 4, 8 rows; the same product again for floating-point types.
    few_rows: [&'static str; 4],
}

macro_rules! names {
    ($type:literal) => {
        Names {
            embed: concat!("embed_", $type),
            product: concat!("matmul_", $type),
            few_rows: [
                concat!("gemv_", $type, "_1"),
                concat!("gemv_", $type, "_2"),
                concat!("gemv_", $type, "_4"),
                concat!("gemv_", $type, "_8"),
            ],
        }
    };
}

macro_rules! float_names {
    ($type:literal) => {
        Names {
            embed: concat!("embed_", $type),
            product: concat!("product_", $type),
            few_rows: [concat!("product_", $type); 4],
        }
    };
}

const fn names(tensor_type: TensorType) -> Names {
    match tensor_type {
        TensorType::F32 => float_names!("f32"),
        TensorType::F16 => float_names!("f16"),
        TensorType::BF16 => float_names!("bf16"),
        TensorType::Q4_0 => names!("q4_0"),
        TensorType::Q4_1 => names!("q4_1"),
        TensorType::Q5_0 => names!("q5_0"),
        TensorType::Q8_0 => names!("q8_0"),
        TensorType::Q4K => names!("q4_k"),
        TensorType::Q5K => names!("q5_k"),
        TensorType::Q6K => names!("q6_k"),
    }
}
