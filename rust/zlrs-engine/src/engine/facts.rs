//! What is known about a loaded model.

use std::collections::BTreeMap;

use zlrs_kernels::Isa;
use zlrs_model::decoder::{Decoder, Layer};
use zlrs_model::gguf::File;
use zlrs_model::mask::Mask;
use zlrs_model::source::TensorSource;
use zlrs_model::weights::{AttentionWeights, LayerWeights, MlpWeights, Weights};

use super::KvChoice;

/// Facts of a loaded model, for receipts and for people.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The model's own name, or the file's.
    pub name: String,
    /// `llama`, `qwen2`, …
    pub architecture: String,
    /// The file's own word for its mix of storage types (`Q4_K_M`), or the type that holds most bytes.
    pub quantization: String,
    /// Length of the file.
    pub file_bytes: u64,
    /// Logits per step.
    pub vocabulary: usize,
    /// Longest prompt and answer together.
    pub context_tokens: usize,
    /// Threads that compute.
    pub threads: usize,
    /// Instruction set in use.
    pub isa: &'static str,
    /// Layers of the model.
    pub layers: usize,
    /// `cpu`, or the accelerator's name.
    pub device: String,
    /// Why an accelerator that was preferred is not used.
    pub device_note: Option<String>,
    /// How keys and values are stored.
    pub kv: KvChoice,
    /// What became of the mask, if one was given.
    pub mask: MaskUse,
    /// Query heads left out of attention blocks that are there, as (layer, head).
    pub zero_heads: Vec<(usize, usize)>,
    /// Bytes of packed weights.
    pub weight_bytes: usize,
    /// What each layer holds, in order.
    pub parts: Vec<LayerParts>,
    /// Multiplications with a weight for one decoded token, the head's included.
    pub token_multiply_adds: usize,
    /// The same without a mask.
    pub token_multiply_adds_full: usize,
    /// The head's among both.
    pub head_multiply_adds: usize,
}

/// What became of a mask.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum MaskUse {
    /// None was given.
    #[default]
    None,
    /// Its parts are left out.
    Used,
    /// It is for other weights, so that the full model was loaded; why.
    Refused(String),
}

/// What a layer holds. A layer without both blocks is an empty placeholder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerParts {
    /// Query heads that are computed.
    pub heads: usize,
    /// Key and value heads that are stored.
    pub kv_heads: usize,
    /// Values of a head.
    pub head_dim: usize,
    /// Bytes of the attention block's packed weights.
    pub attention_bytes: usize,
    /// Bytes of the MLP block's packed weights.
    pub mlp_bytes: usize,
    /// Bytes of keys and values of one token.
    pub kv_bytes_per_token: usize,
}

impl LayerParts {
    /// Of a layer whose blocks' weights take so many bytes.
    #[must_use]
    pub fn new(layer: &Layer, attention_bytes: usize, mlp_bytes: usize) -> Self {
        let attention = layer.attention.as_ref();
        Self {
            heads: attention.map_or(0, |part| part.heads),
            kv_heads: attention.map_or(0, |part| part.kv_heads),
            head_dim: attention.map_or(0, |part| part.head_dim),
            attention_bytes,
            mlp_bytes,
            kv_bytes_per_token: attention.map_or(0, |part| 2 * size_of::<u16>() * part.kv_width()),
        }
    }
}

/// Heads that a mask leaves out of attention blocks that it keeps.
pub(super) fn zero_heads(mask: &Mask) -> Vec<(usize, usize)> {
    let kept = mask.layers.iter().enumerate().filter(|(_, layer)| !layer.without_attention());
    kept.flat_map(|(index, layer)| {
        let out = layer.heads.iter().enumerate().filter(|&(_, &out)| out);
        out.map(move |(head, _)| (index, head))
    })
    .collect()
}

/// Multiplications with a weight for one decoded token: one for every weight of every matrix, the head included.
/// What attention does with keys and values comes on top and grows with the context.
pub(crate) fn multiply_adds(decoder: &Decoder) -> usize {
    let width = decoder.width;
    let of_layer = |layer: &Layer| {
        let attention = layer.attention.as_ref();
        attention.map_or(0, |part| 2 * width * (part.query_width() + part.kv_width()))
            + layer.mlp.as_ref().map_or(0, |part| 3 * width * part.width)
    };
    decoder.layers.iter().map(of_layer).sum::<usize>() + decoder.vocabulary * width
}

/// What each layer of a loaded model holds.
pub(crate) fn parts(decoder: &Decoder, weights: &Weights) -> Vec<LayerParts> {
    let of_layer = |(layer, weights): (&Layer, &LayerWeights)| {
        LayerParts::new(
            layer,
            weights.attention.as_ref().map_or(0, AttentionWeights::bytes),
            weights.mlp.as_ref().map_or(0, MlpWeights::bytes),
        )
    };
    decoder.layers.iter().zip(&weights.layers).map(of_layer).collect()
}

impl Facts {
    pub(super) fn new(
        file: &File,
        decoder: &Decoder,
        isa: Isa,
        threads: usize,
        context_tokens: usize,
    ) -> Self {
        let stem = || file.path().file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let mut bytes_by_type = BTreeMap::new();
        for tensor in file.all() {
            *bytes_by_type.entry(tensor.tensor_type.name()).or_insert(0) += tensor.bytes;
        }
        let most = || bytes_by_type.into_iter().max_by_key(|&(_, bytes)| bytes).map(|(name, _)| name);
        let stated = file.metadata().optional_u32("general.file_type").ok().flatten().and_then(file_type);
        Self {
            name: decoder.name.clone().or_else(stem).unwrap_or_default(),
            architecture: decoder.architecture.name().to_owned(),
            quantization: stated.or_else(most).unwrap_or_default().to_owned(),
            file_bytes: file.bytes(),
            vocabulary: decoder.vocabulary,
            context_tokens,
            threads,
            isa: isa.name(),
            layers: decoder.layers.len(),
            device: "cpu".to_owned(),
            device_note: None,
            kv: KvChoice::default(),
            mask: MaskUse::None,
            zero_heads: Vec::new(),
            weight_bytes: 0,
            parts: Vec::new(),
            token_multiply_adds: multiply_adds(decoder),
            token_multiply_adds_full: multiply_adds(decoder),
            head_multiply_adds: decoder.vocabulary * decoder.width,
        }
    }
}

/// Names of the values of `general.file_type` that this engine can run.
fn file_type(value: u32) -> Option<&'static str> {
    Some(match value {
        0 => "F32",
        1 => "F16",
        2 => "Q4_0",
        3 => "Q4_1",
        7 => "Q8_0",
        8 => "Q5_0",
        14 => "Q4_K_S",
        15 => "Q4_K_M",
        16 => "Q5_K_S",
        17 => "Q5_K_M",
        18 => "Q6_K",
        32 => "BF16",
        _ => return None,
    })
}
