//! `Patterns`: regular expressions whose search is linear in the text, whatever they are.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use regex::{RegexSet, RegexSetBuilder};

/// Most memory of the compiled set, and of its states while it searches.
const SIZE_BYTES: usize = 8 << 20;

/// A set of patterns that are searched together.
#[pyclass(frozen, name = "Patterns", module = "zlrs._core")]
pub struct PyPatterns {
    set: RegexSet,
}

#[pymethods]
impl PyPatterns {
    /// Compiles the patterns; without back references and look-around, which no linear search has.
    #[new]
    fn new(patterns: Vec<String>) -> PyResult<Self> {
        let set = RegexSetBuilder::new(patterns)
            .size_limit(SIZE_BYTES)
            .dfa_size_limit(SIZE_BYTES)
            .build()
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self { set })
    }

    /// Which patterns are found in a text, by their place in the list. O(text) for each.
    fn matches(&self, py: Python<'_>, text: &str) -> Vec<usize> {
        py.detach(|| self.set.matches(text).into_iter().collect())
    }
}
