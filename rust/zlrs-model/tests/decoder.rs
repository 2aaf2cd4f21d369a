//! Descriptions read from metadata, and what they refuse.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod common;

use zlrs_kernels::{RopeLayout, RopeScaling, TensorType};
use zlrs_model::ModelError;
use zlrs_model::decoder::{Activation, Architecture, Decoder};
use zlrs_model::gguf::{Array, File, Value};
use zlrs_model::synthetic::{Settings, Types, Writer, writer};

fn settings(architecture: Architecture) -> Settings {
    Settings { architecture, types: Types::One(TensorType::Q8_0), ..Settings::default() }
}

/// The description of a synthetic model after `change`.
fn described(architecture: Architecture, change: impl FnOnce(&mut Writer)) -> Result<Decoder, ModelError> {
    let mut writer = writer(&settings(architecture));
    change(&mut writer);
    let handle = common::file_of(&writer.finish());
    let file = File::open(handle.path())?;
    Decoder::from_metadata(file.metadata(), &file)
}

fn refused(architecture: Architecture, change: impl FnOnce(&mut Writer)) -> String {
    described(architecture, change).unwrap_err().to_string()
}

#[test]
fn each_architecture_is_described() {
    for architecture in Architecture::ALL {
        let decoder = described(architecture, |_| {}).unwrap();
        assert_eq!((decoder.width, decoder.vocabulary, decoder.context_length), (256, 320, 2048));
        assert_eq!(decoder.layers.len(), 2);
        let attention = decoder.layers[0].attention.as_ref().unwrap();
        let mlp = decoder.layers[0].mlp.as_ref().unwrap();
        assert_eq!((attention.heads, attention.kv_heads, attention.head_dim), (4, 2, 64));
        assert_eq!((attention.scale, mlp.width), (0.125, 512));
        assert_eq!(decoder.ropes[0].dimensions, 64);
        let gemma = architecture == Architecture::Gemma3;
        assert_eq!(decoder.rope_layout == RopeLayout::Adjacent, architecture == Architecture::Llama);
        assert_eq!(attention.qkv_bias, architecture == Architecture::Qwen2);
        assert_eq!(attention.qk_norm, matches!(architecture, Architecture::Qwen3 | Architecture::Gemma3));
        assert_eq!((attention.post_norm, mlp.post_norm), (gemma, gemma));
        assert_eq!(mlp.activation == Activation::Gelu, gemma);
        assert_eq!(decoder.embedding_scale, if gemma { 16.0 } else { 1.0 });
        assert_eq!((attention.window, attention.rope), if gemma { (Some(32), 1) } else { (None, 0) });
        assert_eq!(decoder.ropes.len(), if gemma { 2 } else { 1 });
    }
}

#[test]
fn every_sixth_layer_of_gemma3_sees_the_whole_context() {
    let mut settings = settings(Architecture::Gemma3);
    settings.layers = 13;
    let file = common::synthetic(&settings);
    let decoder = Decoder::from_metadata(file.metadata(), &file).unwrap();
    let full: Vec<usize> = decoder
        .layers
        .iter()
        .enumerate()
        .filter(|(_, layer)| layer.attention.as_ref().unwrap().window.is_none())
        .map(|(index, layer)| {
            assert_eq!(layer.attention.as_ref().unwrap().rope, 0);
            index
        })
        .collect();
    assert_eq!(full, [5, 11]);
}

