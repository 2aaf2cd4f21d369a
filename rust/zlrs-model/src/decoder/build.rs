//! Builds a decoder description from a file's metadata and the list of its tensors.

use super::architecture::Biases;
use super::{Architecture, Attention, Decoder, Layer, Mlp, names, rope, tensors};
use crate::ModelError;
use crate::gguf::Metadata;
use crate::source::TensorSource;

/// Most layers.
pub const MAX_LAYERS: usize = 1024;
/// Widest hidden state.
pub const MAX_WIDTH: usize = 1 << 17;
/// Widest MLP.
pub const MAX_MLP_WIDTH: usize = 1 << 20;
/// Most heads of one layer.
pub const MAX_HEADS: usize = 4096;
/// Largest head.
pub const MAX_HEAD_DIM: usize = 1024;
/// Longest context, in tokens.
pub const MAX_CONTEXT_TOKENS: usize = 1 << 27;
/// Layers of the one Gemma 3 whose scores are scaled by its width instead of its head.
const GEMMA3_27B_LAYERS: usize = 62;

impl Decoder {
    /// Reads the description of a model and checks that `source` has exactly the tensors it needs, in the
    /// right shapes.
    ///
    /// # Errors
    /// [`ModelError`] naming the key or the tensor.
    pub fn from_metadata(metadata: &Metadata, source: &dyn TensorSource) -> Result<Self, ModelError> {
        let architecture = Architecture::from_name(metadata.str("general.architecture")?)?;
        let key = |suffix: &str| format!("{}.{suffix}", architecture.name());
        refuse_experts(metadata, &key("expert_count"))?;
        let layers = metadata.size(&key("block_count"), MAX_LAYERS)?;
        let width = metadata.size(&key("embedding_length"), MAX_WIDTH)?;
        let context_length = metadata.size(&key("context_length"), MAX_CONTEXT_TOKENS)?;
        let epsilon_key = key("attention.layer_norm_rms_epsilon");
        let norm_epsilon = metadata
            .optional_f32(&epsilon_key)?
            .ok_or(ModelError::MissingKey { key: epsilon_key.clone() })?;
        if !(0.0..=1.0).contains(&norm_epsilon) {
            return Err(ModelError::bad_value(epsilon_key, norm_epsilon, "0 to 1"));
        }
        let attentions = attentions(metadata, source, architecture, layers, width)?;
        let mlps = metadata
            .optional_layer_sizes(&key("feed_forward_length"), layers, MAX_MLP_WIDTH)?
            .ok_or_else(|| ModelError::MissingKey { key: key("feed_forward_length") })?;
        let ropes = rope::parameters(metadata, source, architecture, &attentions)?;
        let decoder = Self {
            architecture,
            name: metadata.optional_str("general.name")?.map(str::to_owned),
            vocabulary: vocabulary(metadata, source)?,
            context_length,
            width,
            layers: attentions
                .into_iter()
                .zip(mlps)
                .map(|(attention, width)| Layer {
                    attention: Some(attention),
                    mlp: Some(Mlp {
                        width,
                        activation: architecture.activation(),
                        post_norm: architecture.post_norms(),
                    }),
                    attention_constant: None,
                    mlp_constant: None,
                })
                .collect(),
            norm_epsilon,
            embedding_scale: architecture.embedding_scale(width),
            tied_head: source.info(names::OUTPUT).is_none(),
            logit_softcap: softcap(metadata, &key("final_logit_softcapping"))?,
            rope_layout: architecture.rope_layout(),
            ropes,
        };
        tensors::check(&decoder, source)?;
        Ok(decoder)
    }
}

fn refuse_experts(metadata: &Metadata, key: &str) -> Result<(), ModelError> {
    match metadata.optional_u32(key)? {
        None | Some(0) => Ok(()),
        Some(experts) => Err(ModelError::Unsupported {
            what: format!("a mixture of experts ({key} = {experts})"),
            supported: "dense models are".into(),
        }),
    }
}

fn softcap(metadata: &Metadata, key: &str) -> Result<Option<f32>, ModelError> {
    match metadata.optional_f32(key)? {
        None | Some(0.0) => Ok(None),
        Some(cap) if cap > 0.0 => Ok(Some(cap)),
        Some(cap) => Err(ModelError::bad_value(key, cap, "0 (off) or more")),
    }
}

