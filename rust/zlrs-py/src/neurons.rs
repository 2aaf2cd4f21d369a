//! `Neurons`: thresholds under which neurons count for nothing.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use zlrs_engine::{EngineError, Neurons, mask_sum};

use crate::error::{core_error, to_python};
use crate::mask::{PyMask, hex};

/// Thresholds of what gates let through, by layer, for one model file.
#[pyclass(frozen, name = "Neurons", module = "zlrs._core")]
pub struct PyNeurons {
    pub neurons: Neurons,
}

#[pymethods]
impl PyNeurons {
    /// From thresholds and what was measured of them, as JSON, with a mask in use or none.
    #[new]
    #[pyo3(signature = (weights_sha256, calibration_sha256, thresholds, report, mask=None))]
    fn new(
        py: Python<'_>,
        weights_sha256: [u8; 32],
        calibration_sha256: [u8; 32],
        thresholds: Vec<f32>,
        report: String,
        mask: Option<&PyMask>,
    ) -> PyResult<Self> {
        let mask_sum = mask.map(|mask| mask_sum(&mask.mask)).unwrap_or_default();
        let neurons = Neurons { weights_sha256, mask_sum, calibration_sha256, thresholds, report };
        // What is not a file is not made.
        match Neurons::from_bytes(&neurons.to_bytes()) {
            Ok(neurons) => Ok(Self { neurons }),
            Err(error) => Err(core_error(py, "invalid_request_error", &error.to_string())),
        }
    }

    /// Reads the bytes of a file.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        let neurons = Neurons::from_bytes(data).map_err(|error| to_python(py, &EngineError::from(error)))?;
        Ok(Self { neurons })
    }

    /// The bytes of the file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.neurons.to_bytes())
    }

    /// SHA-256 of the model file they were measured on.
    #[getter]
    fn weights_sha256(&self) -> String {
        hex(&self.neurons.weights_sha256)
    }

    /// Sum of the mask that was in use, in hexadecimal as an engine's `info` has it; empty without one.
    #[getter]
    fn mask_sum(&self) -> String {
        let sum = self.neurons.mask_sum;
        if sum == [0; 32] { String::new() } else { hex(&sum) }
    }

    /// SHA-256 over the texts they were measured on.
    #[getter]
    fn calibration_sha256(&self) -> String {
        hex(&self.neurons.calibration_sha256)
    }

    /// One threshold a layer; a negative one keeps every neuron.
    #[getter]
    fn thresholds(&self) -> Vec<f32> {
        self.neurons.thresholds.clone()
    }

    /// What was measured, as JSON.
    #[getter]
    fn report(&self) -> &str {
        &self.neurons.report
    }
}
