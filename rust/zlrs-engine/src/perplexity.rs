//! How well a model predicts a given text: teacher-forced logits and perplexity.
//!
//! The text is cut into windows of equal length. Each is computed from an empty context, with the model's BOS in
//! place of its first token where the model asks for one, and the tokens of its second half but the last are
//! scored, so that every scored token has at least half a window before it. This is the protocol of
//! llama.cpp's `llama-perplexity`, so that figures of the same file, text and window can be compared.

use std::path::Path;

use zlrs_kernels::{Isa, MAX_THREADS, Pool};
use zlrs_model::decoder::Decoder;
use zlrs_model::gguf::File;
use zlrs_model::tokenizer::{Segment, Tokenizer};
use zlrs_model::weights::Weights;

use crate::alone::default_threads;
use crate::backend::Backend as _;
use crate::cpu::CpuBackend;
use crate::kv::{Arena, BLOCK_TOKENS, Sequence};
use crate::plan::{CHUNK_ROWS, Plan, Row};
use crate::{Compute, EngineError};

/// Rows whose logits are held at a time: a large vocabulary has a megabyte of them a row.
const LOGITS_ROWS: usize = 32;
/// Window when none is named, in tokens.
pub const DEFAULT_WINDOW_TOKENS: usize = 512;

/// How to measure.
pub struct PerplexityOptions<'progress> {
    /// Threads that compute, 1 to 512; by default as many as the process may use.
    pub threads: Option<usize>,
    /// Tokens of a window, 4 to the model's own.
    pub window_tokens: usize,
    /// Most windows, at least 1; by default all that the text fills.
    pub windows: Option<usize>,
    /// The instruction set; by default what `ZLRS_ISA` says, or the best there is.
    pub isa: Option<Isa>,
    /// Told the windows done and in all, from the calling thread; false ends the measurement with what it has.
    pub progress: &'progress dyn Fn(usize, usize) -> bool,
}

impl Default for PerplexityOptions<'_> {
    fn default() -> Self {
        Self {
            threads: None,
            window_tokens: DEFAULT_WINDOW_TOKENS,
            windows: None,
            isa: None,
            progress: &|_, _| true,
        }
    }
}

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Perplexity {
    /// Windows computed.
    pub windows: usize,
    /// Tokens scored.
    pub scored_tokens: usize,
    /// Mean of −ln p over the scored tokens.
    pub mean_loss: f64,
    /// Standard error of that mean, taking tokens for independent.
    pub loss_error: f64,
}

impl Perplexity {
    /// e to the mean loss: 1 for a perfect prediction, the size of the vocabulary for a guess.
    pub fn value(&self) -> f64 {
        self.mean_loss.exp()
    }

    /// Standard error of [`value`](Self::value), to first order.
    pub fn error(&self) -> f64 {
        self.value() * self.loss_error
    }
}

/// Measures the perplexity of a model file on a text. Time and memory are those of prompts of `window_tokens`.
///
/// # Errors
/// [`EngineError::Model`] for the file, [`EngineError::Option`] for an option out of range or a text shorter than
/// one window, [`EngineError::Step`] when computing fails.
pub fn perplexity(
    path: &Path,
    text: &str,
    options: &PerplexityOptions<'_>,
) -> Result<Perplexity, EngineError> {
    let file = File::open(path)?;
    let tokenizer = Tokenizer::from_metadata(file.metadata())?;
    let ids = tokenizer.encode_prompt(&[Segment::text(text)]);
    let window = options.window_tokens;
    let filled = ids.len() / window.max(1);
    if filled == 0 {
        let allowed = format!("at most {}, the tokens of the text; give a longer text", ids.len());
        return Err(EngineError::Option { name: "window_tokens", given: window, allowed });
    }
    let windows = options.windows.unwrap_or(filled).min(filled);
    if windows == 0 {
        return Err(EngineError::Option { name: "windows", given: 0, allowed: "at least 1".into() });
    }
    let mut teacher = Teacher::load(&file, options.isa, options.threads, window)?;
    let bos = tokenizer.bos().filter(|_| tokenizer.adds_bos());
    let (mut losses, mut squares, mut scored, mut done) = (0.0, 0.0, 0_usize, 0);
    for (index, ids) in ids.chunks_exact(window).take(windows).enumerate() {
        let mut window = ids.to_vec();
        if let (Some(bos), Some(first)) = (bos, window.first_mut()) {
            *first = bos;
        }
        let half = window.len() / 2;
        teacher.logits(&window, half, &mut |position, logits| {
            if let Some(&next) = ids.get(position + 1) {
                let loss = -log_probability(logits, next);
                losses += loss;
                squares += loss * loss;
                scored += 1;
            }
        })?;
        done = index + 1;
        if !(options.progress)(done, windows) {
            break;
        }
    }
    let count = scored as f64;
    let mean_loss = losses / count;
    let variance = (squares / count - mean_loss * mean_loss).max(0.0);
    let loss_error = (variance / (count - 1.0).max(1.0)).sqrt();
    Ok(Perplexity { windows: done, scored_tokens: scored, mean_loss, loss_error })
}

