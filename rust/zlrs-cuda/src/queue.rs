//! Kernels as functions: what each takes, how many blocks it gets.
//!
//! Everything here trusts its caller to give addresses with the memory that the kernels' headers ask for; the
//! backend sizes its buffers by the same shapes.

use zlrs_engine::kv::BLOCK_TOKENS;
use zlrs_kernels::TensorType;
use zlrs_model::decoder::Activation;

use crate::weights::Matrix;
use crate::{Address, Argument, CudaError, Device, Launch, UNIT, attention_shared_bytes};

/// Rows up to which a product takes the kernels of few rows.
pub(crate) const FEW_ROWS: usize = 8;
/// Threads of a block of the elementwise kernels.
const ELEMENTS: usize = 256;

/// Activations as the integer products read them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quantised {
    pub quants: Address,
    pub scales: Address,
    pub sums: Address,
}

/// A layer's place in the KV arena.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KvPlace {
    pub arena: Address,
    pub block_len: usize,
    pub key_offset: usize,
    pub value_offset: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
}

impl KvPlace {
    fn sizes(&self) -> [Argument; 3] {
        [self.block_len, self.key_offset, self.value_offset].map(|size| Argument::Size(size as u64))
    }
}

/// Where rows are: their positions, their sequences' places in the block table, and that table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowPlaces {
    pub positions: Address,
    pub tables: Address,
    pub block_table: Address,
}

/// How rows are shared out among blocks of attention.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts {
    /// Four numbers a part.
    pub memory: Address,
    pub count: usize,
    /// Most queries of a part.
    pub queries: usize,
    /// Splits with blocks of their own, if not 1.
    pub splits: usize,
    pub partials: Address,
}

/// Forms of blocks that are not all f16: beside the block table, and the step's sealed copies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mixed {
    pub forms: Address,
    pub copies: Address,
}

