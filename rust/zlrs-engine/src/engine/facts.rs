//! What is known about a loaded model.

use std::collections::BTreeMap;

use zlrs_kernels::Isa;
use zlrs_model::decoder::Decoder;
use zlrs_model::gguf::File;
use zlrs_model::source::TensorSource;

/// Facts of a loaded model, for receipts and for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The model's own name, or the file's.
    pub name: String,
    /// `llama`, `qwen2`, …
    pub architecture: String,
    /// The storage type that holds most bytes of weights: `Q4_K`, `Q8_0`, …
    pub quantization: String,
    /// Length of the file.
    pub file_bytes: u64,
    /// Logits per step.
    pub vocabulary: usize,
    /// Longest prompt and answer together.
    pub context_tokens: usize,
    /// Threads that compute.
    pub threads: usize,
    /// Instruction set in use.
    pub isa: &'static str,
    /// Layers of the model.
    pub layers: usize,
}

impl Facts {
    pub(super) fn new(
        file: &File,
        decoder: &Decoder,
        isa: Isa,
        threads: usize,
        context_tokens: usize,
    ) -> Self {
        let stem = || file.path().file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let mut bytes_by_type = BTreeMap::new();
        for tensor in file.all() {
            *bytes_by_type.entry(tensor.tensor_type.name()).or_insert(0) += tensor.bytes;
        }
        let most = bytes_by_type.into_iter().max_by_key(|&(_, bytes)| bytes).map(|(name, _)| name);
        Self {
            name: decoder.name.clone().or_else(stem).unwrap_or_default(),
            architecture: decoder.architecture.name().to_owned(),
            quantization: most.unwrap_or_default().to_owned(),
            file_bytes: file.bytes(),
            vocabulary: decoder.vocabulary,
            context_tokens,
            threads,
            isa: isa.name(),
            layers: decoder.layers.len(),
        }
    }
}
