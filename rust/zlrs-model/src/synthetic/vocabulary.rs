//! The vocabularies of synthetic models. Byte-level: 256 bytes, a few merges, control tokens, unused rows.
//! SentencePiece: control tokens, 256 bytes, user-defined runs, texts with scores.

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
const BYTE: i32 = 6;
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

fn strings(texts: Vec<&str>) -> Value {
    Value::Array(Array::Strings(Box::new(texts.into_iter().collect::<Strings>())))
}

/// Texts of the SentencePiece vocabulary, the best first, U+2581 standing for a space. The unused one is made on
/// the way to longer ones and taken apart where it is left.
const PIECES: [(&str, i32); 54] = [
    ("\u{2581}t", NORMAL),
    ("he", NORMAL),
    ("in", NORMAL),
    ("\u{2581}a", NORMAL),
    ("re", NORMAL),
    ("on", NORMAL),
    ("\u{2581}the", NORMAL),
    ("er", UNUSED),
    ("\u{2581}s", NORMAL),
    ("at", NORMAL),
    ("en", NORMAL),
    ("ing", NORMAL),
    ("ser", NORMAL),
    ("user", NORMAL),
    ("ll", NORMAL),
    ("ell", NORMAL),
    ("hell", NORMAL),
    ("12", NORMAL),
    ("aa", NORMAL),
    ("aaaa", NORMAL),
    ("\u{2581}\u{e9}", NORMAL),
    ("\u{4e2d}\u{6587}", NORMAL),
    ("\u{2581}", NORMAL),
    ("e", NORMAL),
    ("t", NORMAL),
    ("a", NORMAL),
    ("o", NORMAL),
    ("i", NORMAL),
    ("n", NORMAL),
    ("s", NORMAL),
    ("h", NORMAL),
    ("r", NORMAL),
    ("l", NORMAL),
    ("d", NORMAL),
    ("u", NORMAL),
    ("c", NORMAL),
    ("m", NORMAL),
    ("p", NORMAL),
    ("g", NORMAL),
    ("f", NORMAL),
    ("w", NORMAL),
    ("y", NORMAL),
    ("b", NORMAL),
    (".", NORMAL),
    (",", NORMAL),
    ("<", NORMAL),
    (">", NORMAL),
    ("|", NORMAL),
    ("1", NORMAL),
    ("2", NORMAL),
    ("\u{e9}", NORMAL),
    ("\u{4e2d}", NORMAL),
    ("\u{6587}", NORMAL),
    ("'", NORMAL),
];

/// As [`entries`], for SentencePiece's BPE.
pub(super) fn sentence_piece_entries(adds_bos: bool, adds_space: bool) -> Vec<(&'static str, Value)> {
    let mut tokens: Vec<(String, i32, f32)> =
        ["<unk>", "<bos>", "<eos>"].map(|text| (text.into(), CONTROL, -1000.0)).into();
    tokens.extend((0..=255_u8).map(|byte| (format!("<0x{byte:02X}>"), BYTE, -1000.0)));
    // Converters write user-defined runs with plain spaces.
    tokens.extend(["  ", "    ", "\n\n", "<b>"].map(|text| (text.into(), USER_DEFINED, -1000.0)));
    tokens.extend(PIECES.iter().zip(0_u16..).map(|(&(text, kind), rank)| {
        // Some neighbours score the same: of those the leftmost are joined first.
        (text.to_owned(), kind, -f32::from(rank / 2))
    }));
    for index in tokens.len()..LENGTH {
        tokens.push((format!("<unused{index}>"), CONTROL, -1000.0));
    }
    vec![
        ("model", Value::String("llama".into())),
        ("pre", Value::String("default".into())),
        ("tokens", strings(tokens.iter().map(|(text, ..)| text.as_str()).collect())),
        ("scores", Value::Array(Array::F32(tokens.iter().map(|&(.., score)| score).collect()))),
        ("token_type", Value::Array(Array::I32(tokens.iter().map(|&(_, kind, _)| kind).collect()))),
        ("unknown_token_id", Value::U32(0)),
        ("bos_token_id", Value::U32(1)),
        ("eos_token_id", Value::U32(2)),
        ("add_bos_token", Value::Bool(adds_bos)),
        ("add_space_prefix", Value::Bool(adds_space)),
    ]
}
