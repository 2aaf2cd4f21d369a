//! `perplexity`: how well a model predicts a text.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use zlrs_engine::perplexity::{PerplexityOptions, perplexity as measure};

use crate::error::detached;

/// Measures the perplexity of a GGUF file on a text, in windows scored in their second half. `progress` is called
/// with windows done and in all; what it raises ends the measurement.
#[pyfunction]
#[pyo3(signature = (path, text, *, threads=None, window_tokens=512, windows=None, progress=None))]
pub(crate) fn perplexity<'py>(
    py: Python<'py>,
    path: PathBuf,
    text: &str,
    threads: Option<usize>,
    window_tokens: usize,
    windows: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let failure = Mutex::new(None);
    let result = detached(py, || {
        let report = |done: usize, total: usize| {
            let called = Python::attach(|py| {
                py.check_signals()?;
                progress.as_ref().map_or(Ok(()), |function| function.call1(py, (done, total)).map(drop))
            });
            let goes_on = called.is_ok();
            *failure.lock().unwrap_or_else(PoisonError::into_inner) = called.err();
            goes_on
        };
        let options =
            PerplexityOptions { threads, window_tokens, windows, progress: &report, ..Default::default() };
        measure(&path, text, &options)
    })?;
    if let Some(error) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let measured = PyDict::new(py);
    measured.set_item("perplexity", result.value())?;
    measured.set_item("error", result.error())?;
    measured.set_item("mean_loss", result.mean_loss)?;
    measured.set_item("scored_tokens", result.scored_tokens)?;
    measured.set_item("windows", result.windows)?;
    Ok(measured)
}