/// ln p(`id`) under the logits of one position, `[vocabulary]`. Sums in double precision; O(vocabulary).
pub fn log_probability(logits: &[f32], id: u32) -> f64 {
    let Some(&logit) = logits.get(id as usize) else { return f64::NEG_INFINITY };
    f64::from(logit) - log_normaliser(logits)
}

/// ln Σ exp of the logits. Sums in double precision; O(vocabulary).
pub fn log_normaliser(logits: &[f32]) -> f64 {
    let most = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    most + logits.iter().map(|&logit| (f64::from(logit) - most).exp()).sum::<f64>().ln()
}

/// A model that reads given tokens and says after each what it expects next.
pub struct Teacher {
    backend: CpuBackend,
    arena: Arena,
    plan: Plan,
}

impl Teacher {
    /// Loads the weights for sequences of up to `window_tokens`.
    ///
    /// # Errors
    /// As [`perplexity`].
    pub fn load(
        file: &File,
        isa: Option<Isa>,
        threads: Option<usize>,
        window_tokens: usize,
    ) -> Result<Self, EngineError> {
        let isa = isa.map_or_else(Isa::select, Isa::checked)?;
        let threads = threads.unwrap_or_else(default_threads);
        if !(1..=MAX_THREADS).contains(&threads) {
            let allowed = format!("1 to {MAX_THREADS}");
            return Err(EngineError::Option { name: "threads", given: threads, allowed });
        }
        let decoder = Decoder::from_metadata(file.metadata(), file)?;
        if !(4..=decoder.context_length).contains(&window_tokens) {
            let allowed = format!("4 to {}", decoder.context_length);
            return Err(EngineError::Option { name: "window_tokens", given: window_tokens, allowed });
        }
        let pool = Pool::new(threads)?;
        let weights = Weights::load(&decoder, file, isa, &pool, &|_, _| {})?;
        file.check_unchanged()?;
        let blocks = window_tokens.div_ceil(BLOCK_TOKENS);
        let backend = CpuBackend::new(decoder, weights, isa, pool, window_tokens, blocks)?;
        let shape = backend.shape();
        let arena = Arena::new(shape.block_bytes, shape.blocks * shape.block_bytes)?;
        Ok(Self { backend, arena, plan: Plan::default() })
    }

    /// Logits in a row.
    pub fn vocabulary(&self) -> usize {
        self.backend.shape().vocabulary
    }

    /// Computes one sequence from an empty context and hands over the logits, `[vocabulary]`, that follow each
    /// position from `first` on, in order.
    ///
    /// # Errors
    /// [`EngineError::Step`]; [`EngineError::Arena`] for more tokens than the window of the load.
    pub fn logits(
        &mut self,
        ids: &[u32],
        first: usize,
        each: &mut dyn FnMut(usize, &[f32]),
    ) -> Result<(), EngineError> {
        let shape = self.backend.shape();
        let mut sequence = Sequence::new(&self.arena, ids.to_vec());
        while !sequence.pending().is_empty() {
            let stored = sequence.stored();
            let most = if stored < first { (first - stored).min(CHUNK_ROWS) } else { LOGITS_ROWS };
            let rows = sequence.pending().len().min(most);
            self.plan.clear();
            sequence.reserve(stored + rows, self.plan.copies_mut())?;
            let index = self.plan.add_sequence(sequence.table());
            for (position, &token) in (stored..).zip(&sequence.pending()[..rows]) {
                let (position, wants_logits) = (position as u32, position >= first);
                self.plan.add_row(Row {
                    token,
                    position,
                    sequence: index,
                    wants_logits,
                    compute: Compute::Exact,
                });
            }
            let logits = self
                .backend
                .step(&self.plan, &|| false)
                .map_err(|error| EngineError::Step { message: error.to_string() })?;
            for (position, logits) in (stored..).zip(logits.chunks_exact(shape.vocabulary)) {
                each(position, logits);
            }
            sequence.advance(rows);
        }
        Ok(())
    }
}
