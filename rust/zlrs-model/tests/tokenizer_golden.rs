//! Token ids against those of an independent implementation, see `fixtures/make_tokenizer_golden.py`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod common;

use zlrs_model::gguf::File;
use zlrs_model::synthetic::{Settings, TokenizerKind};
use zlrs_model::tokenizer::Tokenizer;

struct Golden {
    pre: String,
    text: String,
    ids: Vec<u32>,
}

fn read(name: &str) -> Vec<Golden> {
    let path = format!("{}/tests/fixtures/tokenizer/{name}", env!("CARGO_MANIFEST_DIR"));
    let lines = std::fs::read_to_string(path).unwrap();
    let golden = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        Golden {
            pre: value["pre"].as_str().unwrap().to_owned(),
            text: value["text"].as_str().unwrap().to_owned(),
            ids: value["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect(),
        }
    };
    lines.lines().map(golden).collect()
}

fn compare(tokenizer: &Tokenizer, golden: &Golden) {
    let ids = tokenizer.encode(&golden.text);
    assert_eq!(ids, golden.ids, "{} {:?}", golden.pre, golden.text);
}

#[test]
fn every_family_cuts_as_its_reference_does() {
    let all = read("synthetic.jsonl");
    assert!(all.len() > 300);
    let mut tokenizer: Option<(String, Tokenizer)> = None;
    for golden in &all {
        if tokenizer.as_ref().is_none_or(|(pre, _)| *pre != golden.pre) {
            let file = common::synthetic(&Settings { pre: golden.pre.clone(), ..Settings::default() });
            tokenizer = Some((golden.pre.clone(), Tokenizer::from_metadata(file.metadata()).unwrap()));
        }
        compare(&tokenizer.as_ref().unwrap().1, golden);
    }
}

fn real(model: &str, fixture: &str) {
    let Some(path) = common::real_model(model) else { return };
    let file = File::open(&path).unwrap();
    let tokenizer = Tokenizer::from_metadata(file.metadata()).unwrap();
    let all = read(fixture);
    assert!(all.len() > 50);
    for golden in &all {
        assert_eq!(golden.pre, file.metadata().str("tokenizer.ggml.pre").unwrap());
        compare(&tokenizer, golden);
    }
}

#[test]
fn smollm2_gives_the_reference_ids() {
    real(common::SMOLLM2, "smollm2.jsonl");
}

#[test]
fn qwen_gives_the_reference_ids() {
    real(common::QWEN, "qwen2.jsonl");
}

#[test]
fn gemma_gives_the_reference_ids() {
    real(common::GEMMA, "gemma3.jsonl");
}

#[test]
fn merging_by_scores_is_that_of_the_reference() {
    for (fixture, adds_space) in [("sentence_piece.jsonl", false), ("sentence_piece_prefix.jsonl", true)] {
        let kind = TokenizerKind::SentencePiece { adds_space };
        let file = common::synthetic(&Settings { tokenizer: kind, ..Settings::default() });
        let tokenizer = Tokenizer::from_metadata(file.metadata()).unwrap();
        let all = read(fixture);
        assert!(all.len() > 200);
        for golden in &all {
            compare(&tokenizer, golden);
        }
    }
}
