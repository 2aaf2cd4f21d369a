//! Perplexity against the plainest way to compute it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod support;

use std::cell::RefCell;
use std::io::Write as _;

use support::model::{Model, isas};
use zlrs_engine::perplexity::{PerplexityOptions, log_probability, perplexity};
use zlrs_model::decoder::Architecture;
use zlrs_model::synthetic::{Settings, TokenizerKind, model};
use zlrs_model::tokenizer::{Segment, Tokenizer};

const TEXT: &str =
    "the user said hello and went on the hill, then the other user sang. 12 singers in the end.";

fn settings(adds_bos: bool) -> Settings {
    let tokenizer = TokenizerKind::SentencePiece { adds_space: false };
    Settings { architecture: Architecture::Gemma3, tokenizer, adds_bos, ..Settings::default() }
}

/// Mean loss and its error, by a loop over windows of the naive model.
fn plainly(settings: &Settings, window: usize, windows: usize) -> (usize, f64, f64) {
    let model = Model::new(settings);
    let tokenizer = Tokenizer::from_metadata(model.file.metadata()).unwrap();
    let ids = tokenizer.encode_prompt(&[Segment::text(TEXT)]);
    let mut losses = Vec::new();
    for ids in ids.chunks_exact(window).take(windows) {
        let mut given = ids.to_vec();
        if settings.adds_bos {
            given[0] = tokenizer.bos().unwrap();
        }
        let logits = model.reference(&given);
        for position in window / 2..window - 1 {
            let row = &logits[position];
            let sum: f64 = row.iter().map(|&logit| f64::from(logit).exp()).sum();
            losses.push(sum.ln() - f64::from(row[ids[position + 1] as usize]));
        }
    }
    let count = losses.len() as f64;
    let mean = losses.iter().sum::<f64>() / count;
    let variance = losses.iter().map(|loss| (loss - mean).powi(2)).sum::<f64>() / count;
    (losses.len(), mean, (variance / (count - 1.0)).sqrt())
}

fn file(settings: &Settings) -> tempfile::NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(".gguf").tempfile().unwrap();
    file.write_all(&model(settings)).unwrap();
    file
}

#[test]
fn it_is_what_a_loop_over_windows_gives() {
    for (adds_bos, window, windows) in [(false, 16, 2), (true, 16, 2), (true, 9, 3)] {
        let settings = settings(adds_bos);
        let (scored, mean, error) = plainly(&settings, window, windows);
        let file = file(&settings);
        let mut all = Vec::new();
        for isa in isas() {
            for threads in [1, 2] {
                let options = PerplexityOptions {
                    isa: Some(isa),
                    threads: Some(threads),
                    window_tokens: window,
                    windows: Some(windows),
                    ..PerplexityOptions::default()
                };
                all.push(perplexity(file.path(), TEXT, &options).unwrap());
            }
        }
        let found = all[0];
        assert!(all.iter().all(|other| *other == found), "{all:?}");
        assert_eq!((found.windows, found.scored_tokens), (windows, scored));
        assert!((found.mean_loss - mean).abs() < 1e-9 * mean, "{found:?}, expected {mean}");
        assert!((found.loss_error - error).abs() < 1e-6, "{found:?}, expected {error}");
        assert!((found.value() - mean.exp()).abs() < 1e-6 * mean.exp());
    }
}

#[test]
fn progress_counts_and_may_end_it() {
    let file = file(&settings(true));
    let calls = RefCell::new(Vec::new());
    let measure = |most: usize| {
        let progress = |done, total| {
            calls.borrow_mut().push((done, total));
            done < most
        };
        let options = PerplexityOptions { window_tokens: 8, progress: &progress, ..Default::default() };
        perplexity(file.path(), TEXT, &options).unwrap()
    };
    let all = measure(usize::MAX);
    let total = all.windows;
    assert!(total > 2);
    assert_eq!(calls.borrow_mut().split_off(0), (1..=total).map(|done| (done, total)).collect::<Vec<_>>());
    assert_eq!(measure(2).windows, 2);
    assert_eq!(calls.borrow().len(), 2);
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let file = file(&settings(true));
    let refuse = |text: &str, options: PerplexityOptions<'_>| {
        perplexity(file.path(), text, &options).unwrap_err().to_string()
    };
    let window = |window_tokens| PerplexityOptions { window_tokens, ..PerplexityOptions::default() };
    assert!(refuse("short", window(512)).contains("give a longer text"));
    assert!(refuse(TEXT, window(0)).contains("4 to 2048"));
    assert!(refuse(TEXT, window(3)).contains("4 to 2048"));
    let none = PerplexityOptions { windows: Some(0), ..window(8) };
    assert!(refuse(TEXT, none).contains("windows is 0"));
    let threads = PerplexityOptions { threads: Some(0), ..window(8) };
    assert!(refuse(TEXT, threads).contains("threads is 0"));
}

#[test]
fn probabilities_are_those_of_a_softmax() {
    let logits = [1.0_f32, 2.0, 3.0];
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
    for (id, &logit) in logits.iter().enumerate() {
        let expected = (f64::from(logit).exp() / sum).ln();
        assert!((log_probability(&logits, id as u32) - expected).abs() < 1e-12);
    }
    // Large logits do not overflow.
    assert!((log_probability(&[1e4, 1e4], 0) - 0.5_f64.ln()).abs() < 1e-12);
    assert!(log_probability(&logits, 3).is_infinite());
}
