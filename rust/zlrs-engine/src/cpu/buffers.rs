//! Working memory of a step, made once for the largest step.

use zlrs_kernels::Scratch;
use zlrs_model::decoder::{Attention, Decoder};

use crate::plan::Row;

/// Rows of hidden states and what layers compute from them, each `[rows][…]`.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// The residual stream.
    pub hidden: Vec<f32>,
    /// Its norm: the input of a part.
    pub normed: Vec<f32>,
    /// What a part adds to the residual stream.
    pub branch: Vec<f32>,
    pub query: Vec<f32>,
    pub key: Vec<f32>,
    pub value: Vec<f32>,
    pub attended: Vec<f32>,
    pub gate: Vec<f32>,
    pub up: Vec<f32>,
    pub activated: Vec<f32>,
    pub logits: Vec<f32>,
    /// Rows that a layer computes beyond keys and values.
    pub live: Vec<Row>,
    pub scratch: Scratch,
}

impl Buffers {
    /// For steps of up to `rows` rows; logits for one.
    pub fn new(decoder: &Decoder, rows: usize) -> Self {
        let attentions = || decoder.layers.iter().filter_map(|layer| layer.attention.as_ref());
        let query = attentions().map(Attention::query_width).max().unwrap_or(0);
        let kv = attentions().map(Attention::kv_width).max().unwrap_or(0);
        let mlp = decoder.layers.iter().filter_map(|layer| layer.mlp.as_ref()).map(|mlp| mlp.width).max();
        let row_of = |width: usize| vec![0.0; width * rows];
        Self {
            hidden: row_of(decoder.width),
            normed: row_of(decoder.width),
            branch: row_of(decoder.width),
            query: row_of(query),
            key: row_of(kv),
            value: row_of(kv),
            attended: row_of(query),
            gate: row_of(mlp.unwrap_or(0)),
            up: row_of(mlp.unwrap_or(0)),
            activated: row_of(mlp.unwrap_or(0)),
            logits: vec![0.0; decoder.vocabulary],
            live: Vec::with_capacity(rows),
            scratch: Scratch::new(),
        }
    }
}
