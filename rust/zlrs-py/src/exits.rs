//! `ExitHeads` and `ExitTrainer`: where rows may leave before the last layer, and how that is learnt.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use zlrs_engine::exit::train::{Domain, DomainResult, Fit, Level, TrainOptions, Trainer};
use zlrs_engine::{EngineError, ExitHeads};

use crate::error::{core_error, detached, to_python};
use crate::mask::{PyMask, hex};

/// Layer, rows, share of first choices that were final already, area under the curve.
type FitRow = (usize, usize, f64, f64);
/// Name, rows, differing first choices, upper bound of their share, rows that left, layers left out.
type DomainRow = (String, usize, usize, f64, usize, usize);
/// Rate, thresholds by probe, what was seen by domain, whether every domain kept the bound.
type LevelRow = (f64, Vec<Option<f32>>, Vec<DomainRow>, bool);
/// Heads, fits, levels, index of the level in use.
type Result4 = (PyExitHeads, Vec<FitRow>, Vec<LevelRow>, Option<usize>);

/// Where rows of aggressive requests may leave before the last layer of one model file.
#[pyclass(frozen, name = "ExitHeads", module = "zlrs._core")]
pub struct PyExitHeads {
    pub heads: ExitHeads,
}

#[pymethods]
impl PyExitHeads {
    /// Reads the bytes of a file.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        let heads = ExitHeads::from_bytes(data).map_err(|error| to_python(py, &EngineError::from(error)))?;
        Ok(Self { heads })
    }

    /// The bytes of the file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.heads.to_bytes())
    }

    /// SHA-256 of the model file they were trained for.
    #[getter]
    fn weights_sha256(&self) -> String {
        hex(&self.heads.weights_sha256)
    }

    /// SHA-256 over the texts they were trained and tested on.
    #[getter]
    fn calibration_sha256(&self) -> String {
        hex(&self.heads.calibration_sha256)
    }

    /// What was measured, as JSON.
    #[getter]
    fn report(&self) -> &str {
        &self.heads.report
    }

    /// Layers of the model.
    #[getter]
    fn layers(&self) -> usize {
        self.heads.layers
    }

    /// Whether any row may ever leave.
    #[getter]
    fn is_active(&self) -> bool {
        self.heads.is_active()
    }

    /// The layers that rows may leave before, and the threshold there.
    fn probes(&self) -> Vec<(usize, Option<f32>)> {
        self.heads.probes.iter().map(|probe| (probe.layer, probe.threshold)).collect()
    }

    /// The same heads with what was measured of them.
    fn measured(&self, report: String) -> Self {
        Self { heads: ExitHeads { report, ..self.heads.clone() } }
    }
}

/// A model whose exit heads are trained.
#[pyclass(frozen, name = "ExitTrainer", module = "zlrs._core")]
pub struct PyExitTrainer {
    trainer: Mutex<Trainer>,
}

#[pymethods]
impl PyExitTrainer {
    /// Reads a model for texts of up to `window_tokens` tokens each.
    #[staticmethod]
    #[pyo3(signature = (path, *, window_tokens, threads=None, mask=None))]
    fn load(
        py: Python<'_>,
        path: PathBuf,
        window_tokens: usize,
        threads: Option<usize>,
        mask: Option<&PyMask>,
    ) -> PyResult<Self> {
        let mask = mask.map(|mask| &mask.mask);
        let trainer = detached(py, || Trainer::load(&path, threads, mask, window_tokens))?;
        Ok(Self { trainer: Mutex::new(trainer) })
    }

    /// Tokens of a text.
    fn encode(&self, py: Python<'_>, text: &str) -> Vec<u32> {
        py.detach(|| self.trainer.lock().unwrap_or_else(PoisonError::into_inner).encode(text))
    }

    /// Trains heads on named texts and tests thresholds; `progress(what, done, all)` may raise to end it.
    #[pyo3(signature = (domains, calibration_sha256, *, bound=0.01, layers=Vec::new(), progress=None))]
    fn train(
        &self,
        py: Python<'_>,
        domains: Vec<(String, Vec<Vec<u32>>, f64)>,
        calibration_sha256: &[u8],
        bound: f64,
        layers: Vec<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Result4> {
        let sum: [u8; 32] = calibration_sha256.try_into().map_err(|_| {
            let message = format!("a sum has 32 bytes, {} were given", calibration_sha256.len());
            core_error(py, "invalid_request_error", &message)
        })?;
        let of = |(name, windows, skip_cap)| Domain { name, windows, skip_cap };
        let domains: Vec<Domain> = domains.into_iter().map(of).collect();
        let options = TrainOptions { bound, layers, ..TrainOptions::default() };
        let failure = Mutex::new(None);
        let result = detached(py, || {
            let mut report = |what: &'static str, done: usize, all: usize| {
                let called = Python::attach(|py| {
                    py.check_signals()?;
                    let call = |function: &Py<PyAny>| function.call1(py, (what, done, all)).map(drop);
                    progress.as_ref().map_or(Ok(()), call)
                });
                let goes_on = called.is_ok();
                *failure.lock().unwrap_or_else(PoisonError::into_inner) = called.err();
                goes_on
            };
            let mut trainer = self.trainer.lock().unwrap_or_else(PoisonError::into_inner);
            trainer.train(&domains, &options, sum, &mut report)
        });
        if let Some(error) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        let trained = result?;
        let fits = trained.fits.iter().map(fit_of).collect();
        let levels = trained.levels.iter().map(level_of).collect();
        Ok((PyExitHeads { heads: trained.heads }, fits, levels, trained.chosen))
    }
}

fn fit_of(fit: &Fit) -> FitRow {
    (fit.layer, fit.rows, fit.agreement, fit.area_under_curve)
}

fn level_of(level: &Level) -> LevelRow {
    let domains = level.domains.iter().map(domain_of).collect();
    (level.rate, level.thresholds.clone(), domains, level.keeps)
}

fn domain_of(result: &DomainResult) -> DomainRow {
    let name = result.domain.clone();
    (name, result.rows, result.differing, result.upper, result.left, result.row_layers)
}
