//! Files of exit heads. All numbers are little-endian:
//!
//! ```text
//! "ZLRSEXIT"  version u32 = 1  layers u32  vocabulary u32  width u32  shortlist u32  probes u32  report length u32
//! SHA-256 of the weights [32]  sum of the mask in use, or zeros [32]  SHA-256 of the calibration texts [32]
//! shortlist: token u32 each
//! probes, ascending: layer u32, 1 if there is a threshold u32, threshold f32, weights f32 each,
//! shift width × f32
//! report: JSON
//! BLAKE3 over everything before [32]
//! ```

use super::head::{HEAD_WEIGHTS, Head};
use super::{ExitError, ExitHeads, MAX_PROBES, Probe, SHORTLIST_LIMIT};

/// Longest file.
pub const MAX_EXIT_BYTES: usize = 2 << 20;
/// Longest report.
const MAX_REPORT_BYTES: usize = 1 << 20;
/// Most layers and tokens of a model that a file may claim.
const MAX_LAYERS: usize = 1 << 12;
const MAX_VOCABULARY: usize = 1 << 24;
const MAX_WIDTH: usize = 1 << 15;

const MAGIC: &[u8; 8] = b"ZLRSEXIT";
const VERSION: u32 = 1;
const SUM_BYTES: usize = 32;

impl ExitHeads {
    /// The file's bytes. O(bytes).
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let lengths = [self.shortlist.len(), self.probes.len(), self.report.len()];
        let numbers = [VERSION as usize, self.layers, self.vocabulary, self.width].into_iter().chain(lengths);
        out.extend(numbers.flat_map(|number| (number as u32).to_le_bytes()));
        out.extend(self.weights_sha256);
        out.extend(self.mask_sum);
        out.extend(self.calibration_sha256);
        out.extend(self.shortlist.iter().flat_map(|id| id.to_le_bytes()));
        for probe in &self.probes {
            out.extend((probe.layer as u32).to_le_bytes());
            out.extend(u32::from(probe.threshold.is_some()).to_le_bytes());
            out.extend(probe.threshold.unwrap_or(0.0).to_le_bytes());
            let weights = probe.head.weights();
            out.extend(weights.iter().chain(&probe.shift).flat_map(|value| value.to_le_bytes()));
        }
        out.extend(self.report.as_bytes());
        let sum = blake3::hash(&out);
        out.extend(sum.as_bytes());
        out
    }

    /// Reads a file's bytes. Files are untrusted: nothing is believed before it is checked. O(bytes).
    ///
    /// # Errors
    /// [`ExitError::Invalid`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ExitError> {
        if bytes.len() > MAX_EXIT_BYTES {
            let what = format!("the file has {} bytes, the limit is {MAX_EXIT_BYTES}", bytes.len());
            return Err(ExitError::invalid(what));
        }
        let Some((body, sum)) = bytes.split_at_checked(bytes.len().saturating_sub(SUM_BYTES)) else {
            return Err(ExitError::invalid("the file is too short"));
        };
        let mut cursor = Cursor { rest: body };
        if cursor.take(MAGIC.len(), "the first bytes")? != MAGIC {
            return Err(ExitError::invalid("the first bytes are not \"ZLRSEXIT\""));
        }
        let version = cursor.number("the version", u32::MAX as usize)?;
        if version != VERSION as usize {
            let what = format!("the version is {version}, this build reads {VERSION}");
            return Err(ExitError::invalid(what));
        }
        if blake3::hash(body).as_bytes() != sum {
            return Err(ExitError::invalid("the sum is wrong: the file is cut off or damaged"));
        }
        cursor.heads()
    }
}

struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn heads(&mut self) -> Result<ExitHeads, ExitError> {
        let layers = self.number("the number of layers", MAX_LAYERS)?;
        let vocabulary = self.number("the number of tokens", MAX_VOCABULARY)?;
        let width = self.number("the width", MAX_WIDTH)?;
        let shortlist = self.number("the length of the shortlist", SHORTLIST_LIMIT)?;
        let probes = self.number("the number of layers to leave before", MAX_PROBES)?;
        let report_bytes = self.number("the length of the report", MAX_REPORT_BYTES)?;
        let weights_sha256 = self.sum("the sum of the weights")?;
        let mask_sum = self.sum("the sum of the mask")?;
        let calibration_sha256 = self.sum("the sum of the calibration texts")?;
        let last_token = vocabulary.saturating_sub(1);
        let shortlist = (0..shortlist)
            .map(|_| self.number("a token of the shortlist", last_token).map(|id| id as u32))
            .collect::<Result<_, _>>()?;
        let mut read = Vec::new();
        for _ in 0..probes {
            let probe = self.probe(layers.saturating_sub(1), width)?;
            if read.last().is_some_and(|last: &Probe| last.layer >= probe.layer) {
                return Err(ExitError::invalid("the layers to leave before are not in ascending order"));
            }
            read.push(probe);
        }
        let report = std::str::from_utf8(self.take(report_bytes, "the report")?)
            .map_err(|_| ExitError::invalid("the report is not UTF-8"))?
            .to_owned();
        if !self.rest.is_empty() {
            return Err(ExitError::invalid(format!("{} bytes follow the end", self.rest.len())));
        }
        let probes = read;
        Ok(ExitHeads {
            weights_sha256,
            mask_sum,
            calibration_sha256,
            layers,
            vocabulary,
            width,
            shortlist,
            probes,
            report,
        })
    }

    fn probe(&mut self, last_layer: usize, width: usize) -> Result<Probe, ExitError> {
        let layer = self.number("a layer to leave before", last_layer)?;
        if layer == 0 {
            return Err(ExitError::invalid("no row can leave before the first layer"));
        }
        let has_threshold = self.number("the mark of a threshold", 1)? == 1;
        let [threshold] = self.floats("a threshold")?;
        if !has_threshold && threshold.to_bits() != 0 {
            return Err(ExitError::invalid("a threshold stands where there is none"));
        }
        let weights: [f32; HEAD_WEIGHTS] = self.floats("the weights of a head")?;
        let head =
            Head::from_weights(&weights).ok_or_else(|| ExitError::invalid("a head has other weights"))?;
        let shift = self
            .take(width * 4, "a shift")?
            .chunks_exact(4)
            .map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]))
            .collect::<Vec<_>>();
        if !shift.iter().all(|value| value.is_finite()) {
            return Err(ExitError::invalid("a shift has a value that is not finite"));
        }
        Ok(Probe { layer, head, shift, threshold: has_threshold.then_some(threshold) })
    }

    fn take(&mut self, bytes: usize, what: &str) -> Result<&'a [u8], ExitError> {
        let Some((taken, rest)) = self.rest.split_at_checked(bytes) else {
            return Err(ExitError::invalid(format!("the file ends inside {what}")));
        };
        self.rest = rest;
        Ok(taken)
    }

    fn four(&mut self, what: &str) -> Result<[u8; 4], ExitError> {
        let taken = self.take(4, what)?;
        Ok([taken[0], taken[1], taken[2], taken[3]])
    }

    fn number(&mut self, what: &str, limit: usize) -> Result<usize, ExitError> {
        let number = u32::from_le_bytes(self.four(what)?) as usize;
        if number > limit {
            return Err(ExitError::invalid(format!("{what} is {number}, the limit is {limit}")));
        }
        Ok(number)
    }

    fn floats<const N: usize>(&mut self, what: &str) -> Result<[f32; N], ExitError> {
        let mut values = [0.0; N];
        for value in &mut values {
            *value = f32::from_le_bytes(self.four(what)?);
            if !value.is_finite() {
                return Err(ExitError::invalid(format!("{what} has a value that is not finite")));
            }
        }
        Ok(values)
    }

    fn sum(&mut self, what: &str) -> Result<[u8; SUM_BYTES], ExitError> {
        let mut sum = [0; SUM_BYTES];
        sum.copy_from_slice(self.take(SUM_BYTES, what)?);
        Ok(sum)
    }
}
