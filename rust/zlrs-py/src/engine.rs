//! `Engine`: a loaded model.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use zlrs_engine::ring::TokenEvents;
use zlrs_engine::sampling::Sampling;
use zlrs_engine::session::State;
use zlrs_engine::{Compute, Drafting, Engine, LoadOptions, MaskUse, Message, Priority, Request};

use crate::device::DeviceSetting;
use crate::error::{core_error, detached, to_python};
use crate::exits::PyExitHeads;
use crate::generation::PyGeneration;
use crate::governor::{GovernorDecision, kv_choice};
use crate::mask::{PyMask, hex};
use crate::meter::{Parts, parts_of};
use crate::neurons::PyNeurons;
use crate::ring::PyValidation;
use crate::session::{PyPin, RestoredState, key_of, tenant_of};

/// Calls of a progress function are at least this far apart, the last one excepted.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(50);

/// A loaded model. Safe to use from several threads; not after a fork.
#[pyclass(frozen, name = "Engine", module = "zlrs._core")]
pub struct PyEngine {
    engine: Engine,
    /// Why a GPU that would have been taken was not found.
    device_note: Option<String>,
}

#[pymethods]
impl PyEngine {
    /// Reads a GGUF file and starts the engine thread. `progress` is called with bytes done and in all.
    #[staticmethod]
    #[pyo3(signature = (path, *, threads=None, context_tokens=None, kv_bytes=None, queue_limit=64, chunk_tokens=256, drafting="auto", device="cpu", kv_precision="f16", governor_policy="idle", thermal_limit_c=75, mask=None, mask_fallback=false, self_drafting="off", draft_mask=None, draft_vocabulary=32_768, exits=None, neurons=None, progress=None))]
    #[expect(clippy::too_many_arguments, reason = "the options of a load, by name only")]
    fn load(
        py: Python<'_>,
        path: PathBuf,
        threads: Option<usize>,
        context_tokens: Option<usize>,
        kv_bytes: Option<usize>,
        queue_limit: usize,
        chunk_tokens: usize,
        drafting: &str,
        device: &str,
        kv_precision: &str,
        governor_policy: &str,
        thermal_limit_c: u32,
        mask: Option<&PyMask>,
        mask_fallback: bool,
        self_drafting: &str,
        draft_mask: Option<&PyMask>,
        draft_vocabulary: usize,
        exits: Option<&PyExitHeads>,
        neurons: Option<&PyNeurons>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let mode = |name: &str, given: &str| {
            Drafting::from_name(given).ok_or_else(|| {
                let message = format!("{name} is {given:?}; allowed: off, auto, always");
                core_error(py, "configuration_error", &message)
            })
        };
        let (drafting, self_drafting) = (mode("drafting", drafting)?, mode("self_drafting", self_drafting)?);
        if self_drafting != Drafting::Off && draft_mask.is_none() {
            let message = "self_drafting needs draft_mask; make one with `zlrs drafts train`";
            return Err(core_error(py, "configuration_error", message));
        }
        let device = py
            .detach(|| DeviceSetting::find(device))
            .map_err(|message| core_error(py, "configuration_error", &message))?;
        let kv = kv_choice(kv_precision, governor_policy, thermal_limit_c)
            .map_err(|message| core_error(py, "configuration_error", &message))?;
        let reporter = progress.map(Reporter::new);
        let engine = detached(py, || {
            let progress = |done, total| {
                if let Some(reporter) = &reporter {
                    reporter.report(done, total);
                }
            };
            let options = LoadOptions {
                threads,
                context_tokens,
                kv_bytes,
                queue_limit,
                chunk_tokens,
                drafting,
                device: device.choice(),
                kv,
                mask: mask.map(|mask| &mask.mask),
                mask_fallback,
                self_drafting,
                draft_mask: draft_mask.map(|mask| &mask.mask),
                draft_vocabulary,
                exits: exits.map(|exits| &exits.heads),
                neurons: neurons.map(|neurons| &neurons.neurons),
                progress: &progress,
                ..LoadOptions::default()
            };
            Engine::load(&path, &options)
        })?;
        match reporter.and_then(Reporter::into_error) {
            Some(error) => Err(error),
            None => Ok(Self { engine, device_note: device.note }),
        }
    }

    /// `cpu` or the GPU's name, and why it is not a GPU if one would have been taken.
    fn device(&self) -> (String, Option<String>) {
        let facts = self.engine.facts();
        let note = facts.device_note.clone().or_else(|| self.device_note.clone());
        (facts.device.clone(), note)
    }

    /// What computes now, and the precision of keys and values.
    fn hardware(&self) -> (&'static str, &'static str) {
        let hardware = self.engine.hardware();
        (hardware.mode, hardware.kv_precision.name())
    }

    /// The governor's peak in bytes a second and its decisions; nothing where none is in force.
    fn governor(&self) -> Option<(f64, Vec<GovernorDecision>)> {
        let report = self.engine.governor()?;
        Some((report.peak_bytes_per_second, report.decisions.iter().map(GovernorDecision::from).collect()))
    }

