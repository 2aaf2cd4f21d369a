//! How errors of the crates below become Python exceptions, in one place.

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use zlrs_engine::EngineError;

pyo3::create_exception!(
    zlrs._core,
    CoreError,
    PyException,
    "An error of the native module: `type` is its name in the catalogue, `message` says what is wrong."
);

/// An error that knows its name in the catalogue.
pub trait Catalogued: std::fmt::Display {
    /// The name, as `error_catalogue()` lists it.
    fn catalogue_type(&self) -> &'static str;
}

impl Catalogued for EngineError {
    fn catalogue_type(&self) -> &'static str {
        EngineError::catalogue_type(self)
    }
}

/// The exception for an error.
pub fn to_python(py: Python<'_>, error: &impl Catalogued) -> PyErr {
    core_error(py, error.catalogue_type(), &error.to_string())
}

/// A `CoreError` with both attributes set.
pub fn core_error(py: Python<'_>, kind: &str, message: &str) -> PyErr {
    let exception = CoreError::new_err((kind.to_owned(), message.to_owned()));
    let value = exception.value(py);
    match value.setattr("type", kind).and_then(|()| value.setattr("message", message)) {
        Ok(()) => exception,
        Err(failure) => failure,
    }
}

/// Runs `work` without the interpreter lock and maps its error. Every call that may take longer than some
/// microseconds goes through here; `work` must not touch Python.
pub fn detached<T: Send, E: Catalogued + Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, E> + Send,
) -> PyResult<T> {
    py.detach(work).map_err(|error| to_python(py, &error))
}
