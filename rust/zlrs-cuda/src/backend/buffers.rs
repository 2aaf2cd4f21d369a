//! Working memory of a step, made once for the largest step.

use zlrs_engine::kv::BLOCK_TOKENS;
use zlrs_model::decoder::{Attention, Decoder};

use super::forms::MOST_COPIES;
use crate::queue::Quantised;
use crate::{Address, CudaError, Device};

/// Rows of hidden states and what layers compute from them, each `[rows][…]` of f32.
#[derive(Debug)]
pub(super) struct Buffers {
    /// The residual stream.
    pub hidden: Address,
    /// The residual stream of the rows that go on behind the last layer's keys and values, and their norm.
    pub kept: Address,
    pub kept_normed: Address,
    /// The norm: the input of a part.
    pub normed: Address,
    /// What a part adds to the residual stream.
    pub branch: Address,
    pub query: Address,
    pub key: Address,
    pub value: Address,
    pub attended: Address,
    pub gate: Address,
    pub up: Address,
    pub activated: Address,
    pub quantised: Quantised,
    /// Sealed copies of blocks, of one layer at a time.
    pub copies: Address,
    /// Of every row of a step.
    pub logits: Address,
}

impl Buffers {
    /// For steps of up to `rows` rows.
    pub fn new<D: Device>(device: &mut D, decoder: &Decoder, rows: usize) -> Result<Self, CudaError> {
        let attentions = || decoder.layers.iter().filter_map(|layer| layer.attention.as_ref());
        let query = attentions().map(Attention::query_width).max().unwrap_or(0);
        let kv = attentions().map(Attention::kv_width).max().unwrap_or(0);
        let mlp = decoder.layers.iter().filter_map(|layer| layer.mlp.as_ref()).map(|mlp| mlp.width).max();
        let mlp = mlp.unwrap_or(0);
        let copy_bytes = 2 * kv * BLOCK_TOKENS * size_of::<u16>();
        let widest = decoder.width.max(query).max(mlp);
        let mut rows_of = |width: usize| device.allocate((width * rows * size_of::<f32>()).max(1));
        Ok(Self {
            hidden: rows_of(decoder.width)?,
            kept: rows_of(decoder.width)?,
            kept_normed: rows_of(decoder.width)?,
            normed: rows_of(decoder.width)?,
            branch: rows_of(decoder.width)?,
            query: rows_of(query)?,
            key: rows_of(kv)?,
            value: rows_of(kv)?,
            attended: rows_of(query)?,
            gate: rows_of(mlp)?,
            up: rows_of(mlp)?,
            activated: rows_of(mlp)?,
            // A byte a value; a scale every 32 values at most; a sum every 16.
            quantised: Quantised {
                quants: rows_of(widest.div_ceil(4))?,
                scales: rows_of(widest.div_ceil(32))?,
                sums: rows_of(widest.div_ceil(16))?,
            },
            copies: device.allocate((copy_bytes * MOST_COPIES).max(1))?,
            logits: device.allocate(decoder.vocabulary * rows * size_of::<f32>())?,
        })
    }
}
