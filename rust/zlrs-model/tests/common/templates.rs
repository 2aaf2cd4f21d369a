//! A tokenizer with the control tokens of all template families, and rendering.

use std::sync::LazyLock;

use zlrs_kernels::TensorType;
use zlrs_model::ModelError;
use zlrs_model::gguf::{Array, Metadata, Strings, Value};
use zlrs_model::synthetic::{Settings, Types};
use zlrs_model::template::{ChatTemplate, Message, RenderOptions};
use zlrs_model::tokenizer::{Segment, Tokenizer};

use super::synthetic;

/// Control tokens of all families at once.
pub const CONTROL: [&str; 22] = [
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|begin_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "<bos>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|end|>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<｜end▁of▁sentence｜>",
    "<|tool|>",
];

pub static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(tokenizer);

/// 2 January 2024, 03:04:05 UTC.
pub const OPTIONS: RenderOptions = RenderOptions { add_generation_prompt: true, now_s: 1_704_164_645 };

/// The synthetic vocabulary with all those control tokens behind it.
fn tokenizer() -> Tokenizer {
    let settings = Settings { types: Types::One(TensorType::Q8_0), ..Settings::default() };
    let file = synthetic(&settings);
    let mut entries: Vec<(Box<str>, Value)> =
        file.metadata().iter().map(|(key, value)| (key.into(), value.clone())).collect();
    for (key, value) in &mut entries {
        match &**key {
            "tokenizer.ggml.tokens" => {
                let Value::Array(Array::Strings(texts)) = &*value else { panic!() };
                let plain = texts.iter().filter(|text| !CONTROL.contains(text));
                let all: Strings = plain.chain(CONTROL).collect();
                *value = Value::Array(Array::Strings(Box::new(all)));
            }
            "tokenizer.ggml.token_type" => {
                let mut kinds = file.metadata().optional_integers(key).unwrap().unwrap();
                let texts = file.metadata().strings("tokenizer.ggml.tokens").unwrap();
                let mut texts = texts.iter();
                kinds.retain(|_| !CONTROL.contains(&texts.next().unwrap()));
                kinds.extend([3; CONTROL.len()]);
                *value = Value::Array(Array::I64(kinds));
            }
            _ => {}
        }
    }
    entries.retain(|(key, _)| !key.ends_with("bos_token_id") && !key.ends_with("eos_token_id"));
    let id = |text: &str| 320 - 3 + CONTROL.iter().position(|other| *other == text).unwrap() as u32;
    entries.push(("tokenizer.ggml.bos_token_id".into(), Value::U32(id("<s>"))));
    entries.push(("tokenizer.ggml.eos_token_id".into(), Value::U32(id("</s>"))));
    Tokenizer::from_metadata(&Metadata::new(entries).unwrap()).unwrap()
}

pub fn text_of(segments: &[Segment]) -> String {
    segments.iter().map(|segment| segment.text.as_str()).collect()
}

pub fn render(template: &ChatTemplate, messages: &[(&str, String)]) -> Result<Vec<Segment>, ModelError> {
    let messages: Vec<_> = messages.iter().map(|(role, content)| Message { role, content }).collect();
    template.render(&messages, OPTIONS)
}
