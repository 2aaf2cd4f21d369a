//! Kernels as functions: what each takes, how many blocks it gets.
//!
//! Everything here trusts its caller to give addresses with the memory that the kernels' headers ask for; the
//! backend sizes its buffers by the same shapes.

mod keys_values;
mod products;

use zlrs_model::decoder::Activation;

use crate::{Address, Argument, CudaError, Device, Launch};

pub(crate) use keys_values::{Attend, KvPlace, Mixed, Parts, RowPlaces};
pub(crate) use products::Quantised;

/// Threads of a block of the elementwise kernels.
const ELEMENTS: usize = 256;

/// A device with the kernels' names and shapes.
#[derive(Debug)]
pub(crate) struct Queue<D>(pub D);

fn int(value: usize) -> Argument {
    Argument::Int(value as i32)
}

impl<D: Device> Queue<D> {
    fn run(
        &mut self,
        kernel: &'static str,
        grid: [usize; 3],
        threads: u32,
        shared_bytes: usize,
        arguments: &[Argument],
    ) -> Result<(), CudaError> {
        if grid.contains(&0) {
            return Ok(());
        }
        let grid = grid.map(|blocks| blocks as u32);
        let launch =
            Launch { kernel, grid, block: [threads, 1, 1], shared_bytes: shared_bytes as u32, arguments };
        // SAFETY: the functions of this module give each kernel the parameters it declares, over memory that the backend
        // has allocated for the shapes it passes.
        unsafe { self.0.launch(&launch) }
    }

    /// The norm of each row; `out` may be `x`.
    pub fn rms_norm(
        &mut self,
        x: Address,
        weight: Address,
        out: Address,
        rows: usize,
        width: usize,
        epsilon: f32,
    ) -> Result<(), CudaError> {
        let [x, weight, out] = [x, weight, out].map(Argument::Address);
        self.run("rms_norm", [rows, 1, 1], 32, 0, &[x, weight, out, int(width), Argument::Float(epsilon)])
    }

    /// `out += x`
    pub fn add(&mut self, x: Address, out: Address, count: usize) -> Result<(), CudaError> {
        let arguments = [Argument::Address(x), Argument::Address(out), Argument::Size(count as u64)];
        self.run("add", [count.div_ceil(ELEMENTS), 1, 1], ELEMENTS as u32, 0, &arguments)
    }

    /// `out = activation(gate) · up`
    pub fn gate(
        &mut self,
        activation: Activation,
        gate: Address,
        up: Address,
        out: Address,
        count: usize,
    ) -> Result<(), CudaError> {
        let name = match activation {
            Activation::Silu => "silu_multiply",
            Activation::Gelu => "gelu_multiply",
        };
        let [gate, up, out] = [gate, up, out].map(Argument::Address);
        let arguments = [gate, up, out, Argument::Size(count as u64)];
        self.run(name, [count.div_ceil(ELEMENTS), 1, 1], ELEMENTS as u32, 0, &arguments)
    }

    /// `x = cap · tanh(x / cap)`
    pub fn softcap(&mut self, x: Address, cap: f32, count: usize) -> Result<(), CudaError> {
        let arguments = [Argument::Address(x), Argument::Float(cap), Argument::Size(count as u64)];
        self.run("softcap", [count.div_ceil(ELEMENTS), 1, 1], ELEMENTS as u32, 0, &arguments)
    }

    /// `out[i] = x[index[i]]`
    pub fn gather(
        &mut self,
        x: Address,
        index: Address,
        out: Address,
        rows: usize,
        width: usize,
    ) -> Result<(), CudaError> {
        let [x, index, out] = [x, index, out].map(Argument::Address);
        self.run("gather_rows", [width.div_ceil(256), rows, 1], 256, 0, &[x, index, out, int(width)])
    }

    /// Rotates every head of every row.
    pub fn rope(
        &mut self,
        x: Address,
        table: Address,
        positions: Address,
        [rows, heads, head_dim]: [usize; 3],
        half: usize,
        adjacent: bool,
    ) -> Result<(), CudaError> {
        let [x, table, positions] = [x, table, positions].map(Argument::Address);
        let arguments = [x, table, positions, int(head_dim), int(half), int(usize::from(adjacent))];
        self.run("rope", [heads, rows, 1], 64, 0, &arguments)
    }

    /// What later layers are predicted to contribute to each of `rows` rows.
    pub fn exit_head(
        &mut self,
        x: Address,
        weights: Address,
        out: Address,
        [features, units]: [usize; 2],
        rows: usize,
    ) -> Result<(), CudaError> {
        let [x, weights, out] = [x, weights, out].map(Argument::Address);
        let arguments = [x, weights, out, int(features), int(units), int(rows)];
        self.run("exit_head", [rows.div_ceil(4), 1, 1], 128, 0, &arguments)
    }

    /// Reads `count` words of 16 bytes with `blocks` blocks of 256 threads, each of which writes a number to `out`.
    pub fn read_words(
        &mut self,
        words: Address,
        count: usize,
        out: Address,
        blocks: usize,
    ) -> Result<(), CudaError> {
        let arguments = [Argument::Address(words), Argument::Size(count as u64), Argument::Address(out)];
        self.run("read_words", [blocks, 1, 1], 256, 0, &arguments)
    }
}