    /// Facts of the loaded model. The first call sums the file.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let sha256 = detached(py, || self.engine.file_sha256().map(str::to_owned))?;
        let facts = self.engine.facts();
        let shape = self.engine.shape();
        let info = PyDict::new(py);
        info.set_item("name", &facts.name)?;
        info.set_item("architecture", &facts.architecture)?;
        info.set_item("quantization", &facts.quantization)?;
        info.set_item("file_sha256", sha256)?;
        info.set_item("file_bytes", facts.file_bytes)?;
        info.set_item("vocabulary", facts.vocabulary)?;
        info.set_item("context_tokens", facts.context_tokens)?;
        info.set_item("threads", facts.threads)?;
        info.set_item("isa", facts.isa)?;
        info.set_item("device", &facts.device)?;
        info.set_item("kv_precision", facts.kv.name())?;
        info.set_item("numerics_version", zlrs_kernels::NUMERICS_VERSION)?;
        info.set_item("layers", facts.layers)?;
        info.set_item("can_skip", self.engine.effective(Compute::Aggressive) == Compute::Aggressive)?;
        info.set_item("has_chat_template", self.engine.has_chat_template())?;
        info.set_item("kv_bytes", shape.blocks * shape.block_bytes)?;
        info.set_item("weight_bytes", facts.weight_bytes)?;
        info.set_item("token_multiply_adds", facts.token_multiply_adds)?;
        info.set_item("token_multiply_adds_full", facts.token_multiply_adds_full)?;
        info.set_item("head_multiply_adds", facts.head_multiply_adds)?;
        let heads = facts.zero_heads.iter().map(|(layer, head)| format!("{layer}.{head}"));
        info.set_item("zero_heads", heads.collect::<Vec<_>>().join(","))?;
        info.set_item("mask_sum", self.engine.mask_sum().map_or_else(String::new, |sum| hex(&sum)))?;
        info.set_item(
            "mask",
            match &facts.mask {
                MaskUse::None => "none",
                MaskUse::Used => "used",
                MaskUse::Refused(why) => why,
            },
        )?;
        Ok(info)
    }

    /// What each layer holds; without weights it is an empty placeholder.
    fn parts(&self) -> Vec<Parts> {
        self.engine.facts().parts.iter().map(parts_of).collect()
    }

    /// Tokens of a plain prompt; begins with the model's BOS where the model asks for one.
    fn encode(&self, py: Python<'_>, text: &str) -> Vec<u32> {
        py.detach(|| self.engine.encode(text))
    }

    /// The bytes that tokens stand for, control tokens by their own spelling.
    fn decode<'py>(&self, py: Python<'py>, ids: Vec<u32>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = detached(py, || self.engine.decode(&ids))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Tokens of a conversation of (role, content) pairs in the model's chat template.
    #[pyo3(signature = (messages, *, add_generation_prompt=true))]
    fn render(
        &self,
        py: Python<'_>,
        messages: Vec<(String, String)>,
        add_generation_prompt: bool,
    ) -> PyResult<Vec<u32>> {
        detached(py, || {
            let messages: Vec<Message<'_>> =
                messages.iter().map(|(role, content)| Message { role, content }).collect();
            self.engine.render(&messages, add_generation_prompt)
        })
    }

    /// Queues a generation and returns at once.
    #[pyo3(signature = (
        ids, *, max_tokens, temperature=0.0, top_p=1.0, top_k=0, min_p=0.0, repetition_penalty=1.0, seed=None,
        stop=Vec::new(), logit_bias=None, deadline_ms=None, priority="interactive", tenant=None,
        stream_mode="plain", compute="exact", require_exits=false, validation=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "the parameters of a request, by name only")]
    fn submit(
        &self,
        py: Python<'_>,
        ids: Vec<u32>,
        max_tokens: usize,
        temperature: f32,
        top_p: f32,
        top_k: u32,
        min_p: f32,
        repetition_penalty: f32,
        seed: Option<u64>,
        stop: Vec<String>,
        logit_bias: Option<HashMap<u32, f32>>,
        deadline_ms: Option<u64>,
        priority: &str,
        tenant: Option<&[u8]>,
        stream_mode: &str,
        compute: &str,
        require_exits: bool,
        validation: Option<&PyValidation>,
    ) -> PyResult<PyGeneration> {
        let refuse = |message: String| core_error(py, "invalid_request_error", &message);
        let priority = match priority {
            "interactive" => Priority::Interactive,
            "batch" => Priority::Batch,
            other => return Err(refuse(format!("priority is {other:?}; allowed: interactive, batch"))),
        };
        let token_events = TokenEvents::from_name(stream_mode).ok_or_else(|| {
            refuse(format!("stream_mode is {stream_mode:?}; allowed: plain, verified, provisional"))
        })?;
        let tenant = tenant_of(py, tenant)?;
        let request = Request {
            ids,
            max_tokens,
            sampling: Sampling {
                temperature,
                top_p,
                top_k,
                min_p,
                repetition_penalty,
                seed,
                logit_bias: logit_bias.unwrap_or_default().into_iter().collect(),
            },
            stop,
            deadline: deadline_ms.map(Duration::from_millis),
            priority,
            tenant,
            token_events,
            compute: compute_of(py, compute)?,
            require_exits,
            validation: validation.map(|validation| Arc::clone(&validation.validation)),
        };
        detached(py, || self.engine.submit(request)).map(PyGeneration::new)
    }

    /// Keeps what requests of that kind have computed of a tenant's ids.
    #[pyo3(signature = (ids, *, tenant=None, compute="exact"))]
    fn pin(&self, py: Python<'_>, ids: Vec<u32>, tenant: Option<&[u8]>, compute: &str) -> PyResult<PyPin> {
        let (tenant, compute) = (tenant_of(py, tenant)?, compute_of(py, compute)?);
        detached(py, || self.engine.pin(tenant, compute, &ids)).map(PyPin::new)
    }

    /// Writes what is computed of some ids to a file; returns the tokens in it and its bytes.
    #[pyo3(signature = (path, key, ids, *, limit_bytes, note=Vec::new(), tenant=None))]
    #[expect(clippy::too_many_arguments, reason = "what is saved, and where")]
    fn save_state(
        &self,
        py: Python<'_>,
        path: PathBuf,
        key: &[u8],
        ids: Vec<u32>,
        limit_bytes: u64,
        note: Vec<u8>,
        tenant: Option<&[u8]>,
    ) -> PyResult<(usize, u64)> {
        let (key, tenant) = (key_of(py, key)?, tenant_of(py, tenant)?);
        let state = State { tenant, ids: &ids, note: &note };
        let saved = detached(py, || self.engine.save_state(&path, &key, state, limit_bytes))?;
        Ok((saved.tokens, saved.bytes))
    }

    /// Takes a saved state back.
    #[pyo3(signature = (path, key, *, limit_bytes, tenant=None))]
    fn restore_state(
        &self,
        py: Python<'_>,
        path: PathBuf,
        key: &[u8],
        limit_bytes: u64,
        tenant: Option<&[u8]>,
    ) -> PyResult<RestoredState> {
        let (key, tenant) = (key_of(py, key)?, tenant_of(py, tenant)?);
        let restored = detached(py, || self.engine.restore_state(&path, &key, tenant, limit_bytes))?;
        RestoredState::new(py, restored)
    }

    /// Counts so far.
    fn statistics(&self, py: Python<'_>) -> PyResult<HashMap<&'static str, u64>> {
        let statistics = self.engine.statistics().map_err(|error| to_python(py, &error))?;
        Ok(HashMap::from([
            ("queued", statistics.queued),
            ("running", statistics.running),
            ("kv_blocks_used", statistics.kv_blocks_used),
            ("kv_blocks_cached", statistics.kv_blocks_cached),
            ("kv_blocks_total", statistics.kv_blocks_total),
            ("kv_blocks_peak", statistics.kv_blocks_peak),
            ("requests", statistics.requests),
            ("finished", statistics.finished),
            ("cancelled", statistics.cancelled),
            ("failed", statistics.failed),
            ("tokens_prefilled", statistics.tokens_prefilled),
            ("tokens_reused", statistics.tokens_reused),
            ("tokens_decoded", statistics.tokens_decoded),
            ("tokens_drafted", statistics.tokens_drafted),
            ("tokens_accepted", statistics.tokens_accepted),
            ("steps", statistics.steps),
            ("kv_blocks_evicted", statistics.kv_blocks_evicted),
            ("pauses", statistics.pauses),
            ("recoveries", statistics.recoveries),
            ("backend_lost", statistics.backend_lost),
        ]))
    }

    /// Ends the engine thread and frees weights and KV memory. What runs or waits fails with `engine_closed`.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.engine.close());
    }
}

