//! Where a model is computed.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use zlrs_cuda::Cuda;
use zlrs_engine::DeviceChoice;

use crate::error::core_error;

/// A device setting with what was found of it.
pub struct DeviceSetting {
    found: Option<Cuda>,
    required: bool,
    /// Why a GPU that would have been taken is not there.
    pub note: Option<String>,
}

impl DeviceSetting {
    /// `cpu`, `auto` or `cuda`; the latter two look for a GPU. What to say otherwise.
    pub fn find(setting: &str) -> Result<Self, String> {
        let nothing = Self { found: None, required: false, note: None };
        match setting {
            "cpu" => Ok(nothing),
            "auto" => Ok(match Cuda::find() {
                Ok(cuda) => Self { found: Some(cuda), ..nothing },
                Err(error) => Self { note: Some(error.to_string()), ..nothing },
            }),
            "cuda" => match Cuda::find() {
                Ok(cuda) => Ok(Self { found: Some(cuda), required: true, note: None }),
                Err(error) => Err(format!("device is \"cuda\", but {error}; use \"auto\" or \"cpu\"")),
            },
            other => Err(format!("device is {other:?}; allowed: auto, cpu, cuda")),
        }
    }

    /// As the engine's loader takes it.
    pub fn choice(&self) -> DeviceChoice<'_> {
        match &self.found {
            None => DeviceChoice::Processor,
            Some(cuda) if self.required => DeviceChoice::Require(cuda),
            Some(cuda) => DeviceChoice::Prefer(cuda),
        }
    }
}

/// What GPU there is: `found` (`yes` or `no`), and `name`, `capability`, `memory_bytes`, or `reason`.
#[pyfunction]
pub fn gpu_info(py: Python<'_>) -> BTreeMap<&'static str, String> {
    match py.detach(Cuda::find) {
        Ok(cuda) => {
            let facts = cuda.facts();
            BTreeMap::from([
                ("found", "yes".to_owned()),
                ("name", facts.name.clone()),
                ("capability", format!("{}.{}", facts.capability.0, facts.capability.1)),
                ("memory_bytes", facts.memory_bytes.to_string()),
            ])
        }
        Err(error) => BTreeMap::from([("found", "no".to_owned()), ("reason", error.to_string())]),
    }
}

/// What one layer's attention of one row takes, fused and in three passes, and an exit head for `rows` rows: seconds,
/// and bytes that attention reads.
#[pyfunction]
pub fn gpu_measure(
    py: Python<'_>,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    depth: usize,
    rows: usize,
) -> PyResult<BTreeMap<&'static str, f64>> {
    let shape = zlrs_cuda::AttentionShape { heads, kv_heads, head_dim, depth };
    let clock = zlrs_engine::clock::SystemClock::default();
    let measured =
        py.detach(|| zlrs_cuda::Gpu::open().and_then(|gpu| zlrs_cuda::measure(gpu, &clock, shape, rows, 21)));
    let measured = measured.map_err(|error| core_error(py, "configuration_error", &error.to_string()))?;
    Ok(BTreeMap::from([
        ("fused_s", measured.fused),
        ("unfused_s", measured.unfused),
        ("exit_head_s", measured.exit_head),
        ("bytes", (4 * kv_heads * head_dim * depth) as f64),
    ]))
}

/// Runs the kernels on the GPU against their references, as every load on a GPU does; an error says which differs.
#[pyfunction]
pub fn gpu_self_test(py: Python<'_>) -> PyResult<()> {
    let tested = py.detach(|| zlrs_cuda::Gpu::open().and_then(zlrs_cuda::self_test).map(drop));
    tested.map_err(|error| core_error(py, "configuration_error", &error.to_string()))
}
