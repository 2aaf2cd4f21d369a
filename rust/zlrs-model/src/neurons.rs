//! Neurons of the gated MLPs that count for nothing: thresholds of what their gates let through, layer by layer.
//!
//! In a row for which work may be left out a neuron whose gate, after its activation, lets no more through than
//! its layer's threshold is taken as 0. Files are little-endian:
//!
//! ```text
//! "ZLRSNEUR"  version u32 = 2  layers u32  report length u32
//! SHA-256 of the weights [32]  sum of the mask in use, or zeros [32]  SHA-256 of the calibration texts [32]
//! thresholds: layers × f32, finite; a negative one keeps every neuron
//! report: JSON
//! SHA-256 over everything before [32]
//! ```
//!
//! Files of version 1 have no sum of a mask: they were measured without one.

use sha2::{Digest, Sha256};

use crate::ModelError;
use crate::decoder::MAX_LAYERS;
use crate::mask::MAX_REPORT_BYTES;

const MAGIC: &[u8; 8] = b"ZLRSNEUR";
const VERSION: u32 = 2;
/// The version without the sum of a mask.
const MASKLESS_VERSION: u32 = 1;
const SUM_BYTES: usize = 32;
const NUMBERS_BYTES: usize = MAGIC.len() + 3 * 4;
const HEADER_BYTES: usize = NUMBERS_BYTES + 3 * SUM_BYTES;

/// Longest file of thresholds.
pub const MAX_NEURONS_BYTES: usize = HEADER_BYTES + 4 * MAX_LAYERS + MAX_REPORT_BYTES + SUM_BYTES;

/// Thresholds for one model file.
#[derive(Debug, Clone, PartialEq)]
pub struct Neurons {
    /// SHA-256 of the model file they were measured on.
    pub weights_sha256: [u8; 32],
    /// Sum of the mask that was in use, or zeros: without those parts it is another model.
    pub mask_sum: [u8; 32],
    /// SHA-256 over the texts they were measured on.
    pub calibration_sha256: [u8; 32],
    /// One a layer, in order: magnitudes up to it count for nothing; a negative one keeps every neuron.
    pub thresholds: Vec<f32>,
    /// What was measured, as JSON, at most [`MAX_REPORT_BYTES`]; kept as it is and not read here.
    pub report: String,
}

fn bad(what: impl Into<String>) -> ModelError {
    ModelError::BadNeurons { what: what.into() }
}

impl Neurons {
    /// The file's bytes. O(bytes).
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let numbers = [VERSION as usize, self.thresholds.len(), self.report.len()];
        out.extend(numbers.iter().flat_map(|&number| (number as u32).to_le_bytes()));
        out.extend(self.weights_sha256);
        out.extend(self.mask_sum);
        out.extend(self.calibration_sha256);
        out.extend(self.thresholds.iter().flat_map(|threshold| threshold.to_le_bytes()));
        out.extend(self.report.as_bytes());
        let sum = Sha256::digest(&out);
        out.extend(sum);
        out
    }

    /// Reads a file's bytes. Files are untrusted: nothing is believed before it is checked. O(bytes).
    ///
    /// # Errors
    /// [`ModelError::BadNeurons`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelError> {
        if bytes.len() > MAX_NEURONS_BYTES {
            return Err(bad(format!("it has {} bytes, the limit is {MAX_NEURONS_BYTES}", bytes.len())));
        }
        let body = bytes.len().checked_sub(SUM_BYTES).map(|length| bytes.split_at(length));
        let Some((body, sum)) = body.filter(|(body, _)| body.len() >= NUMBERS_BYTES) else {
            return Err(bad("it is too short"));
        };
        if !body.starts_with(MAGIC) {
            return Err(bad("its first bytes are not \"ZLRSNEUR\""));
        }
        let number = |index: usize| {
            let at = MAGIC.len() + 4 * index;
            u32::from_le_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]])
        };
        let version = number(0);
        if !(MASKLESS_VERSION..=VERSION).contains(&version) {
            return Err(bad(format!("its version is {version}, this build reads {VERSION}")));
        }
        if Sha256::digest(body).as_slice() != sum {
            return Err(bad("its sum is wrong: it is cut off or damaged"));
        }
        let (layers, report_bytes) = (number(1) as usize, number(2) as usize);
        if layers > MAX_LAYERS || report_bytes > MAX_REPORT_BYTES {
            return Err(bad(format!("it tells of {layers} layers and a report of {report_bytes} bytes")));
        }
        let mut rest = &body[NUMBERS_BYTES..];
        let mut next_sum = || match rest.split_first_chunk::<SUM_BYTES>() {
            Some((sum, behind)) => {
                rest = behind;
                Ok(*sum)
            }
            None => Err(bad("it is too short")),
        };
        let weights_sha256 = next_sum()?;
        let mask_sum = if version == MASKLESS_VERSION { [0; SUM_BYTES] } else { next_sum()? };
        let calibration_sha256 = next_sum()?;
        if rest.len() != 4 * layers + report_bytes {
            return Err(bad(format!("{layers} layers and {report_bytes} bytes of report do not fill it")));
        }
        let (thresholds, report) = rest.split_at(4 * layers);
        let of = |four: &[u8]| f32::from_le_bytes([four[0], four[1], four[2], four[3]]);
        let thresholds: Vec<f32> = thresholds.chunks_exact(4).map(of).collect();
        if !thresholds.iter().all(|threshold| threshold.is_finite()) {
            return Err(bad("a threshold is not finite"));
        }
        let report = std::str::from_utf8(report).map_err(|_| bad("its report is not UTF-8"))?.to_owned();
        Ok(Self { weights_sha256, mask_sum, calibration_sha256, thresholds, report })
    }

    /// Fails unless the thresholds were measured on the file with that sum, with that mask in use or none, and so
    /// many layers.
    ///
    /// # Errors
    /// [`ModelError::MaskMismatch`] for another file, [`ModelError::BadNeurons`] for another mask.
    pub fn check(
        &self,
        sha256: [u8; 32],
        mask_sum: Option<[u8; 32]>,
        layers: usize,
    ) -> Result<(), ModelError> {
        if self.weights_sha256 != sha256 || self.thresholds.len() != layers {
            let what = "the thresholds of neurons were measured on other weights".to_owned();
            return Err(ModelError::MaskMismatch { what });
        }
        if self.mask_sum != mask_sum.unwrap_or_default() {
            return Err(bad("they were measured with another mask than the one in use"));
        }
        Ok(())
    }
}
