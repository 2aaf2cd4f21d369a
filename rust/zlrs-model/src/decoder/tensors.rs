//! Which tensors a decoder needs, by name and shape.

use std::collections::HashSet;

use super::{Attention, Decoder, Mlp};
use crate::ModelError;
use crate::source::{TensorInfo, TensorSource};

/// Names of tensors in GGUF files.
pub mod names {
    /// The embedding: one row a token.
    pub const EMBEDDING: &str = "token_embd.weight";
    /// The norm before the head.
    pub const OUTPUT_NORM: &str = "output_norm.weight";
    /// The head; absent where the embedding serves as head.
    pub const OUTPUT: &str = "output.weight";
    /// Factors by which rotary frequencies are divided.
    pub const ROPE_FREQUENCIES: &str = "rope_freqs.weight";
    /// The norm of attention's input.
    pub const ATTENTION_NORM: &str = "attn_norm.weight";
    /// Makes queries.
    pub const QUERY: &str = "attn_q.weight";
    /// Added to them.
    pub const QUERY_BIAS: &str = "attn_q.bias";
    /// Makes keys.
    pub const KEY: &str = "attn_k.weight";
    /// Added to them.
    pub const KEY_BIAS: &str = "attn_k.bias";
    /// Makes values.
    pub const VALUE: &str = "attn_v.weight";
    /// Added to them.
    pub const VALUE_BIAS: &str = "attn_v.bias";
    /// Brings the heads' results together.
    pub const ATTENTION_OUTPUT: &str = "attn_output.weight";
    /// Added to the result.
    pub const ATTENTION_OUTPUT_BIAS: &str = "attn_output.bias";
    /// The norm of each query head.
    pub const QUERY_NORM: &str = "attn_q_norm.weight";
    /// The norm of each key head.
    pub const KEY_NORM: &str = "attn_k_norm.weight";
    /// The norm of attention's result.
    pub const ATTENTION_POST_NORM: &str = "post_attention_norm.weight";
    /// The norm of the MLP's input.
    pub const MLP_NORM: &str = "ffn_norm.weight";
    /// Makes the gate.
    pub const GATE: &str = "ffn_gate.weight";
    /// Makes what the gate lets through.
    pub const UP: &str = "ffn_up.weight";
    /// Back to the model's width.
    pub const DOWN: &str = "ffn_down.weight";
    /// The norm of the MLP's result.
    pub const MLP_POST_NORM: &str = "post_ffw_norm.weight";

    /// The name of a part of a layer.
    pub fn layer(index: usize, part: &str) -> String {
        format!("blk.{index}.{part}")
    }
}

/// A tensor that a decoder needs. A vector has one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedTensor {
    /// Its name.
    pub name: String,
    /// Rows: outputs of a product, tokens of an embedding.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
}

impl Decoder {
    /// Every tensor of the description, in the order of computation. Parts that are `None` need none.
    pub fn tensors(&self) -> Vec<ExpectedTensor> {
        let mut tensors = vec![expected(names::EMBEDDING, self.vocabulary, self.width)];
        if let Some(frequencies) = self.ropes.first().and_then(|rope| rope.frequency_factors.as_ref()) {
            tensors.push(expected(names::ROPE_FREQUENCIES, 1, frequencies.len()));
        }
        for (index, layer) in self.layers.iter().enumerate() {
            let of_layer = |(part, rows, cols): &(&str, usize, usize)| ExpectedTensor {
                name: names::layer(index, part),
                rows: *rows,
                cols: *cols,
            };
            if let Some(attention) = &layer.attention {
                tensors.extend(attention_parts(attention, self.width).iter().map(of_layer));
            }
            if let Some(mlp) = &layer.mlp {
                tensors.extend(mlp_parts(mlp, self.width).iter().map(of_layer));
            }
        }
        tensors.push(expected(names::OUTPUT_NORM, 1, self.width));
        if !self.tied_head {
            tensors.push(expected(names::OUTPUT, self.vocabulary, self.width));
        }
        tensors
    }
}

fn expected(name: &str, rows: usize, cols: usize) -> ExpectedTensor {
    ExpectedTensor { name: name.to_owned(), rows, cols }
}

fn attention_parts(attention: &Attention, width: usize) -> Vec<(&'static str, usize, usize)> {
    let (query, kv) = attention.file_widths();
    let mut parts = vec![
        (names::ATTENTION_NORM, 1, width),
        (names::QUERY, query, width),
        (names::KEY, kv, width),
        (names::VALUE, kv, width),
        (names::ATTENTION_OUTPUT, width, query),
    ];
    if attention.qkv_bias {
        parts.extend([(names::QUERY_BIAS, 1, query), (names::KEY_BIAS, 1, kv), (names::VALUE_BIAS, 1, kv)]);
    }
    if attention.output_bias {
        parts.push((names::ATTENTION_OUTPUT_BIAS, 1, width));
    }
    if attention.qk_norm {
        parts.extend([(names::QUERY_NORM, 1, attention.head_dim), (names::KEY_NORM, 1, attention.head_dim)]);
    }
    if attention.post_norm {
        parts.push((names::ATTENTION_POST_NORM, 1, width));
    }
    parts
}

fn mlp_parts(mlp: &Mlp, width: usize) -> Vec<(&'static str, usize, usize)> {
    let mut parts = vec![
        (names::MLP_NORM, 1, width),
        (names::GATE, mlp.width, width),
        (names::UP, mlp.width, width),
        (names::DOWN, width, mlp.width),
    ];
    if mlp.post_norm {
        parts.push((names::MLP_POST_NORM, 1, width));
    }
    parts
}

/// The tensor of that name and shape.
///
/// # Errors
/// [`ModelError::MissingTensor`], [`ModelError::BadShape`].
pub fn find<'a>(source: &'a dyn TensorSource, wanted: &ExpectedTensor) -> Result<&'a TensorInfo, ModelError> {
    let ExpectedTensor { name, rows, cols } = wanted;
    let info = source.info(name).ok_or_else(|| ModelError::MissingTensor {
        name: name.clone(),
        why: format!("expected {rows} rows of {cols}"),
    })?;
    if (info.rows, info.cols) == (*rows, *cols) {
        return Ok(info);
    }
    Err(ModelError::BadShape {
        name: name.clone(),
        given_rows: info.rows,
        given_cols: info.cols,
        rows: *rows,
        cols: *cols,
    })
}

/// Checks that the source has every tensor the decoder needs and no other.
pub(super) fn check(decoder: &Decoder, source: &dyn TensorSource) -> Result<(), ModelError> {
    let wanted = decoder.tensors();
    for tensor in &wanted {
        find(source, tensor)?;
    }
    let known: HashSet<&str> = wanted.iter().map(|tensor| tensor.name.as_str()).collect();
    match source.all().iter().find(|tensor| !known.contains(tensor.name.as_str())) {
        Some(tensor) => Err(ModelError::UnknownTensor {
            name: tensor.name.clone(),
            architecture: decoder.architecture.name(),
        }),
        None => Ok(()),
    }
}
