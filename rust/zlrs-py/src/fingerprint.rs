//! Fingerprints of wordings and the training of their network.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use zlrs_fingerprint::train::{Options, Sample, TrainError, generated_samples, quality, train};
use zlrs_fingerprint::{FileError, Network, Weights};

use crate::error::{Catalogued, detached};

impl Catalogued for FileError {
    fn catalogue_type(&self) -> &'static str {
        "configuration_error"
    }
}

impl Catalogued for TrainError {
    fn catalogue_type(&self) -> &'static str {
        "invalid_request_error"
    }
}

/// How near two wordings are by the shipped fingerprint, -1 to 1; `None` where one has no fingerprint.
#[pyfunction]
pub fn wording_cosine(py: Python<'_>, one: &str, other: &str) -> PyResult<Option<f64>> {
    detached(py, || {
        let network = Network::shipped()?;
        let both = network.fingerprint(one).zip(network.fingerprint(other));
        Ok::<_, FileError>(both.map(|(one, other)| one.cosine(&other)))
    })
}

/// The file of the fingerprint that ships with this build.
#[pyfunction]
pub fn shipped_fingerprint(py: Python<'_>) -> Bound<'_, PyBytes> {
    PyBytes::new(py, Network::shipped_bytes())
}

/// Trains on (text, label) pairs and the generated ones; returns the file. `report` is called with the step and the
/// mean loss every hundred steps; what it raises ends the training.
#[pyfunction]
pub fn train_fingerprint(
    py: Python<'_>,
    samples: Vec<(String, String)>,
    seed: u64,
    steps: usize,
    threads: usize,
    report: Py<PyAny>,
) -> PyResult<Bound<'_, PyBytes>> {
    let mut raised = None;
    let weights = detached(py, || {
        let mut all = samples_of(samples);
        all.extend(generated_samples());
        train(&all, Options { seed, steps, threads }, |step, loss| {
            raised =
                Python::attach(|py| report.call1(py, (step, loss)).and_then(|_| py.check_signals()).err());
            raised.is_none()
        })
    })?;
    match raised {
        Some(error) => Err(error),
        None => Ok(PyBytes::new(py, &weights.to_bytes())),
    }
}

/// Held-out texts, the share whose nearest known text asks the same, and by threshold: recall and precision.
type Figures = (usize, f64, Vec<(f64, f64, f64)>);

/// What a fingerprint file is worth on held-out texts beside known ones, (text, label) each: how many there are, the
/// share whose nearest known text asks the same, and (threshold, recall, precision) for each threshold.
#[pyfunction]
pub fn fingerprint_quality(
    py: Python<'_>,
    file: &[u8],
    known: Vec<(String, String)>,
    held_out: Vec<(String, String)>,
    thresholds: Vec<f64>,
) -> PyResult<Figures> {
    detached(py, || {
        let network = Network::new(Weights::from_bytes(file)?);
        let quality = quality(&network, &samples_of(known), &samples_of(held_out), &thresholds);
        Ok::<_, FileError>((quality.texts, quality.nearest, quality.at))
    })
}

fn samples_of(pairs: Vec<(String, String)>) -> Vec<Sample> {
    pairs.into_iter().map(|(text, label)| Sample { text, label }).collect()
}
