//! Working memory of a step, made once for the largest step.

use zlrs_kernels::Scratch;
use zlrs_model::decoder::Decoder;

use crate::plan::Row;

/// Rows of hidden states and what layers compute from them, each `[rows][…]`.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// The residual stream.
    pub hidden: Vec<f32>,
    /// Its norm, the input of a part; when that is spent, what the part adds to the residual stream.
    pub branch: Vec<f32>,
    /// What a part computes between: queries, keys, values and what is attended to, or gate, up and their product.
    pub between: Vec<f32>,
    pub logits: Vec<f32>,
    /// Rows of `hidden`: those of the plan that have not left, in its order.
    pub rows: Vec<Row>,
    /// Those of them that a layer computes beyond keys and values.
    pub live: Vec<Row>,
    /// By row of an MLP: what gates must exceed.
    pub least: Vec<f32>,
    pub scratch: Scratch,
}

impl Buffers {
    /// For steps of up to `rows` rows; logits for one.
    pub fn new(decoder: &Decoder, rows: usize) -> Self {
        let attentions = || decoder.layers.iter().filter_map(|layer| layer.attention.as_ref());
        let attention =
            attentions().map(|part| 2 * (part.query_width() + part.kv_width())).max().unwrap_or(0);
        let mlps = decoder.layers.iter().filter_map(|layer| layer.mlp.as_ref());
        let mlp = mlps.map(|part| 3 * part.width).max().unwrap_or(0);
        let row_of = |width: usize| vec![0.0; width * rows];
        Self {
            hidden: row_of(decoder.width),
            branch: row_of(decoder.width),
            between: row_of(attention.max(mlp)),
            logits: vec![0.0; decoder.vocabulary],
            rows: Vec::with_capacity(rows),
            live: Vec::with_capacity(rows),
            least: Vec::with_capacity(rows),
            scratch: Scratch::new(),
        }
    }
}

/// The first `lengths` of `buffer`, one after another.
pub(super) fn parts<const N: usize>(mut buffer: &mut [f32], lengths: [usize; N]) -> [&mut [f32]; N] {
    lengths.map(|length| {
        let (part, rest) = std::mem::take(&mut buffer).split_at_mut(length);
        buffer = rest;
        part
    })
}
