//! `RingHead`, `Validation`, `RingTeacher`: what marks tokens of answers, and how a head for it is fitted.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use zlrs_engine::ring::fit::{FitOptions, Samples, auroc, fit, threshold};
use zlrs_engine::ring::teach::Teacher;
use zlrs_engine::ring::{Head, Rule, Validation};

use crate::error::{core_error, detached};
use crate::mask::hex;

/// A re-scoring head that was read and checked.
#[pyclass(frozen, name = "RingHead", module = "zlrs._core")]
pub struct PyRingHead {
    head: Arc<Head>,
}

#[pymethods]
impl PyRingHead {
    /// Reads a safetensors file.
    #[new]
    fn new(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        let head = py.detach(|| Head::read(data));
        let head = head.map_err(|error| core_error(py, "invalid_request_error", &error.to_string()))?;
        Ok(Self { head: Arc::new(head) })
    }

    /// Values of the model's state that it reads.
    #[getter]
    fn width(&self) -> usize {
        self.head.width()
    }

    /// Numbers in it.
    #[getter]
    fn weights(&self) -> usize {
        self.head.weights()
    }

    /// The score from which on a token is marked.
    #[getter]
    fn threshold(&self) -> f32 {
        self.head.threshold()
    }

    /// What its file says of it.
    #[getter]
    fn metadata(&self) -> HashMap<String, String> {
        self.head.metadata().iter().cloned().collect()
    }
}

/// What is looked for in answers.
#[pyclass(frozen, name = "Validation", module = "zlrs._core")]
pub struct PyValidation {
    pub validation: Arc<Validation>,
}

#[pymethods]
impl PyValidation {
    /// Rules are (name, pattern, what must follow, within so many bytes).
    #[new]
    #[pyo3(signature = (*, reach_tokens, rules=Vec::new(), numbers=false, repetition=false, head=None))]
    fn new(
        py: Python<'_>,
        reach_tokens: usize,
        rules: Vec<(String, String, String, usize)>,
        numbers: bool,
        repetition: bool,
        head: Option<&PyRingHead>,
    ) -> PyResult<Self> {
        let rules: Result<Vec<Rule>, _> = rules
            .iter()
            .map(|(name, pattern, follow, within)| Rule::new(name, pattern, follow, *within))
            .collect();
        let rules = rules.map_err(|error| core_error(py, "configuration_error", &error.to_string()))?;
        let head = head.map(|head| Arc::clone(&head.head));
        let validation = Validation { reach_tokens, rules: rules.into(), numbers, repetition, head };
        Ok(Self { validation: Arc::new(validation) })
    }

    /// The same with another reach, and another head if one is given.
    #[pyo3(signature = (*, reach_tokens, head=None))]
    fn with_head(&self, reach_tokens: usize, head: Option<&PyRingHead>) -> Self {
        let mut validation = Validation { reach_tokens, ..(*self.validation).clone() };
        if let Some(head) = head {
            validation.head = Some(Arc::clone(&head.head));
        }
        Self { validation: Arc::new(validation) }
    }

    /// Whether it looks for nothing.
    #[getter]
    fn is_empty(&self) -> bool {
        let Validation { rules, numbers, repetition, head, .. } = &*self.validation;
        rules.is_empty() && !numbers && !repetition && head.is_none()
    }
}

/// A model that reads answers with known faults, and the samples made of them.
#[pyclass(frozen, name = "RingTeacher", module = "zlrs._core")]
pub struct PyRingTeacher {
    state: Mutex<(Teacher, HashMap<String, Samples>)>,
}

impl PyRingTeacher {
    fn state(&self) -> MutexGuard<'_, (Teacher, HashMap<String, Samples>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl PyRingTeacher {
    /// Loads a model.
    #[staticmethod]
    #[pyo3(signature = (path, *, window_tokens, threads=None))]
    fn load(py: Python<'_>, path: PathBuf, window_tokens: usize, threads: Option<usize>) -> PyResult<Self> {
        let teacher = detached(py, || Teacher::load(&path, threads, window_tokens))?;
        Ok(Self { state: Mutex::new((teacher, HashMap::new())) })
    }

    /// SHA-256 of the model file, in hexadecimal digits.
    #[getter]
    fn model_sha256(&self) -> String {
        hex(self.state().0.model_sha256())
    }

    /// Reads an answer about a source and adds its tokens to a group; `wrong` are bytes of the answer.
    fn read(
        &self,
        py: Python<'_>,
        group: String,
        source: &str,
        answer: &str,
        wrong: Vec<(usize, usize)>,
    ) -> PyResult<usize> {
        detached(py, || {
            let (teacher, groups) = &mut *self.state();
            let width = teacher.width();
            let samples = groups.entry(group).or_insert_with(|| Samples::new(width));
            let wrong: Vec<_> = wrong.iter().map(|&(start, end)| start..end).collect();
            teacher.read(source, answer, &wrong, samples)
        })
    }

    /// Tokens of a group, and how many of them are wrong.
    fn count(&self, group: &str) -> (usize, usize) {
        self.state().1.get(group).map_or((0, 0), |samples| {
            (samples.len(), samples.labels().iter().filter(|&&wrong| wrong).count())
        })
    }

    /// Fits a head to a group and returns its file. The threshold is where a share of the right tokens of `held`
    /// would be marked.
    #[pyo3(signature = (group, held, *, hidden, epochs, false_alarms, int8=false, metadata=HashMap::new()))]
    #[expect(clippy::too_many_arguments, reason = "the options of a fit, by name only")]
    fn fit<'py>(
        &self,
        py: Python<'py>,
        group: &str,
        held: &str,
        hidden: usize,
        epochs: usize,
        false_alarms: f64,
        int8: bool,
        metadata: HashMap<String, String>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let result = py.detach(|| {
            let state = self.state();
            let (Some(samples), Some(held)) = (state.1.get(group), state.1.get(held)) else {
                return Ok(Vec::new());
            };
            let head = fit(samples, &FitOptions { hidden, epochs, ..FitOptions::default() });
            let limit = threshold(&held.scores(&head), held.labels(), false_alarms);
            let mut metadata = metadata;
            metadata.insert("model_sha256".to_owned(), hex(state.0.model_sha256()));
            head.write(int8, limit, metadata)
        });
        let bytes = result.map_err(|error| core_error(py, "configuration_error", &error.to_string()))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Of a group: the area under the curve of a head, of −ln p alone, and the shares of wrong and right tokens it
    /// marks; `None` without tokens of both.
    fn judge(&self, py: Python<'_>, group: &str, head: &PyRingHead) -> Option<(f64, f64, f64, f64)> {
        py.detach(|| {
            let state = self.state();
            let samples = state.1.get(group)?;
            let (scores, labels) = (samples.scores(&head.head), samples.labels());
            let surprises: Vec<f32> = samples.features().iter().map(|features| -features[0]).collect();
            let share = |wanted: bool| {
                let of = labels.iter().filter(|&&label| label == wanted).count().max(1);
                let marked = scores.iter().zip(labels);
                let marked =
                    marked.filter(|&(&score, &label)| label == wanted && score >= head.head.threshold());
                marked.count() as f64 / of as f64
            };
            Some((auroc(&scores, labels)?, auroc(&surprises, labels)?, share(true), share(false)))
        })
    }
}
