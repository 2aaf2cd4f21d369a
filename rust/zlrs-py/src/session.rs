//! `Pin` and `RestoredState`: computed state that is kept, and that came from a file.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use zlrs_engine::session::{Fit, Restored, StateKey};
use zlrs_engine::{Pin, Tenant};

use crate::error::core_error;

/// Keeps what has been computed of some tokens; letting go of it, or `release`, ends that.
#[pyclass(frozen, name = "Pin", module = "zlrs._core")]
pub struct PyPin {
    pin: Mutex<Option<Pin>>,
    /// Tokens it was made for.
    #[pyo3(get)]
    tokens: usize,
}

impl PyPin {
    pub fn new(pin: Pin) -> Self {
        Self { tokens: pin.tokens(), pin: Mutex::new(Some(pin)) }
    }
}

#[pymethods]
impl PyPin {
    /// Whether it still holds them: requests that fit in no other way make it let go.
    #[getter]
    fn held(&self, py: Python<'_>) -> bool {
        py.detach(|| {
            self.pin.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(Pin::is_held)
        })
    }

    /// Lets go. May be called again.
    fn release(&self, py: Python<'_>) {
        py.detach(|| drop(self.pin.lock().unwrap_or_else(PoisonError::into_inner).take()));
    }
}

/// A saved state that passed all checks.
#[pyclass(frozen, get_all, module = "zlrs._core")]
pub struct RestoredState {
    /// `weights`: taken over; `tokenizer`: to be computed again; `nothing`: only the note is of use.
    fit: &'static str,
    ids: Vec<u32>,
    note: Py<PyBytes>,
    pin: Py<PyPin>,
}

impl RestoredState {
    pub fn new(py: Python<'_>, restored: Restored) -> PyResult<Self> {
        Ok(Self {
            fit: match restored.fit {
                Fit::Weights => "weights",
                Fit::Tokenizer => "tokenizer",
                Fit::Nothing => "nothing",
            },
            ids: restored.ids,
            note: PyBytes::new(py, &restored.note).unbind(),
            pin: Py::new(py, PyPin::new(restored.pin))?,
        })
    }
}

/// A tenant of 32 bytes, or everyone.
pub fn tenant_of(py: Python<'_>, tenant: Option<&[u8]>) -> PyResult<Tenant> {
    tenant.map_or_else(|| Ok(Tenant::default()), |bytes| array_of(py, "a tenant", bytes).map(Tenant))
}

/// The secret that seals saved states.
pub fn key_of(py: Python<'_>, key: &[u8]) -> PyResult<StateKey> {
    array_of(py, "a state key", key).map(StateKey::new)
}

fn array_of(py: Python<'_>, what: &str, bytes: &[u8]) -> PyResult<[u8; 32]> {
    bytes.try_into().map_err(|_| {
        let message = format!("{what} has {} bytes; it must have 32, such as a SHA-256", bytes.len());
        core_error(py, "invalid_request_error", &message)
    })
}
