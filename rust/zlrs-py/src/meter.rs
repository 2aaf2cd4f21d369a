//! `Meter`: what the parts of a model do, measured.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use zlrs_engine::profile::{Harm, LayerObservation, Meter, PartObservation};
use zlrs_engine::{EngineError, LayerParts};

use crate::error::detached;
use crate::mask::PyMask;

/// Of one row: divergence in nats, whether the likeliest token is another, change of the loss in nats, whether all
/// logits are the same bits.
type Row = (f64, bool, f64, bool);

/// Query heads, key and value heads, values of a head, bytes of attention weights, bytes of MLP weights.
pub type Parts = (usize, usize, usize, usize, usize);

/// A model under measurement; see `zlrs.profile`.
#[pyclass(frozen, name = "Meter", module = "zlrs._core")]
pub struct PyMeter {
    meter: Mutex<Meter>,
}

impl PyMeter {
    fn meter(&self) -> MutexGuard<'_, Meter> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl PyMeter {
    /// Reads a model for texts of up to `window_tokens` tokens each.
    #[staticmethod]
    #[pyo3(signature = (path, *, window_tokens, threads=None))]
    fn load(py: Python<'_>, path: PathBuf, window_tokens: usize, threads: Option<usize>) -> PyResult<Self> {
        let meter = detached(py, || Meter::load(&path, threads, window_tokens))?;
        Ok(Self { meter: Mutex::new(meter) })
    }

    /// Tokens of a text.
    fn encode(&self, py: Python<'_>, text: &str) -> Vec<u32> {
        py.detach(|| self.meter().encode(text))
    }

    /// A mask that leaves nothing out.
    fn empty_mask(&self, py: Python<'_>) -> PyResult<PyMask> {
        detached(py, || self.meter().empty_mask()).map(|mask| PyMask { mask })
    }

    /// Bytes of all packed weights.
    #[getter]
    fn weight_bytes(&self, py: Python<'_>) -> usize {
        py.detach(|| self.meter().weight_bytes())
    }

    /// Bytes of packed weights that are read for one decoded token: layers and head.
    #[getter]
    fn token_bytes(&self, py: Python<'_>) -> usize {
        py.detach(|| self.meter().token_bytes())
    }

    /// Logits in a row.
    #[getter]
    fn vocabulary(&self, py: Python<'_>) -> usize {
        py.detach(|| self.meter().vocabulary())
    }

    /// What each layer holds.
    fn parts(&self, py: Python<'_>) -> Vec<Parts> {
        py.detach(|| self.meter().parts().iter().map(parts_of).collect())
    }

    /// What each layer would hold with a mask, and the bytes of packed weights in all.
    fn compiled(&self, py: Python<'_>, mask: &PyMask) -> PyResult<(Vec<Parts>, usize)> {
        let (parts, bytes) = detached(py, || self.meter().compiled(&mask.mask))?;
        Ok((parts.iter().map(parts_of).collect(), bytes))
    }

    /// From now on the model without the parts of a mask stands for the full one in `reference`, `gate_thresholds`,
    /// `gate_reach` and `measure_neurons`; texts that were kept are forgotten.
    fn leave_out(&self, py: Python<'_>, mask: &PyMask) -> PyResult<()> {
        detached(py, || self.meter().leave_out(&mask.mask))
    }

    /// Computes texts with the full model and keeps its logits after every `every`-th token and after each text's last.
    fn reference(&self, py: Python<'_>, windows: Vec<Vec<u32>>, every: usize) -> PyResult<()> {
        detached(py, || self.meter().reference(windows, every))
    }

    /// Keeps what some of the texts reach before every layer without the parts of a mask; `measure` then computes
    /// only from the first layer on that differs.
    fn trace(&self, py: Python<'_>, mask: &PyMask, windows: Vec<usize>) -> PyResult<()> {
        detached(py, || self.meter().trace(&mask.mask, &windows))
    }

