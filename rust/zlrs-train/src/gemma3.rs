//! Gemma 3 from a GGUF file in candle's floating-point implementation.
//!
//! Candle has a quantised Gemma 3 too, but it gates its MLP with SiLU where the model was trained with GELU, so its
//! logits are not the model's. Here the weights are dequantised and given to the other one.

use std::collections::HashMap;
use std::io::{Read, Seek};

use candle_core::quantized::gguf_file::Content;
use candle_core::{DType, Device, Error, Result};
use candle_nn::{Activation, VarBuilder};
use candle_transformers::models::gemma3::{Config, Model};

/// Base of the windowed layers' rotary embeddings, which files do not state.
const LOCAL_BASE: f64 = 10_000.0;
/// Every how many layers one attends to the whole context.
const PATTERN: usize = 6;

/// Names of a layer's parts in GGUF files and in candle, and whether the part is a norm: files hold its weight
/// plus one, candle adds the one itself.
const PARTS: [(&str, &str, bool); 13] = [
    ("attn_norm", "input_layernorm", true),
    ("attn_q", "self_attn.q_proj", false),
    ("attn_k", "self_attn.k_proj", false),
    ("attn_v", "self_attn.v_proj", false),
    ("attn_output", "self_attn.o_proj", false),
    ("attn_q_norm", "self_attn.q_norm", true),
    ("attn_k_norm", "self_attn.k_norm", true),
    ("post_attention_norm", "post_attention_layernorm", true),
    ("ffn_norm", "pre_feedforward_layernorm", true),
    ("ffn_gate", "mlp.gate_proj", false),
    ("ffn_up", "mlp.up_proj", false),
    ("ffn_down", "mlp.down_proj", false),
    ("post_ffw_norm", "post_feedforward_layernorm", true),
];

/// Reads the whole model in single precision: four bytes a weight.
pub(crate) fn load<R: Read + Seek>(content: &Content, reader: &mut R, device: &Device) -> Result<Model> {
    let value = |key: &str| {
        let key = format!("gemma3.{key}");
        content.metadata.get(&key).ok_or_else(|| Error::Msg(format!("no {key} in the file")))
    };
    let size = |key: &str| Ok::<_, Error>(value(key)?.to_u32()? as usize);
    let head_dim = size("attention.key_length")?;
    let layers = size("block_count")?;
    let mut tensors = HashMap::new();
    let mut take = |from: String, to: String, is_norm: bool| -> Result<usize> {
        let tensor = content.tensor(reader, &from, device)?.dequantize(device)?;
        let tensor = if is_norm { (tensor - 1.0)? } else { tensor };
        let rows = tensor.dim(0)?;
        tensors.insert(to, tensor);
        Ok(rows)
    };
    let vocab_size = take("token_embd.weight".into(), "model.embed_tokens.weight".into(), false)?;
    take("output_norm.weight".into(), "model.norm.weight".into(), true)?;
    for layer in 0..layers {
        for (from, to, is_norm) in PARTS {
            take(format!("blk.{layer}.{from}.weight"), format!("model.layers.{layer}.{to}.weight"), is_norm)?;
        }
    }
    let config = Config {
        attention_bias: false,
        head_dim,
        hidden_activation: Activation::NewGelu,
        hidden_size: size("embedding_length")?,
        intermediate_size: size("feed_forward_length")?,
        num_attention_heads: size("attention.head_count")?,
        num_hidden_layers: layers,
        num_key_value_heads: size("attention.head_count_kv")?,
        rms_norm_eps: f64::from(value("attention.layer_norm_rms_epsilon")?.to_f32()?),
        rope_theta: f64::from(value("rope.freq_base")?.to_f32()?),
        rope_local_base_freq: LOCAL_BASE,
        vocab_size,
        final_logit_softcapping: None,
        attn_logit_softcapping: None,
        query_pre_attn_scalar: head_dim,
        sliding_window: size("attention.sliding_window")?,
        sliding_window_pattern: PATTERN,
        // Of the tables of angles, which are as long as the longest position.
        max_position_embeddings: size("context_length")?.min(4096),
    };
    Model::new(false, &config, VarBuilder::from_tensors(tensors, DType::F32, device))
}
