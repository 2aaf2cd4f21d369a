//! `Tokenizer`: the tokenizer of a model file, without its weights.

use std::path::PathBuf;

use pyo3::prelude::*;
use zlrs_model::ModelError;
use zlrs_model::gguf::File;
use zlrs_model::tokenizer::Tokenizer;

use crate::error::{Catalogued, detached};

impl Catalogued for ModelError {
    fn catalogue_type(&self) -> &'static str {
        "model_invalid"
    }
}

/// The tokenizer of a model file.
#[pyclass(frozen, name = "Tokenizer", module = "zlrs._core")]
pub struct PyTokenizer {
    tokenizer: Tokenizer,
}

#[pymethods]
impl PyTokenizer {
    /// Reads the vocabulary from a GGUF file; no weights are read.
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let tokenizer = detached(py, || Tokenizer::from_metadata(File::open(&path)?.metadata()))?;
        Ok(Self { tokenizer })
    }

    /// How many tokens a text has. Linear in the text.
    fn count(&self, py: Python<'_>, text: &str) -> usize {
        py.detach(|| self.tokenizer.encode(text).len())
    }
}
