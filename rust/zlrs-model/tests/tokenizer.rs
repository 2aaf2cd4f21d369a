//! Properties of the tokenizer, and what it refuses.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod common;

use proptest::prelude::*;
use std::sync::LazyLock;
use unicode_normalization::UnicodeNormalization as _;
use zlrs_kernels::TensorType;
use zlrs_model::ModelError;
use zlrs_model::gguf::{Array, File, Metadata, Strings, Value};
use zlrs_model::synthetic::{Settings, TokenizerKind, Types};
use zlrs_model::tokenizer::{Segment, TokenKind, Tokenizer};

fn synthetic(change: impl FnOnce(&mut Settings)) -> Tokenizer {
    let mut settings = Settings { types: Types::One(TensorType::Q8_0), ..Settings::default() };
    change(&mut settings);
    Tokenizer::from_metadata(common::synthetic(&settings).metadata()).unwrap()
}

fn bytes_of(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<u8> {
    ids.iter().flat_map(|&id| tokenizer.token_bytes(id).unwrap().to_vec()).collect()
}

static FAMILIES: LazyLock<Vec<Tokenizer>> = LazyLock::new(|| {
    ["gpt-2", "smollm", "qwen2", "qwen35", "llama-bpe", "gpt-4o", "tekken", "deepseek-v3", "default"]
        .map(|pre| synthetic(|settings| settings.pre = pre.into()))
        .into()
});

/// The families above whose text is composed first.
const COMPOSES: [usize; 2] = [2, 3];

static SENTENCE_PIECE: LazyLock<Vec<Tokenizer>> = LazyLock::new(|| {
    [false, true]
        .map(|adds_space| {
            synthetic(|settings| settings.tokenizer = TokenizerKind::SentencePiece { adds_space })
        })
        .into()
});

/// Arbitrary text, and text made to hit borders: white space, digits, scripts, emoji, special tokens.
fn any_text() -> impl Strategy<Value = String> {
    let fragment = prop_oneof![
        any::<String>(),
        "[ \t\r\n]{1,6}",
        "[0-9²٣]{1,6}",
        "[a-zA-Zéß中のना'’]{1,8}",
        Just("<|im_start|>".to_owned()),
        Just("<|endoftext|>".to_owned()),
        Just("<tool_call>".to_owned()),
        Just("👨‍👩‍👧🇩🇪".to_owned()),
        "[eao\u{301}\u{308}\u{1100}\u{1161}\u{2581} ]{1,8}",
        "[useral ]{1,12}",
    ];
    prop::collection::vec(fragment, 0..8).prop_map(|fragments| fragments.concat())
}

proptest! {
    #[test]
    fn decoding_gives_the_text_back(text in any_text(), family in 0..9_usize) {
        let tokenizer = &FAMILIES[family];
        let ids = tokenizer.encode(&text);
        // Composing does not reach over user-defined tokens.
        let composed = |text: &str| -> String {
            text.split("<tool_call>").map(|part| part.nfc().collect()).collect::<Vec<String>>().join("<tool_call>")
        };
        let expected = if COMPOSES.contains(&family) { composed(&text) } else { text };
        prop_assert_eq!(bytes_of(tokenizer, &ids), expected.as_bytes());
        prop_assert!(ids.iter().all(|&id| !tokenizer.is_control(id)));
    }

    #[test]
    fn decoding_by_scores_gives_the_text_back_but_for_its_own_space(text in any_text(), adds_space: bool) {
        let tokenizer = &SENTENCE_PIECE[usize::from(adds_space)];
        let ids = tokenizer.encode(&text);
        let space = if adds_space && !text.is_empty() { " " } else { "" };
        let expected = format!("{space}{}", text.replace('\u{2581}', " "));
        prop_assert_eq!(bytes_of(tokenizer, &ids), expected.as_bytes());
        prop_assert!(ids.iter().all(|&id| !tokenizer.is_control(id)));
        let kinds = ids.iter().map(|&id| tokenizer.kind(id).unwrap()).collect::<Vec<_>>();
        prop_assert!(!kinds.contains(&TokenKind::Unused));
    }

    #[test]
    fn neighbouring_texts_are_one_text(text in any_text(), at in any::<prop::sample::Index>()) {
        let tokenizer = &FAMILIES[2];
        let border = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect::<Vec<_>>();
        let (left, right) = text.split_at(*at.get(&border));
        let parts = [Segment::text(left), Segment::text(right)];
        prop_assert_eq!(tokenizer.encode_prompt(&parts), tokenizer.encode(&text));
    }
}

#[test]
fn real_vocabularies_give_text_back_but_for_bytes_they_lack() {
    for name in [common::SMOLLM2, common::QWEN, common::GEMMA] {
        let Some(path) = common::real_model(name) else { continue };
        let tokenizer = Tokenizer::from_metadata(File::open(&path).unwrap().metadata()).unwrap();
        proptest!(|(text in any_text())| {
            let text: String = match name {
                common::QWEN => text.nfc().collect(),
                common::GEMMA => text.replace('\u{2581}', " "),
                _ => text,
            };
            let expected: Vec<u8> =
                text.bytes().filter(|&byte| tokenizer.byte_token(byte).is_some()).collect();
            let ids = tokenizer.encode(&text);
            prop_assert!(ids.iter().all(|&id| !tokenizer.is_control(id)));
            prop_assert_eq!(bytes_of(&tokenizer, &ids), expected);
        });
    }
}

#[test]
fn tokens_have_their_exact_bytes() {
    let tokenizer = &FAMILIES[0];
    for byte in 0..=255_u8 {
        assert_eq!(tokenizer.token_bytes(u32::from(byte)).unwrap(), [byte]);
        assert_eq!(tokenizer.byte_token(byte), Some(u32::from(byte)));
    }
    assert_eq!(tokenizer.token_bytes(256).unwrap(), b" t");
    let start = tokenizer.control_token("<|im_start|>").unwrap();
    assert_eq!(tokenizer.token_bytes(start).unwrap(), b"<|im_start|>");
    assert_eq!(tokenizer.kind(start), Some(TokenKind::Control));
    assert_eq!(tokenizer.kind(319), Some(TokenKind::Unused));
    assert_eq!(tokenizer.vocabulary_len(), 320);
    let error = tokenizer.token_bytes(320).unwrap_err();
    assert!(matches!(error, ModelError::TokenOutOfRange { id: 320, vocabulary: 320 }), "{error}");
    assert!(tokenizer.token_bytes(u32::MAX).is_err() && !tokenizer.is_end(u32::MAX));
}

#[test]
fn ends_are_the_files_and_the_known_ones() {
    let tokenizer = &FAMILIES[0];
    let end = |text: &str| tokenizer.is_end(tokenizer.control_token(text).unwrap());
    assert!(end("<|im_end|>") && end("<|endoftext|>"));
    assert!(!end("<|im_start|>") && !tokenizer.is_end(0));
    assert_eq!(tokenizer.eos(), tokenizer.control_token("<|im_end|>"));
}

#[test]
fn user_defined_tokens_are_found_in_text_and_control_tokens_are_not() {
    let tokenizer = &FAMILIES[0];
    let ids = tokenizer.encode("a<tool_call>b<|im_end|>");
    let kinds: Vec<_> = ids.iter().map(|&id| tokenizer.kind(id).unwrap()).collect();
    assert_eq!(kinds.iter().filter(|&&kind| kind == TokenKind::UserDefined).count(), 1);
    assert!(!kinds.contains(&TokenKind::Control));
    assert_eq!(bytes_of(tokenizer, &ids), b"a<tool_call>b<|im_end|>");
}

#[test]
fn a_prompt_begins_with_exactly_one_bos_where_the_file_asks_for_it() {
    let with = synthetic(|settings| settings.adds_bos = true);
    let bos = with.bos().unwrap();
    let control = |text: &str| Segment { text: text.into(), control: true };
    let leading = |tokenizer: &Tokenizer, segments: &[Segment]| {
        tokenizer.encode_prompt(segments).iter().take_while(|&&id| id == bos).count()
    };
    assert_eq!(leading(&with, &[Segment::text("hello")]), 1);
    assert_eq!(leading(&with, &[control("<|endoftext|>"), Segment::text("hello")]), 1);
    assert_eq!(leading(&with, &[control("<|endoftext|>"), control("<|endoftext|>")]), 1);
    assert_eq!(leading(&with, &[]), 1);
    let without = &FAMILIES[0];
    assert_eq!(leading(without, &[Segment::text("hello")]), 0);
    assert_eq!(leading(without, &[control("<|endoftext|>"), Segment::text("hello")]), 1);
    // Text of a special token is text, also in a prompt.
    assert_eq!(leading(without, &[Segment::text("<|endoftext|>")]), 0);
    // Llama 3 files ask for it without saying so.
    let file = metadata(&[("pre", Value::String("llama-bpe".into()))], &["add_bos_token"]);
    assert!(Tokenizer::from_metadata(&file).unwrap().adds_bos());
}

#[test]
fn long_runs_end_in_good_time_and_lose_nothing() {
    for run in [" ", "\n", "a", "1", "!", "\u{301}", "\u{3000}"] {
        let text = format!("x{}y", run.repeat(300_000 / run.len()));
        for tokenizer in FAMILIES.iter() {
            assert_eq!(bytes_of(tokenizer, &tokenizer.encode(&text)), text.as_bytes());
        }
        assert_eq!(bytes_of(&SENTENCE_PIECE[0], &SENTENCE_PIECE[0].encode(&text)), text.as_bytes());
    }
}

/// The synthetic tokenizer's metadata with some entries replaced and some removed.
fn metadata(replaced: &[(&str, Value)], removed: &[&str]) -> Metadata {
    metadata_of(&Settings::default(), replaced, removed)
}

/// A synthetic tokenizer's metadata with some entries replaced and some removed.
fn metadata_of(settings: &Settings, replaced: &[(&str, Value)], removed: &[&str]) -> Metadata {
    let file = common::synthetic(settings);
    let prefix = "tokenizer.ggml.";
    let mut entries: Vec<(Box<str>, Value)> = file
        .metadata()
        .iter()
        .filter(|(key, _)| {
            let key = key.strip_prefix(prefix).unwrap_or_default();
            !removed.contains(&key) && replaced.iter().all(|(other, _)| *other != key)
        })
        .map(|(key, value)| (key.into(), value.clone()))
        .collect();
    entries.extend(replaced.iter().map(|(key, value)| (format!("{prefix}{key}").into(), value.clone())));
    Metadata::new(entries).unwrap()
}

fn strings(texts: &[&str]) -> Value {
    Value::Array(Array::Strings(Box::new(texts.iter().copied().collect::<Strings>())))
}

/// Entries to replace, entries to remove, words of the error.
type Case = (Vec<(&'static str, Value)>, Vec<&'static str>, &'static str);

#[test]
fn what_does_not_make_a_tokenizer_is_refused_by_name() {
    let cases: Vec<Case> = vec![
        (vec![("model", Value::String("bert".into()))], vec![], "supported are gpt2"),
        (vec![("model", Value::String("llama".into()))], vec![], "tokenizer.ggml.scores"),
        (vec![("pre", Value::String("viking".into()))], vec![], "smollm"),
        (vec![], vec!["tokens"], "tokenizer.ggml.tokens"),
        (vec![], vec!["merges"], "tokenizer.ggml.merges"),
        (vec![("tokens", Value::U32(1))], vec![], "an array of strings"),
        (vec![("merges", strings(&["ab"]))], vec![], "is not two tokens"),
        (vec![("merges", strings(&["a zzz"]))], vec![], "not in the vocabulary"),
        (vec![("merges", strings(&["zzz a"]))], vec![], "not in the vocabulary"),
        (vec![("merges", strings(&["e e"]))], vec![], "not in the vocabulary"),
        (vec![("merges", strings(&["<|im_end|> a"]))], vec![], "control token"),
        (vec![("token_type", Value::Array(Array::I32(vec![1])))], vec![], "one element for each"),
        (vec![("token_type", Value::Array(Array::I32(vec![9; 320])))], vec![], "elements of 0 to 6"),
        (vec![("eos_token_id", Value::U32(320))], vec![], "the id of one of 320 tokens"),
        (vec![("bos_token_id", Value::I32(-2))], vec![], "0 to 4294967295"),
        (vec![("add_bos_token", Value::Bool(true))], vec!["bos_token_id"], "bos_token_id"),
    ];
    for (replaced, removed, words) in cases {
        let error = Tokenizer::from_metadata(&metadata(&replaced, &removed)).unwrap_err().to_string();
        assert!(error.contains(words), "{error:?} does not say {words:?}");
    }
}

#[test]
fn a_file_without_kinds_has_its_named_ends_as_control_tokens() {
    let tokenizer = Tokenizer::from_metadata(&metadata(&[], &["token_type"])).unwrap();
    assert!(tokenizer.is_control(tokenizer.eos().unwrap()));
    assert_eq!(tokenizer.control_token("<|im_start|>"), None);
}

#[test]
fn what_does_not_make_a_tokenizer_by_scores_is_refused_by_name() {
    let tokenizer = TokenizerKind::SentencePiece { adds_space: false };
    let base = Settings { tokenizer, ..Settings::default() };
    let good = scores_of(&base);
    let with = |index: usize, value: f32| {
        let mut scores = good.clone();
        scores[index] = value;
        Value::Array(Array::F32(scores))
    };
    let cases: Vec<Case> = vec![
        (vec![], vec!["scores"], "tokenizer.ggml.scores"),
        (vec![("scores", Value::Array(Array::F32(vec![0.0])))], vec![], "one element for each"),
        (vec![("scores", Value::Array(Array::F64(vec![0.0; 320])))], vec![], "an array of f32"),
        (vec![("scores", with(300, f32::NAN))], vec![], "numbers"),
        (vec![], vec!["token_type"], "256 of the 256 tokens for single bytes"),
        (vec![("token_type", Value::Array(Array::I32(vec![6; 320])))], vec![], "is marked as a byte"),
        (vec![("remove_extra_whitespaces", Value::Bool(true))], vec![], "removes spaces"),
        (vec![("bos_token_id", Value::U32(320))], vec![], "the id of one of 320 tokens"),
    ];
    for (replaced, removed, words) in cases {
        let error =
            Tokenizer::from_metadata(&metadata_of(&base, &replaced, &removed)).unwrap_err().to_string();
        assert!(error.contains(words), "{error:?} does not say {words:?}");
    }
    for extreme in [f32::INFINITY, f32::NEG_INFINITY, -0.0, f32::MIN_POSITIVE] {
        let metadata = metadata_of(&base, &[("scores", with(300, extreme))], &[]);
        let tokenizer = Tokenizer::from_metadata(&metadata).unwrap();
        assert_eq!(bytes_of(&tokenizer, &tokenizer.encode("hello the user")), b"hello the user");
    }
}

fn scores_of(settings: &Settings) -> Vec<f32> {
    common::synthetic(settings).metadata().floats("tokenizer.ggml.scores").unwrap().to_vec()
}
