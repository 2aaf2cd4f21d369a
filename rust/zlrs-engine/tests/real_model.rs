//! Exactness and sense on the small real model, where it is on this machine: `ZLRS_TEST_MODEL`, or the fetched
//! models' folder.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod support;

use std::path::PathBuf;

use support::model::{Model, assert_same_bits, isas, logits_of};
use support::scripted::finished;
use zlrs_engine::{Engine, FinishReason, LoadOptions, Message, Request};
use zlrs_kernels::Isa;

const FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";

/// The model's path, or the reason for skipping on standard error.
#[expect(clippy::print_stderr, reason = "a test that is skipped says why")]
fn model_path() -> Option<PathBuf> {
    let folder = || {
        let named = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
        named("ZLRS_HOME")
            .map(|home| home.join("models"))
            .or_else(|| named("XDG_CACHE_HOME").map(|cache| cache.join("zlrs/models")))
            .or_else(|| named("HOME").map(|home| home.join(".cache/zlrs/models")))
    };
    let path = std::env::var_os("ZLRS_TEST_MODEL").map(PathBuf::from).or_else(|| Some(folder()?.join(FILE)));
    let found = path.clone().filter(|path| path.is_file());
    if found.is_none() {
        eprintln!("skipped: needs the model file {path:?}; fetch it with `zlrs models pull`");
    }
    found
}

#[test]
fn a_question_gets_a_sensible_answer() {
    let Some(path) = model_path() else { return };
    let engine =
        Engine::load(&path, &LoadOptions { context_tokens: Some(512), ..LoadOptions::default() }).unwrap();
    let question = Message { role: "user", content: "What is the capital of France?" };
    let ids = engine.render(&[question], true).unwrap();
    let request = Request { ids, max_tokens: 40, ..Request::default() };
    let (text, _, last) = finished(engine.submit(request).unwrap());
    assert!(text.contains("Paris"), "{text}");
    assert_eq!(last.reason, FinishReason::Stop);
}

#[test]
fn chunks_threads_and_instruction_sets_give_the_same_bits() {
    let Some(path) = model_path() else { return };
    let model = Model::at(&path);
    let tokenizer = zlrs_model::tokenizer::Tokenizer::from_metadata(model.file.metadata()).unwrap();
    let ids = tokenizer.encode(
        "The decision graph answers what it has already proven. It forwards the rest, byte for byte, and says \
         in a header what it did: 17 requests, 3 hits, 0 wrong answers. def fib(n): return n if n < 2 else",
    );
    let expected = logits_of(&mut model.backend(Isa::detect(), 1, 16), &ids, 1);
    let mut backend = model.backend(Isa::detect(), 2, 16);
    for chunk in [7, 64, 256] {
        assert_same_bits(&expected, &logits_of(&mut backend, &ids, chunk), &format!("chunk {chunk}"));
    }
    // The specification itself is slow: a few tokens of it.
    for isa in isas() {
        let few = logits_of(&mut model.backend(isa, 2, 16), &ids[..6], 4);
        assert_same_bits(&expected[..6], &few, isa.name());
    }
}
