//! `Mask`: which parts of a model are left out.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use zlrs_engine::{EngineError, LayerMask, Mask};

use crate::error::{core_error, to_python};

/// One layer of a mask: attention, MLP, query heads, key and value heads, groups that are left out, constants for
/// attention and MLP. `True` is left out.
type Layer = (bool, bool, Vec<bool>, usize, Vec<usize>, bool, bool);

/// Which parts of one model file are left out. Methods that change something give a new mask.
#[pyclass(frozen, name = "Mask", module = "zlrs._core")]
pub struct PyMask {
    pub mask: Mask,
}

#[pymethods]
impl PyMask {
    /// Reads the bytes of a mask file.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        let mask = Mask::from_bytes(data).map_err(|error| to_python(py, &EngineError::from(error)))?;
        Ok(Self { mask })
    }

    /// The bytes of the file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.mask.to_bytes())
    }

    /// SHA-256 of the model file it was made for.
    #[getter]
    fn weights_sha256(&self) -> String {
        hex(&self.mask.weights_sha256)
    }

    /// SHA-256 over the texts it was measured on.
    #[getter]
    fn calibration_sha256(&self) -> String {
        hex(&self.mask.calibration_sha256)
    }

    /// What was measured, as JSON.
    #[getter]
    fn report(&self) -> &str {
        &self.mask.report
    }

    /// Values of a hidden state.
    #[getter]
    fn width(&self) -> usize {
        self.mask.width
    }

    /// Every layer's parts.
    fn layers(&self) -> Vec<Layer> {
        let of_layer = |layer: &LayerMask| {
            let constants = (layer.attention_constant.is_some(), layer.mlp_constant.is_some());
            let groups = layer.silent_groups().collect();
            let heads = layer.heads.clone();
            (layer.attention, layer.mlp, heads, layer.kv_heads, groups, constants.0, constants.1)
        };
        self.mask.layers.iter().map(of_layer).collect()
    }

    /// Leaves out a layer's attention block (`attention`) or MLP block (`mlp`); a constant stands in for it.
    #[pyo3(signature = (layer, part, constant=None))]
    fn without(
        &self,
        py: Python<'_>,
        layer: usize,
        part: &str,
        constant: Option<Vec<f32>>,
    ) -> PyResult<Self> {
        let mut mask = self.mask.clone();
        let entry = entry(py, &mut mask, layer)?;
        match part {
            "attention" => (entry.attention, entry.attention_constant) = (true, constant),
            "mlp" => (entry.mlp, entry.mlp_constant) = (true, constant),
            other => return Err(refuse(py, &format!("part is {other:?}; allowed: attention, mlp"))),
        }
        Ok(Self { mask })
    }

    /// Leaves out some query heads of a layer.
    fn without_heads(&self, py: Python<'_>, layer: usize, heads: Vec<usize>) -> PyResult<Self> {
        let mut mask = self.mask.clone();
        let entry = entry(py, &mut mask, layer)?;
        for head in heads {
            match entry.heads.get_mut(head) {
                Some(out) => *out = true,
                None => return Err(refuse(py, &format!("layer {layer} has no head {head}"))),
            }
        }
        Ok(Self { mask })
    }

    /// The same parts with what was measured of them.
    fn measured(&self, py: Python<'_>, report: String, calibration_sha256: &[u8]) -> PyResult<Self> {
        let mut mask = self.mask.clone();
        mask.report = report;
        mask.calibration_sha256 = sum(py, calibration_sha256)?;
        Ok(Self { mask })
    }

    /// The same parts for another file.
    fn for_weights(&self, py: Python<'_>, weights_sha256: &[u8]) -> PyResult<Self> {
        let mut mask = self.mask.clone();
        mask.weights_sha256 = sum(py, weights_sha256)?;
        Ok(Self { mask })
    }
}

fn entry<'a>(py: Python<'_>, mask: &'a mut Mask, layer: usize) -> PyResult<&'a mut LayerMask> {
    let layers = mask.layers.len();
    let found = mask.layers.get_mut(layer);
    found.ok_or_else(|| refuse(py, &format!("layer is {layer}; the mask has {layers}")))
}

fn sum(py: Python<'_>, bytes: &[u8]) -> PyResult<[u8; 32]> {
    bytes.try_into().map_err(|_| refuse(py, &format!("a sum has 32 bytes, {} were given", bytes.len())))
}

fn refuse(py: Python<'_>, message: &str) -> PyErr {
    core_error(py, "invalid_request_error", message)
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