/// Rows of the embedding, which must cover every token of the tokenizer.
fn vocabulary(metadata: &Metadata, source: &dyn TensorSource) -> Result<usize, ModelError> {
    let embedding = source.info(names::EMBEDDING).ok_or_else(|| ModelError::MissingTensor {
        name: names::EMBEDDING.into(),
        why: "every model has an embedding".into(),
    })?;
    let tokens = metadata.optional_strings("tokenizer.ggml.tokens")?.map_or(0, crate::gguf::Strings::len);
    if embedding.rows < tokens {
        return Err(ModelError::BadShape {
            name: names::EMBEDDING.into(),
            given_rows: embedding.rows,
            given_cols: embedding.cols,
            rows: tokens,
            cols: embedding.cols,
        });
    }
    // Token ids are `u32`.
    if u32::try_from(embedding.rows).is_err() {
        return Err(ModelError::limit(
            "the number of rows of the embedding",
            embedding.rows as u64,
            u64::from(u32::MAX),
        ));
    }
    Ok(embedding.rows)
}

fn attentions(
    metadata: &Metadata,
    source: &dyn TensorSource,
    architecture: Architecture,
    layers: usize,
    width: usize,
) -> Result<Vec<Attention>, ModelError> {
    let key = |suffix: &str| format!("{}.{suffix}", architecture.name());
    let heads_key = key("attention.head_count");
    let kv_heads_key = key("attention.head_count_kv");
    let heads = metadata
        .optional_layer_sizes(&heads_key, layers, MAX_HEADS)?
        .ok_or_else(|| ModelError::MissingKey { key: heads_key.clone() })?;
    let kv_heads =
        metadata.optional_layer_sizes(&kv_heads_key, layers, MAX_HEADS)?.unwrap_or_else(|| heads.clone());
    let key_length = metadata.optional_size(&key("attention.key_length"), MAX_HEAD_DIM)?;
    let value_length = metadata.optional_size(&key("attention.value_length"), MAX_HEAD_DIM)?;
    let window = window(metadata, architecture, &key("attention.sliding_window"))?;
    heads
        .into_iter()
        .zip(kv_heads)
        .enumerate()
        .map(|(index, (heads, kv_heads))| {
            if !heads.is_multiple_of(kv_heads) {
                let expected = format!("a divisor of {heads}, the number of heads (layer {index})");
                return Err(ModelError::bad_value(&kv_heads_key, kv_heads, expected));
            }
            let head_dim = head_dim(&heads_key, width, heads, key_length)?;
            if let Some(value_length) = value_length.filter(|&length| length != head_dim) {
                let expected = format!("{head_dim}, the length of a key head");
                return Err(ModelError::bad_value(key("attention.value_length"), value_length, expected));
            }
            let has = |part: &str| source.info(&names::layer(index, part)).is_some();
            let full =
                architecture.full_attention_every().is_none_or(|every| (index + 1).is_multiple_of(every));
            let (qkv_bias, output_bias) = match architecture.biases() {
                Biases::Qkv => (true, false),
                Biases::Never => (false, false),
                Biases::IfPresent => (has(names::QUERY_BIAS), has(names::ATTENTION_OUTPUT_BIAS)),
            };
            Ok(Attention {
                heads,
                kv_heads,
                head_dim,
                scale: scale(architecture, layers, width, heads, head_dim),
                qkv_bias,
                output_bias,
                qk_norm: architecture.qk_norm(),
                post_norm: architecture.post_norms(),
                window: window.filter(|_| !full),
                rope: usize::from(!full),
                cut: None,
            })
        })
        .collect()
}

fn head_dim(
    heads_key: &str,
    width: usize,
    heads: usize,
    key_length: Option<usize>,
) -> Result<usize, ModelError> {
    let head_dim = match key_length {
        Some(length) => length,
        None if width.is_multiple_of(heads) => width / heads,
        None => {
            return Err(ModelError::bad_value(
                heads_key,
                heads,
                format!("a divisor of {width}, the model's width"),
            ));
        }
    };
    if head_dim.is_multiple_of(2) && head_dim <= MAX_HEAD_DIM {
        return Ok(head_dim);
    }
    Err(ModelError::bad_value(
        heads_key,
        heads,
        format!("heads of an even length of at most {MAX_HEAD_DIM}; they have {head_dim}"),
    ))
}

/// The window of those layers that have one.
fn window(metadata: &Metadata, architecture: Architecture, key: &str) -> Result<Option<u32>, ModelError> {
    let window = metadata.optional_size(key, MAX_CONTEXT_TOKENS)?.map(|window| window as u32);
    match (architecture.full_attention_every(), window) {
        (Some(_), None) => Err(ModelError::MissingKey { key: key.to_owned() }),
        (Some(_), window) => Ok(window),
        (None, _) => Ok(None),
    }
}

fn scale(architecture: Architecture, layers: usize, width: usize, heads: usize, head_dim: usize) -> f32 {
    let divisor = match architecture {
        Architecture::Gemma3 if layers == GEMMA3_27B_LAYERS => width as f64 / heads as f64,
        _ => head_dim as f64,
    };
    (1.0 / divisor.sqrt()) as f32
}