#[test]
fn rope_scalings_are_read() {
    use Architecture::Qwen2;
    let scaling = |kind: Option<&str>, factor: f32| {
        described(Qwen2, |writer| {
            if let Some(kind) = kind {
                writer.entry("qwen2.rope.scaling.type", Value::String(kind.into()));
            }
            writer.entry("qwen2.rope.scaling.factor", Value::F32(factor));
            writer.entry("qwen2.rope.scaling.original_context_length", Value::U32(1024));
        })
        .map(|decoder| decoder.ropes[0].scaling.clone())
    };
    assert_eq!(scaling(Some("none"), 4.0).unwrap(), RopeScaling::None);
    assert_eq!(scaling(Some("linear"), 4.0).unwrap(), RopeScaling::Linear { factor: 4.0 });
    assert_eq!(scaling(None, 4.0).unwrap(), RopeScaling::Linear { factor: 4.0 });
    assert_eq!(scaling(None, 0.0).unwrap(), RopeScaling::None);
    let yarn = RopeScaling::Yarn {
        factor: 4.0,
        original_context: 1024,
        beta_fast: 32.0,
        beta_slow: 1.0,
        attention_factor: 1.0,
    };
    assert_eq!(scaling(Some("yarn"), 4.0).unwrap(), yarn);
    assert!(scaling(Some("yarn"), 0.5).unwrap_err().to_string().contains("1 or more"));
    assert!(scaling(Some("longrope"), 4.0).unwrap_err().to_string().contains("none, linear and yarn are"));
    assert!(scaling(Some("linear"), -1.0).unwrap_err().to_string().contains("scaling.factor"));
    let old = described(Qwen2, |writer| {
        writer.entry("qwen2.rope.scale_linear", Value::F32(2.0));
    });
    assert_eq!(old.unwrap().ropes[0].scaling, RopeScaling::Linear { factor: 2.0 });
}

#[test]
fn frequency_factors_come_from_their_tensor() {
    let file = common::synthetic(&Settings { rope_frequencies: true, ..settings(Architecture::Llama) });
    let decoder = Decoder::from_metadata(file.metadata(), &file).unwrap();
    let factors = decoder.ropes[0].frequency_factors.as_ref().unwrap();
    assert!(factors.len() == 32 && factors.iter().all(|factor| (1.0..=3.0).contains(factor)));
    let with = |values: Vec<f32>| {
        refused(Architecture::Llama, |writer| {
            let data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            writer.tensor("rope_freqs.weight", &[values.len() as u64], TensorType::F32, data);
        })
    };
    assert!(with(vec![1.0; 31]).contains("expected 1 rows of 32"));
    assert!(with(vec![0.0; 32]).contains("expected finite numbers above 0"));
    assert!(with(vec![f32::NAN; 32]).contains("expected finite numbers above 0"));
}

#[test]
fn biases_of_llama_are_used_where_they_are() {
    let zeros = |count: usize| vec![0; count * 4];
    let decoder = described(Architecture::Llama, |writer| {
        for layer in 0..2 {
            writer.tensor(format!("blk.{layer}.attn_q.bias"), &[256], TensorType::F32, zeros(256));
            writer.tensor(format!("blk.{layer}.attn_k.bias"), &[128], TensorType::F32, zeros(128));
            writer.tensor(format!("blk.{layer}.attn_v.bias"), &[128], TensorType::F32, zeros(128));
            writer.tensor(format!("blk.{layer}.attn_output.bias"), &[256], TensorType::F32, zeros(256));
        }
    });
    let decoder = decoder.unwrap();
    let attention = decoder.layers[1].attention.as_ref().unwrap();
    assert!(attention.qkv_bias && attention.output_bias);
    // One of three is not enough.
    let error = refused(Architecture::Llama, |writer| {
        writer.tensor("blk.0.attn_q.bias", &[256], TensorType::F32, zeros(256));
    });
    assert!(error.contains("blk.0.attn_k.bias") && error.contains("missing"), "{error}");
}

