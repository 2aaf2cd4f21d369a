//! How far a model's predictions are from saved ones, as JSON on standard output.
//!
//! ```sh
//! cargo run --release -p zlrs-engine --example quality -- MODEL.gguf THREADS PREDICTIONS TEXT.txt
//! ```
//!
//! PREDICTIONS is what `llama-perplexity --kl-divergence-base` writes: tokens in windows, and for the second half
//! of each the logarithms of all probabilities in 16 bits (65,535 steps over at most 16 nats). The text is the one
//! they were made from: its tokens are compared too.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::panic, reason = "a program for measuring")]

use std::fs::File as Input;
use std::io::{BufReader, Read};
use std::path::Path;

use zlrs_engine::perplexity::{Teacher, log_normaliser};
use zlrs_model::gguf::File;
use zlrs_model::tokenizer::{Segment, Tokenizer};

fn number(input: &mut impl Read) -> usize {
    let mut bytes = [0; 4];
    input.read_exact(&mut bytes).unwrap();
    usize::try_from(i32::from_le_bytes(bytes)).unwrap()
}

/// The logarithms of all probabilities at one position.
fn saved(input: &mut impl Read, vocabulary: usize) -> Vec<f32> {
    let mut bytes = vec![0; 2 * (vocabulary.div_ceil(2) * 2 + 4)];
    input.read_exact(&mut bytes).unwrap();
    let float = |at: usize| f32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (step, least) = (float(0), float(4));
    let quantised = bytes[8..].chunks_exact(2).take(vocabulary);
    quantised.map(|two| least + step * f32::from(u16::from_le_bytes([two[0], two[1]]))).collect()
}

/// Below this logarithm saved probabilities are cut off, so they say nothing.
const LEAST: f64 = -16.0;

fn best(values: &[f32]) -> usize {
    let mut best = 0;
    for (index, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = index;
        }
    }
    best
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, threads, predictions, text] = arguments.as_slice() else {
        panic!("MODEL.gguf THREADS PREDICTIONS TEXT.txt")
    };
    let mut input = BufReader::with_capacity(1 << 20, Input::open(predictions).unwrap());
    let mut magic = [0; 8];
    input.read_exact(&mut magic).unwrap();
    assert_eq!(&magic, b"_logits_", "not a file of predictions");
    let window = number(&mut input);
    let (vocabulary, windows) = (number(&mut input), number(&mut input));
    let ids: Vec<u32> = (0..window * windows).map(|_| number(&mut input) as u32).collect();

    let file = File::open(Path::new(model)).unwrap();
    let tokenizer = Tokenizer::from_metadata(file.metadata()).unwrap();
    let ours = tokenizer.encode_prompt(&[Segment::text(std::fs::read_to_string(text).unwrap())]);
    let same_tokens = ours.get(..ids.len()) == Some(&ids[..]);
    let mut teacher = Teacher::load(&file, None, Some(threads.parse().unwrap()), window).unwrap();
    let bos = tokenizer.bos().filter(|_| tokenizer.adds_bos());
    let (mut loss, mut base_loss, mut divergences, mut same_best) = (0.0, 0.0, Vec::new(), 0_usize);
    for ids in ids.chunks_exact(window) {
        let mut given = ids.to_vec();
        given[0] = bos.unwrap_or(given[0]);
        let each = &mut |position: usize, logits: &[f32]| {
            // The last position predicts what is in no window.
            let Some(&next) = ids.get(position + 1) else { return };
            let logits = &logits[..vocabulary];
            let base = saved(&mut input, vocabulary);
            let normaliser = log_normaliser(logits);
            loss += normaliser - f64::from(logits[next as usize]);
            base_loss -= f64::from(base[next as usize]);
            let pairs = base.iter().zip(logits);
            let divergence: f64 = pairs
                .map(|(&base, &logit)| (f64::from(base), logit))
                .filter(|&(base, _)| base > LEAST)
                .map(|(base, logit)| base.exp() * (base - (f64::from(logit) - normaliser)))
                .sum();
            divergences.push(divergence);
            same_best += usize::from(best(&base) == best(logits));
        };
        teacher.logits(&given, window / 2, each).unwrap();
    }
    let count = divergences.len() as f64;
    let mean = divergences.iter().sum::<f64>() / count;
    let variance = divergences.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    println!(
        "{{\"windows\": {windows}, \"scored_tokens\": {}, \"same_tokens\": {same_tokens}, \
         \"perplexity\": {:.6}, \"base_perplexity\": {:.6}, \"divergence\": {mean:.8}, \
         \"divergence_error\": {:.8}, \"same_best_percent\": {:.4}}}",
        divergences.len(),
        (loss / count).exp(),
        (base_loss / count).exp(),
        (variance / count).sqrt(),
        100.0 * same_best as f64 / count,
    );
}
