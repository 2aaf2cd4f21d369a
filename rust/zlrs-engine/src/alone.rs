//! A model file opened to be computed without a scheduler: for measuring, and for training what goes beside it.

use std::path::Path;

use zlrs_kernels::{Isa, MAX_THREADS, Pool};
use zlrs_model::decoder::Decoder;
use zlrs_model::gguf::File;
use zlrs_model::tokenizer::Tokenizer;
use zlrs_model::weights::Weights;

use crate::EngineError;
use crate::cpu::{CpuBackend, kv_layout};
use crate::kv::BLOCK_TOKENS;

/// Threads where nobody says how many: one a processor.
pub(crate) fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS)
}

/// What is known of a file before its weights are read.
pub(crate) struct Opened {
    pub file: File,
    pub tokenizer: Tokenizer,
    /// The whole model.
    pub full: Decoder,
    isa: Isa,
    pool: Pool,
    window_tokens: usize,
}

impl Opened {
    /// Opens a file for texts of `least` to the model's window of tokens, of which `window_tokens` are wanted.
    ///
    /// # Errors
    /// As [`Engine::load`](crate::Engine::load).
    pub fn open(
        path: &Path,
        threads: Option<usize>,
        least: usize,
        window_tokens: usize,
    ) -> Result<Self, EngineError> {
        let isa = Isa::select()?;
        let pool = Pool::new(threads.unwrap_or_else(default_threads))?;
        let file = File::open(path)?;
        let tokenizer = Tokenizer::from_metadata(file.metadata())?;
        let full = Decoder::from_metadata(file.metadata(), &file)?;
        if !(least..=full.context_length).contains(&window_tokens) {
            let allowed = format!("{least} to {}, the model's window", full.context_length);
            return Err(EngineError::Option { name: "window_tokens", given: window_tokens, allowed });
        }
        Ok(Self { file, tokenizer, full, isa, pool, window_tokens })
    }

    /// Reads the weights that `decoder` describes, the whole model or what a mask leaves of it. O(file).
    ///
    /// # Errors
    /// As [`Engine::load`](crate::Engine::load).
    pub fn weights(&self, decoder: &Decoder) -> Result<Weights, EngineError> {
        let weights = Weights::load(decoder, &self.file, self.isa, &self.pool, &|_, _| {})?;
        self.file.check_unchanged()?;
        kv_layout(decoder)?;
        Ok(weights)
    }

    /// The file, its tokenizer, and a backend for one text at a time.
    ///
    /// # Errors
    /// Those of [`CpuBackend::new`].
    pub fn compute(
        self,
        decoder: Decoder,
        weights: Weights,
    ) -> Result<(File, Tokenizer, CpuBackend), EngineError> {
        let Self { file, tokenizer, isa, pool, window_tokens, .. } = self;
        let blocks = window_tokens.div_ceil(BLOCK_TOKENS);
        let backend = CpuBackend::new(decoder, weights, isa, pool, window_tokens, blocks)?;
        Ok((file, tokenizer, backend))
    }
}