/// Entries written later do not replace earlier ones, so a wrong value needs a file of its own.
fn replaced(architecture: Architecture, key: &str, value: &Value) -> String {
    let good = writer(&settings(architecture)).finish();
    let handle = common::file_of(&good);
    let file = File::open(handle.path()).unwrap();
    let mut out = Writer::new(3);
    for (other, old) in file.metadata().iter() {
        out.entry(other, if other == key { value.clone() } else { old.clone() });
    }
    for tensor in file.tensors() {
        let data = good[tensor.offset as usize..][..tensor.bytes as usize].to_vec();
        let dimensions = [tensor.cols as u64, tensor.rows as u64];
        out.tensor(tensor.name.clone(), &dimensions[..tensor.dimensions as usize], tensor.tensor_type, data);
    }
    let handle = common::file_of(&out.finish());
    let file = File::open(handle.path()).unwrap();
    match Decoder::from_metadata(file.metadata(), &file) {
        Ok(_) => "accepted".into(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn values_that_cannot_be_are_refused_by_key() {
    use Architecture::Llama;
    let cases = [
        ("general.architecture", Value::String("gpt-j".into()), "supported are llama, qwen2, qwen3, gemma3"),
        ("general.architecture", Value::U32(1), "expected a string"),
        ("llama.block_count", Value::U32(0), "1 to 1024"),
        ("llama.block_count", Value::U32(u32::MAX), "1 to 1024"),
        ("llama.block_count", Value::U32(3), "blk.2.attn_norm.weight"),
        ("llama.block_count", Value::U32(1), "is not part of the llama architecture"),
        ("llama.embedding_length", Value::U32(512), "expected 320 rows of 512"),
        ("llama.feed_forward_length", Value::U32(256), "expected 256 rows of 256"),
        (
            "llama.feed_forward_length",
            Value::Array(Array::I32(vec![512])),
            "one element for each of 2 layers",
        ),
        ("llama.feed_forward_length", Value::Array(Array::I32(vec![512, -1])), "1 to 1048576"),
        ("llama.feed_forward_length", Value::Array(Array::U32(vec![512, 512])), "accepted"),
        ("llama.attention.head_count", Value::U32(0), "1 to 4096"),
        ("llama.attention.head_count_kv", Value::U32(3), "a divisor of 4"),
        ("llama.attention.key_length", Value::U32(63), "an even length"),
        ("llama.attention.value_length", Value::U32(32), "the length of a key head"),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(-1.0), "0 to 1"),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(f32::NAN), "a finite number"),
        ("llama.rope.dimension_count", Value::U32(65), "1 to 64"),
        ("llama.rope.dimension_count", Value::U32(33), "an even number"),
        ("llama.rope.freq_base", Value::F32(1.0), "a number above 1"),
        ("llama.context_length", Value::I32(-1), "0 to 4294967295"),
    ];
    for (key, value, words) in cases {
        let error = replaced(Llama, key, &value);
        assert!(error.contains(words), "{key} = {value:?}: {error}");
    }
}

#[test]
fn what_would_compute_something_else_is_refused() {
    let llama = Architecture::Llama;
    let error = refused(llama, |writer| {
        writer.tensor("blk.0.attn_sinks.weight", &[4], TensorType::F32, vec![0; 16]);
    });
    assert!(error.contains("attn_sinks") && error.contains("not part of the llama architecture"), "{error}");
    let error = refused(llama, |writer| {
        writer.entry("llama.expert_count", Value::U32(8));
    });
    assert!(error.contains("mixture of experts"), "{error}");
    let error = described(llama, |writer| *writer = Writer::new(3)).unwrap_err();
    assert!(error.to_string().contains("general.architecture"), "{error}");
}

#[test]
fn real_models_are_described() {
    for (name, expected) in [
        (common::SMOLLM2, (Architecture::Llama, 30, 576, 49152, 9, 3, 1536, 8192)),
        (common::QWEN, (Architecture::Qwen2, 24, 896, 151_936, 14, 2, 4864, 32768)),
    ] {
        let Some(path) = common::real_model(name) else { continue };
        let file = File::open(&path).unwrap();
        let decoder = Decoder::from_metadata(file.metadata(), &file).unwrap();
        let attention = decoder.layers[0].attention.as_ref().unwrap();
        let found = (
            decoder.architecture,
            decoder.layers.len(),
            decoder.width,
            decoder.vocabulary,
            attention.heads,
            attention.kv_heads,
            decoder.layers[0].mlp.as_ref().unwrap().width,
            decoder.context_length,
        );
        assert_eq!(found, expected);
    }
}
