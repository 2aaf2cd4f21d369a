//! `GraphFiles`: the directory of a decision graph, looked at without opening the graph. Results are JSON texts.

use std::path::PathBuf;

use pyo3::prelude::*;
use serde_json::{Value, json};
use zlrs_graph::{ALPHA, upper_limit};
use zlrs_store::{LabelledPool, Offline, ReplayError, repeat};

use crate::error::{Catalogued, detached};

impl Catalogued for ReplayError {
    fn catalogue_type(&self) -> &'static str {
        "conflict_error"
    }
}

/// The files of a graph, open for reading.
#[pyclass(frozen, name = "GraphFiles", module = "zlrs._core")]
pub struct PyGraphFiles {
    path: PathBuf,
}

#[pymethods]
impl PyGraphFiles {
    /// Names a directory and makes sure that it holds a graph.
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        detached(py, || Offline::open(&path))?;
        Ok(Self { path })
    }

    /// The public key that entries and chains are signed with.
    fn public_key(&self, py: Python<'_>) -> PyResult<String> {
        detached(py, || Ok::<_, zlrs_store::StoreError>(Offline::open(&self.path)?.public_key()))
    }

    /// Entries whose key, node, scope or tenant begins with these hexadecimal digits: a JSON array.
    fn entries(&self, py: Python<'_>, prefix: &str, limit: usize) -> PyResult<String> {
        detached(py, || {
            Offline::open(&self.path)?.entries(prefix, limit).map(|entries| json!(entries).to_string())
        })
    }

    /// Every entry with its answer, one JSON text each.
    fn export(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        detached(py, || Offline::open(&self.path)?.export())
    }

    /// What trials have shown, by class: a JSON array.
    fn pools(&self, py: Python<'_>) -> PyResult<String> {
        detached(py, || Offline::open(&self.path)?.pools().map(|pools| pools_json(&pools)))
    }

    /// The audit records of a decision and about it: a JSON array.
    fn records(&self, py: Python<'_>, audit_id: &str) -> PyResult<String> {
        detached(py, || {
            Offline::open(&self.path)?.records(audit_id).map(|records| Value::Array(records).to_string())
        })
    }

    /// Checks every signature, hash, seal and chain: a JSON object.
    fn verify(&self, py: Python<'_>) -> PyResult<String> {
        detached(py, || Offline::open(&self.path)?.verify().map(|report| json!(report).to_string()))
    }
}

/// Makes the decision of an audit record's body (JSON) again; what was recorded, and what its inputs give now.
#[pyfunction]
pub fn repeat_decision(py: Python<'_>, body: &str) -> PyResult<(String, String)> {
    detached(py, || {
        let repeated = repeat(&serde_json::from_str(body)?)?;
        Ok::<_, ReplayError>((repeated.recorded, repeated.repeated))
    })
}

/// Pools with their bounds.
pub fn pools_json(pools: &[LabelledPool]) -> String {
    let shown: Vec<Value> = pools
        .iter()
        .map(|LabelledPool { name, label, pool }| {
            json!({
                "pool": name.to_hex(),
                "class": label,
                "bound": upper_limit(pool.trials, pool.wrong, ALPHA),
                "evidence": pool,
            })
        })
        .collect();
    Value::Array(shown).to_string()
}