fn compute_of(py: Python<'_>, name: &str) -> PyResult<Compute> {
    Compute::from_name(name).ok_or_else(|| {
        let message = format!("compute is {name:?}; allowed: exact, aggressive");
        core_error(py, "invalid_request_error", &message)
    })
}

/// Calls a Python function now and then, and remembers its first exception.
struct Reporter {
    function: Py<PyAny>,
    state: Mutex<(Option<Instant>, Option<PyErr>)>,
}

impl Reporter {
    fn new(function: Py<PyAny>) -> Self {
        Self { function, state: Mutex::new((None, None)) }
    }

    fn report(&self, done_bytes: u64, total_bytes: u64) {
        // Any worker may report. One that finds another reporting goes on reading; only the end must be told.
        let last_report = done_bytes == total_bytes;
        let state = if last_report { self.state.lock().ok() } else { self.state.try_lock().ok() };
        let Some(mut state) = state else { return };
        let due = state.0.is_none_or(|last| last.elapsed() >= PROGRESS_INTERVAL);
        if state.1.is_some() || !(due || last_report) {
            return;
        }
        state.1 = Python::attach(|py| self.function.call1(py, (done_bytes, total_bytes)).err());
        state.0 = Some(Instant::now());
    }

    fn into_error(self) -> Option<PyErr> {
        self.state.into_inner().ok().and_then(|state| state.1)
    }
}
