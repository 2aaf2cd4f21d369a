//! Kernels that write and read keys and values.

use zlrs_engine::kv::BLOCK_TOKENS;

use super::{Queue, int};
use crate::{Address, Argument, CudaError, Device, attention_shared_bytes};

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

impl<D: Device> Queue<D> {
    /// Writes the keys and values of `count` rows into their blocks, as f16.
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
}
