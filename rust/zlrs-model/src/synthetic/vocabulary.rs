//! The byte-level vocabulary of synthetic models: 256 bytes, a few merges, control tokens, unused rows.

use crate::gguf::{Array, Strings, Value};
use crate::tokenizer::byte_level;

/// Merges in order of rank, as plain text. Each makes a token, and every part is one byte or such a token.
const MERGES: [(&str, &str); 27] = [
    (" ", "t"),
    ("h", "e"),
    ("i", "n"),
    (" ", "a"),
    ("r", "e"),
    ("o", "n"),
    (" t", "he"),
    ("e", "r"),
    (" ", "s"),
    ("a", "t"),
    (" ", "o"),
    ("e", "n"),
    (" ", "c"),
    ("in", "g"),
    (" o", "r"),
    ("l", "l"),
    (" ", " "),
    ("  ", "  "),
    ("e", "d"),
    (" a", "n"),
    (" an", "d"),
    ("u", "s"),
    ("us", "er"),
    ("h", "ell"),
    ("1", "2"),
    ("\n", "\n"),
    ("e", "ll"),
];

/// Tokens that are not text, with their type in the file.
const ADDED: [(&str, i32); 6] = [
    ("<|endoftext|>", CONTROL),
    ("<|im_start|>", CONTROL),
    ("<|im_end|>", CONTROL),
    ("<think>", CONTROL),
    ("<tool_call>", USER_DEFINED),
    ("</tool_call>", USER_DEFINED),
];

const NORMAL: i32 = 1;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const UNUSED: i32 = 5;
/// Tokens in all.
pub(super) const LENGTH: usize = 320;

/// Metadata that describe the tokenizer, without the keys' common prefix `tokenizer.ggml.`.
pub(super) fn entries(pre: &str, adds_bos: bool) -> Vec<(&'static str, Value)> {
    let byte_tokens = (0..=255_u8).map(|byte| byte_level::encode(&[byte]));
    let merged = MERGES.iter().map(|(left, right)| byte_level::encode(format!("{left}{right}").as_bytes()));
    let mut tokens: Vec<(String, i32)> = byte_tokens.chain(merged).map(|token| (token, NORMAL)).collect();
    let first_added = tokens.len() as u32;
    tokens.extend(ADDED.iter().map(|&(text, kind)| (text.to_owned(), kind)));
    for index in tokens.len()..LENGTH {
        tokens.push((format!("[UNUSED{index}]"), UNUSED));
    }
    let merges: Vec<String> = MERGES
        .iter()
        .map(|(left, right)| {
            format!("{} {}", byte_level::encode(left.as_bytes()), byte_level::encode(right.as_bytes()))
        })
        .collect();
    let strings =
        |texts: Vec<&str>| Value::Array(Array::Strings(Box::new(texts.into_iter().collect::<Strings>())));
    vec![
        ("model", Value::String("gpt2".into())),
        ("pre", Value::String(pre.into())),
        ("tokens", strings(tokens.iter().map(|(text, _)| text.as_str()).collect())),
        ("token_type", Value::Array(Array::I32(tokens.iter().map(|&(_, kind)| kind).collect()))),
        ("merges", strings(merges.iter().map(String::as_str).collect())),
        ("bos_token_id", Value::U32(first_added)),
        ("eos_token_id", Value::U32(first_added + 2)),
        ("add_bos_token", Value::Bool(adds_bos)),
    ]
}