    /// Layers computed since the load, over all texts.
    #[getter]
    fn computed_layers(&self, py: Python<'_>) -> usize {
        py.detach(|| self.meter().computed_layers())
    }

    /// Computes some of the texts without the parts of a mask: what each kept row loses, by text.
    fn measure(&self, py: Python<'_>, mask: &PyMask, windows: Vec<usize>) -> PyResult<Vec<Vec<Row>>> {
        detached(py, || {
            let harms = self.meter().measure(&mask.mask, &windows)?;
            Ok::<_, EngineError>(harms.iter().map(|harms| harms.iter().map(row_of).collect()).collect())
        })
    }

    /// For each share, by layer, the threshold that so many of the gates of some texts do not exceed.
    fn gate_thresholds(
        &self,
        py: Python<'_>,
        windows: Vec<usize>,
        shares: Vec<f64>,
    ) -> PyResult<Vec<Vec<f32>>> {
        detached(py, || self.meter().gate_thresholds(&windows, &shares))
    }

    /// Shares of neurons under the thresholds: by themselves, with their strip of rows, with such a strip if they
    /// were sorted, with their block of 32 columns, with their block of 256.
    fn gate_reach(
        &self,
        py: Python<'_>,
        thresholds: Vec<f32>,
        windows: Vec<usize>,
    ) -> PyResult<(f64, f64, f64, f64, f64)> {
        let reach = detached(py, || self.meter().gate_reach(&thresholds, &windows))?;
        Ok((reach.neurons, reach.strips, reach.sorted_strips, reach.blocks_of_32, reach.blocks_of_256))
    }

    /// Computes some of the texts without the neurons under the thresholds: what each kept row loses, by text.
    fn measure_neurons(
        &self,
        py: Python<'_>,
        thresholds: Vec<f32>,
        windows: Vec<usize>,
    ) -> PyResult<Vec<Vec<Row>>> {
        detached(py, || {
            let harms = self.meter().measure_neurons(&thresholds, &windows)?;
            Ok::<_, EngineError>(harms.iter().map(|harms| harms.iter().map(row_of).collect()).collect())
        })
    }

    /// Computes some of the texts with the full model: what every part adds, by layer.
    fn observe<'py>(&self, py: Python<'py>, windows: Vec<usize>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let observation = detached(py, || self.meter().observe(&windows))?;
        observation.layers.iter().map(|layer| layer_of(py, layer)).collect()
    }
}

fn row_of(harm: &Harm) -> Row {
    (harm.kl, harm.differs, harm.loss_change, harm.identical)
}

pub fn parts_of(parts: &LayerParts) -> Parts {
    (parts.heads, parts.kv_heads, parts.head_dim, parts.attention_bytes, parts.mlp_bytes)
}

fn layer_of<'py>(py: Python<'py>, layer: &LayerObservation) -> PyResult<Bound<'py, PyDict>> {
    let rows = layer.attention.rows.max(1) as f64;
    let dict = PyDict::new(py);
    dict.set_item("influence", layer.influence / layer.rows.max(1) as f64)?;
    dict.set_item("head_norms", layer.head_norms.iter().map(|norm| norm / rows).collect::<Vec<_>>())?;
    dict.set_item("head_peaks", &layer.head_peaks)?;
    for (name, part) in [("attention", &layer.attention), ("mlp", &layer.mlp)] {
        dict.set_item(name, part_of(py, part)?)?;
    }
    Ok(dict)
}

fn part_of<'py>(py: Python<'py>, part: &PartObservation) -> PyResult<Bound<'py, PyDict>> {
    let rows = part.rows.max(1) as f64;
    let dict = PyDict::new(py);
    dict.set_item("rows", part.rows)?;
    dict.set_item("norm", part.norm / rows)?;
    dict.set_item("relative_norm", part.relative_norm / rows)?;
    dict.set_item("peak", part.peak)?;
    dict.set_item("mean", part.mean())?;
    Ok(dict)
}
