//! Makes the samples that a head is fitted to: answers with known faults, read by the model.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use zlrs_model::tokenizer::{Segment, Tokenizer};

use super::Source;
use super::features::{FeatureReader, RowFacts};
use super::fit::Samples;
use crate::alone::Opened;
use crate::backend::Backend;
use crate::cpu::CpuBackend;
use crate::engine::sha256_of;
use crate::kv::BLOCK_TOKENS;
use crate::plan::{Plan, Row};
use crate::text::TextStream;
use crate::{Compute, EngineError};

/// Rows of a step: as many logits are held at a time.
const STEP_ROWS: usize = 32;

/// A model that reads answers to learn from.
pub struct Teacher {
    backend: CpuBackend,
    tokenizer: Tokenizer,
    states: Arc<Mutex<Vec<f32>>>,
    width: usize,
    vocabulary: usize,
    window_tokens: usize,
    model_sha256: [u8; 32],
}

impl Teacher {
    /// Loads a model for sources and answers of up to `window_tokens` together. O(file).
    ///
    /// # Errors
    /// As [`Engine::load`](crate::Engine::load).
    pub fn load(path: &Path, threads: Option<usize>, window_tokens: usize) -> Result<Self, EngineError> {
        let opened = Opened::open(path, threads, 4, window_tokens)?;
        let decoder = opened.full.clone();
        let (width, vocabulary) = (decoder.width, decoder.vocabulary);
        let weights = opened.weights(&decoder)?;
        let (file, tokenizer, mut backend) = opened.compute(decoder, weights)?;
        let states = Arc::default();
        backend.keep_states(Some(Arc::clone(&states)));
        let model_sha256 = sha256_of(&file)?;
        Ok(Self { backend, tokenizer, states, width, vocabulary, window_tokens, model_sha256 })
    }

    /// Values of the model's state.
    pub fn width(&self) -> usize {
        self.width
    }

    /// SHA-256 of the model file.
    pub fn model_sha256(&self) -> &[u8; 32] {
        &self.model_sha256
    }

    /// Reads a source and an answer, and adds a sample for each of the answer's tokens. `wrong` are the bytes of the
    /// answer that are. Returns the tokens added; 0 for a text that does not fit. O(tokens).
    ///
    /// # Errors
    /// [`EngineError::Step`].
    pub fn read(
        &mut self,
        source: &str,
        answer: &str,
        wrong: &[std::ops::Range<usize>],
        samples: &mut Samples,
    ) -> Result<usize, EngineError> {
        let mut ids = self.tokenizer.encode_prompt(&[Segment::text(source)]);
        let first = ids.len();
        let empty = self.tokenizer.encode_prompt(&[]).len();
        ids.extend(self.tokenizer.encode_prompt(&[Segment::text(answer)]).into_iter().skip(empty));
        if first == 0 || ids.len() <= first || ids.len() > self.window_tokens {
            return Ok(0);
        }
        let mut follower = Follower {
            source: Source::new(source.to_owned()),
            features: FeatureReader::default(),
            text: TextStream::new(&[]).map_err(|error| EngineError::Step { message: error.to_string() })?,
            ends: 0,
        };
        let blocks: Vec<u32> = (0..ids.len().div_ceil(BLOCK_TOKENS) as u32).collect();
        let mut pending = None;
        let mut at = 0;
        while at < ids.len() {
            let wanted = at + 1 >= first;
            let most = if wanted { STEP_ROWS } else { (first - 1 - at).min(256) };
            let rows = (ids.len() - at).min(most);
            let mut plan = Plan::default();
            let sequence = plan.add_sequence(&blocks);
            for (position, &token) in (at..).zip(&ids[at..at + rows]) {
                plan.add_row(Row {
                    token,
                    position: position as u32,
                    sequence,
                    wants_logits: wanted,
                    compute: Compute::Exact,
                });
            }
            let logits = self
                .backend
                .step(&plan, &|| false)
                .map_err(|error| EngineError::Step { message: error.to_string() })?;
            if wanted {
                let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
                let rows = logits.chunks_exact(self.vocabulary).zip(states.chunks_exact(self.width));
                for (position, (logits, state)) in (at..).zip(rows) {
                    // The state after a token comes with its own row, what was said of it with the row before.
                    if let Some((features, is_wrong)) = pending.take() {
                        samples.push(state, features, is_wrong);
                    }
                    if let Some(&next) = ids.get(position + 1) {
                        let bytes = self.tokenizer.token_bytes(next).unwrap_or(&[]);
                        pending = Some(follower.read(next, bytes, RowFacts::new(logits, next), wrong));
                    }
                }
            }
            at += rows;
        }
        Ok(ids.len() - first)
    }
}

/// Follows an answer as an engine does that writes it.
struct Follower {
    source: Source,
    features: FeatureReader,
    text: TextStream,
    /// Bytes of the answer read.
    ends: usize,
}

impl Follower {
    fn read(
        &mut self,
        token: u32,
        bytes: &[u8],
        row: RowFacts,
        wrong: &[std::ops::Range<usize>],
    ) -> ([f32; super::features::SCALARS], bool) {
        let mut text = String::new();
        self.text.push(bytes, &mut text);
        let begin = self.ends;
        self.ends += bytes.len();
        let is_wrong = wrong.iter().any(|range| range.start < self.ends && begin < range.end);
        (self.features.read(&self.source, token, &text, row), is_wrong)
    }
}