/// One layer's attention.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attend {
    pub place: KvPlace,
    /// None where all blocks are f16.
    pub mixed: Option<Mixed>,
    /// A factor of the distance for each query head, added to scores; no memory for none.
    pub slopes: Address,
    pub group: usize,
    pub window: usize,
    pub scale: f32,
}

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
        // SAFETY: this file's functions give each kernel the parameters it declares, over memory that the backend
        // has allocated for the shapes it passes.
        unsafe { self.0.launch(&launch) }
    }

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

    pub fn store_kv(
        &mut self,
        key: Address,
        value: Address,
        place: &KvPlace,
        rows: &RowPlaces,
        count: usize,
    ) -> Result<(), CudaError> {
        let [key, value, arena] = [key, value, place.arena].map(Argument::Address);
        let [block_len, key_offset, value_offset] = place.sizes();
        let [positions, tables, blocks] =
            [rows.positions, rows.tables, rows.block_table].map(Argument::Address);
        let head_dim = int(place.head_dim);
        let arguments =
            [key, value, arena, block_len, key_offset, value_offset, positions, tables, blocks, head_dim];
        self.run("store_kv", [place.kv_heads, count, 1], 64, 0, &arguments)
    }

    /// Copies one block of the arena; `from` and `to` hold a block's number each.
    pub fn copy_block(
        &mut self,
        arena: Address,
        block_len: usize,
        from: Address,
        to: Address,
    ) -> Result<(), CudaError> {
        let [arena, from, to] = [arena, from, to].map(Argument::Address);
        let blocks = block_len.div_ceil(256).min(1024);
        self.run("copy_blocks", [blocks, 1, 1], 256, 0, &[arena, Argument::Size(block_len as u64), from, to])
    }

    /// Makes `count` f16 blocks of a layer codes: in their own place, or in `copies` as their forms say.
    pub fn seal_blocks(
        &mut self,
        place: &KvPlace,
        copies: Address,
        [blocks, forms]: [Address; 2],
        count: usize,
    ) -> Result<(), CudaError> {
        let [arena, copies, blocks, forms] = [place.arena, copies, blocks, forms].map(Argument::Address);
        let [block_len, key_offset, value_offset] = place.sizes();
        let head_dim = int(place.head_dim);
        let arguments = [arena, block_len, key_offset, value_offset, copies, blocks, forms, head_dim];
        let shared = 4 * place.head_dim * BLOCK_TOKENS;
        self.run("seal_blocks", [place.kv_heads, count, 1], 128, shared, &arguments)
    }

    /// Makes `count` sealed blocks of a layer f16 again.
    pub fn open_blocks(
        &mut self,
        place: &KvPlace,
        [blocks, forms]: [Address; 2],
        count: usize,
    ) -> Result<(), CudaError> {
        let [arena, blocks, forms] = [place.arena, blocks, forms].map(Argument::Address);
        let [block_len, key_offset, value_offset] = place.sizes();
        let arguments = [arena, block_len, key_offset, value_offset, blocks, forms, int(place.head_dim)];
        let shared = 4 * place.head_dim * BLOCK_TOKENS;
        self.run("open_blocks", [place.kv_heads, count, 1], 128, shared, &arguments)
    }

    /// Attention of `rows` rows, cut into parts.
    pub fn attention(
        &mut self,
        query: Address,
        out: Address,
        attend: &Attend,
        parts: &Parts,
        places: &RowPlaces,
        rows: usize,
    ) -> Result<(), CudaError> {
        let place = &attend.place;
        let [query, out_argument, arena] = [query, out, place.arena].map(Argument::Address);
        let [block_len, key_offset, value_offset] = place.sizes();
        let [parts_argument, positions, tables, blocks] =
            [parts.memory, places.positions, places.tables, places.block_table].map(Argument::Address);
        let apart = parts.splits > 1;
        let partials = Argument::Address(if apart { parts.partials } else { Address::default() });
        let (head_dim, window) = (int(place.head_dim), int(attend.window));
        let [forms, copies] = attend
            .mixed
            .map_or([Address::default(); 2], |mixed| [mixed.forms, mixed.copies])
            .map(Argument::Address);
        let arguments = [
            query,
            out_argument,
            arena,
            block_len,
            key_offset,
            value_offset,
            parts_argument,
            positions,
            tables,
            blocks,
            Argument::Address(attend.slopes),
            partials,
            head_dim,
            int(attend.group),
            window,
            int(parts.queries),
            Argument::Float(attend.scale),
            forms,
            copies,
        ];
        let shared = attention_shared_bytes(parts.queries, place.head_dim);
        let grid = [parts.splits, place.kv_heads, parts.count];
        if attend.mixed.is_some() {
            self.run("attention_mixed", grid, 128, shared, &arguments)?;
        } else {
            let plain = &arguments[..arguments.len() - 2];
            self.run("attention", grid, 128, shared, plain)?;
        }
        if apart {
            let arguments = [partials, positions, out_argument, head_dim, window, int(parts.splits)];
            let heads = place.kv_heads * attend.group;
            self.run("attention_merge", [heads, rows, 1], 128, 0, &arguments)?;
        }
        Ok(())
    }

    /// Attention of one row over `count` positions in three passes, `scores` between them.
    pub fn unfused_attention(
        &mut self,
        query: Address,
        out: Address,
        attend: &Attend,
        block_table: Address,
        scores: Address,
        count: usize,
    ) -> Result<(), CudaError> {
        let place = &attend.place;
        let heads = place.kv_heads * attend.group;
        let [query, arena, table, out, scores] =
            [query, place.arena, block_table, out, scores].map(Argument::Address);
        let [block_len, key_offset, value_offset] = place.sizes();
        let (head_dim, group, positions) = (int(place.head_dim), int(attend.group), int(count));
        let kv = [arena, block_len, key_offset, value_offset, table];
        let mut arguments = vec![query];
        arguments.extend(kv);
        arguments.extend([scores, head_dim, group, positions, Argument::Float(attend.scale)]);
        self.run("unfused_scores", [count.div_ceil(128), heads, 1], 128, 0, &arguments)?;
        self.run("unfused_softmax", [heads, 1, 1], 256, 0, &[scores, positions])?;
        let mut arguments = vec![scores];
        arguments.extend(kv);
        arguments.extend([out, head_dim, group, positions]);
        self.run("unfused_values", [place.head_dim.div_ceil(32), heads, 1], 256, 0, &arguments)
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
