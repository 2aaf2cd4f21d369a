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
    /// The file's own word for its mix of storage types (`Q4_K_M`), or the type that holds most bytes.
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
    /// `cpu`, or the accelerator's name.
    pub device: String,
    /// Why an accelerator that was preferred is not used.
    pub device_note: Option<String>,
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
        let most = || bytes_by_type.into_iter().max_by_key(|&(_, bytes)| bytes).map(|(name, _)| name);
        let stated = file.metadata().optional_u32("general.file_type").ok().flatten().and_then(file_type);
        Self {
            name: decoder.name.clone().or_else(stem).unwrap_or_default(),
            architecture: decoder.architecture.name().to_owned(),
            quantization: stated.or_else(most).unwrap_or_default().to_owned(),
            file_bytes: file.bytes(),
            vocabulary: decoder.vocabulary,
            context_tokens,
            threads,
            isa: isa.name(),
            layers: decoder.layers.len(),
            device: "cpu".to_owned(),
            device_note: None,
        }
    }
}

/// Names of the values of `general.file_type` that this engine can run.
fn file_type(value: u32) -> Option<&'static str> {
    Some(match value {
        0 => "F32",
        1 => "F16",
        2 => "Q4_0",
        3 => "Q4_1",
        7 => "Q8_0",
        8 => "Q5_0",
        14 => "Q4_K_S",
        15 => "Q4_K_M",
        16 => "Q5_K_S",
        17 => "Q5_K_M",
        18 => "Q6_K",
        32 => "BF16",
        _ => return None,
    })
}
