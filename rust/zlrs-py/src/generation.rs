//! `Generation`: one queued or running answer, and its events.

use std::os::fd::AsRawFd;
use std::sync::{Mutex, OnceLock, TryLockError};
use std::time::Duration;

use pyo3::prelude::*;
use zlrs_engine::ring::TokenEvent;
use zlrs_engine::{Canceller, Event, Generation};

use crate::error::{detached, to_python};

/// One queued or running answer. Dropping it cancels it.
#[pyclass(frozen, name = "Generation", module = "zlrs._core")]
pub struct PyGeneration {
    generation: Mutex<Generation>,
    canceller: Canceller,
    descriptor: i32,
    cached_tokens: OnceLock<usize>,
    /// Tokens of the prompt.
    #[pyo3(get)]
    input_tokens: usize,
}

impl PyGeneration {
    pub fn new(generation: Generation) -> Self {
        Self {
            canceller: generation.canceller(),
            descriptor: generation.event_fd().as_raw_fd(),
            cached_tokens: OnceLock::new(),
            input_tokens: generation.input_tokens(),
            generation: Mutex::new(generation),
        }
    }

    fn take(&self, py: Python<'_>, timeout: Duration) -> PyResult<Vec<Py<PyAny>>> {
        let events = detached(py, || match self.generation.try_lock() {
            Ok(mut generation) => generation.wait(timeout),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().wait(timeout),
            // Another thread is waiting and will get the events.
            Err(TryLockError::WouldBlock) => Ok(std::collections::VecDeque::new()),
        })?;
        let mut objects = Vec::with_capacity(events.len());
        for event in events {
            match event {
                Event::Started { cached_tokens, .. } => {
                    self.cached_tokens.get_or_init(|| cached_tokens);
                }
                Event::Delta { text, ids } => objects.push(Py::new(py, Delta { text, ids })?.into_any()),
                Event::Token(event) => objects.push(told(py, event)?),
                Event::Finished(finished) => {
                    objects.push(Py::new(py, Finished::new(finished))?.into_any());
                }
                // A failure comes alone, so nothing is lost here.
                Event::Failed(error) => return Err(to_python(py, &error)),
            }
        }
        Ok(objects)
    }
}

#[pymethods]
impl PyGeneration {
    /// Tokens of the prompt that need not be computed; `None` until work has begun and events were taken since.
    #[getter]
    fn cached_tokens(&self) -> Option<usize> {
        self.cached_tokens.get().copied()
    }

    /// A descriptor that is readable while events wait; only for polling.
    fn fileno(&self) -> i32 {
        self.descriptor
    }

    /// The events that wait, without blocking.
    fn drain(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        self.take(py, Duration::ZERO)
    }

    /// The events that wait; waits up to `timeout_ms` for the first, without the interpreter lock.
    fn wait(&self, py: Python<'_>, timeout_ms: u64) -> PyResult<Vec<Py<PyAny>>> {
        self.take(py, Duration::from_millis(timeout_ms))
    }

    /// Ends the answer; its last event says `cancelled`.
    fn cancel(&self) {
        self.canceller.cancel();
    }
}

/// More of the answer.
#[pyclass(frozen, module = "zlrs._core")]
pub struct Delta {
    /// Whole characters.
    #[pyo3(get)]
    text: String,
    /// Tokens since the last delta.
    #[pyo3(get)]
    ids: Vec<u32>,
}

#[pymethods]
impl Delta {
    fn __repr__(&self) -> String {
        format!("Delta(text={:?}, ids={:?})", self.text, self.ids)
    }
}

fn told(py: Python<'_>, event: TokenEvent) -> PyResult<Py<PyAny>> {
    Ok(match event {
        TokenEvent::Token { index, text, provisional } => {
            Py::new(py, Token { index, text, provisional })?.into_any()
        }
        TokenEvent::Correction { index, original, corrected } => {
            Py::new(py, Correction { index, original, corrected })?.into_any()
        }
    })
}

/// The text of one token, certain or guessed.
#[pyclass(frozen, get_all, module = "zlrs._core")]
pub struct Token {
    index: usize,
    text: String,
    provisional: bool,
}

/// The text of a token that was shown is another.
#[pyclass(frozen, get_all, module = "zlrs._core")]
pub struct Correction {
    index: usize,
    original: String,
    corrected: String,
}

/// The end of an answer that did not fail.
#[pyclass(frozen, get_all, module = "zlrs._core")]
pub struct Finished {
    reason: &'static str,
    stop_sequence: Option<String>,
    input_tokens: usize,
    cached_tokens: usize,
    output_tokens: usize,
    drafted_tokens: usize,
    accepted_tokens: usize,
    seed: u64,
    queue_ms: f64,
    prefill_ms: f64,
    decode_ms: f64,
    first_token_ms: f64,
    kv_ms: f64,
    decompress_ms: f64,
    compute_ms: f64,
    io_ms: f64,
    compute: &'static str,
    sparse_skips: usize,
    row_layer_skips: usize,
    most_layer_skips: usize,
    /// Index, by what, text, outcome of every mark.
    notes: Vec<(usize, String, String, &'static str)>,
}

impl Finished {
    fn new(finished: zlrs_engine::Finished) -> Self {
        let milliseconds = |duration: Duration| duration.as_secs_f64() * 1e3;
        Self {
            reason: finished.reason.name(),
            stop_sequence: finished.stop_sequence,
            input_tokens: finished.usage.input_tokens,
            cached_tokens: finished.usage.cached_tokens,
            output_tokens: finished.usage.output_tokens,
            drafted_tokens: finished.usage.drafted_tokens,
            accepted_tokens: finished.usage.accepted_tokens,
            seed: finished.seed,
            queue_ms: milliseconds(finished.timings.queue),
            prefill_ms: milliseconds(finished.timings.prefill),
            decode_ms: milliseconds(finished.timings.decode),
            first_token_ms: milliseconds(finished.timings.first_token),
            kv_ms: milliseconds(finished.timings.kv),
            decompress_ms: milliseconds(finished.timings.decompress),
            compute_ms: milliseconds(finished.timings.compute),
            io_ms: milliseconds(finished.timings.io),
            compute: finished.compute.name(),
            sparse_skips: finished.skipped.tokens,
            row_layer_skips: finished.skipped.row_layers,
            most_layer_skips: finished.skipped.most_layers,
            notes: finished
                .notes
                .into_iter()
                .map(|note| (note.index, note.by, note.text, note.outcome.name()))
                .collect(),
        }
    }
}

#[pymethods]
impl Finished {
    fn __repr__(&self) -> String {
        format!("Finished(reason={:?}, output_tokens={})", self.reason, self.output_tokens)
    }
}
