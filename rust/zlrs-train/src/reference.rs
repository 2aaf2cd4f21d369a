//! Logits of a GGUF model computed by candle's own implementation: quantised, for Gemma 3 in single precision.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use candle_core::quantized::gguf_file;
use candle_core::{Device, Tensor};
use candle_transformers::models::{gemma3 as candle_gemma3, quantized_llama, quantized_qwen2};
use thiserror::Error;

use crate::gemma3;

/// Why a reference could not be built or run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReferenceError {
    /// The file cannot be opened.
    #[error("{path} cannot be opened: {source}; check the path")]
    Open {
        /// The path given.
        path: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// candle refuses the file or fails in a step.
    #[error("candle: {0}")]
    Candle(#[from] candle_core::Error),
    /// There is no reference for this architecture.
    #[error("no candle reference for architecture {given:?}; there is one for llama, qwen2 and gemma3")]
    Architecture {
        /// What the file says.
        given: String,
    },
}

enum Model {
    Llama(Box<quantized_llama::ModelWeights>),
    Qwen2(Box<quantized_qwen2::ModelWeights>),
    Gemma3(Box<candle_gemma3::Model>),
}

/// A model held by candle, on the CPU.
pub struct Reference {
    model: Model,
    device: Device,
}

impl Reference {
    /// Reads a GGUF file of architecture llama, qwen2 or gemma3; memory is about the size of the file,
    /// for gemma3 four bytes a weight.
    ///
    /// # Errors
    /// [`ReferenceError`] when the file cannot be opened, is refused by candle, or has another architecture.
    pub fn open(path: &Path) -> Result<Self, ReferenceError> {
        let file = File::open(path)
            .map_err(|source| ReferenceError::Open { path: path.display().to_string(), source })?;
        let mut reader = BufReader::new(file);
        let content = gguf_file::Content::read(&mut reader)?;
        let device = Device::Cpu;
        let architecture = content
            .metadata
            .get("general.architecture")
            .and_then(|value| value.to_string().ok())
            .cloned()
            .unwrap_or_default();
        let model = match architecture.as_str() {
            "llama" => Model::Llama(Box::new(quantized_llama::ModelWeights::from_gguf(
                content,
                &mut reader,
                &device,
            )?)),
            "qwen2" => Model::Qwen2(Box::new(quantized_qwen2::ModelWeights::from_gguf(
                content,
                &mut reader,
                &device,
            )?)),
            "gemma3" => Model::Gemma3(Box::new(gemma3::load(&content, &mut reader, &device)?)),
            _ => return Err(ReferenceError::Architecture { given: architecture }),
        };
        Ok(Self { model, device })
    }

    /// Logits after every token of one sequence, fed one token at a time: `[ids.len()][vocabulary]`.
    ///
    /// Forgets whatever sequence came before.
    ///
    /// # Errors
    /// [`ReferenceError::Candle`] when a step fails.
    pub fn logits(&mut self, ids: &[u32]) -> Result<Vec<Vec<f32>>, ReferenceError> {
        match &mut self.model {
            Model::Llama(model) => model.clear_kv_cache(),
            Model::Qwen2(model) => model.clear_kv_cache(),
            Model::Gemma3(model) => model.clear_kv_cache(),
        }
        ids.iter()
            .enumerate()
            .map(|(position, &id)| {
                let input = Tensor::new(&[id], &self.device)?.unsqueeze(0)?;
                let output = match &mut self.model {
                    Model::Llama(model) => model.forward(&input, position)?,
                    Model::Qwen2(model) => model.forward(&input, position)?,
                    Model::Gemma3(model) => model.forward(&input, position)?,
                };
                Ok(output.flatten_all()?.to_vec1::<f32>()?)
            })
            .collect()
    }
}
