//! Mask files. All numbers are little-endian:
//!
//! ```text
//! "ZLRSMASK"  version u32 = 1  layers u32  width u32  report length u32  constants u32
//! SHA-256 of the weights [32]  SHA-256 of the calibration texts [32]
//! per layer: query heads u16, key and value heads u16
//! bits: per layer attention block, MLP block, query heads; 1 is left out; filled up with zeros to a byte
//! constants: layer u32, part u32 (0 attention, 1 MLP), width × f32; ascending
//! report: JSON
//! SHA-256 over everything before [32]
//! ```

use sha2::{Digest, Sha256};

use super::{LayerMask, Mask};
use crate::ModelError;
use crate::decoder::{MAX_HEADS, MAX_LAYERS, MAX_WIDTH};

/// Longest mask file.
pub const MAX_MASK_BYTES: usize = 64 << 20;
/// Longest report.
pub const MAX_REPORT_BYTES: usize = 1 << 20;

const MAGIC: &[u8; 8] = b"ZLRSMASK";
const VERSION: u32 = 1;
const SUM_BYTES: usize = 32;

impl Mask {
    /// The file's bytes. O(bytes).
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let constants = self.constants();
        let numbers = [VERSION as usize, self.layers.len(), self.width, self.report.len(), constants.len()];
        out.extend(numbers.iter().flat_map(|&number| (number as u32).to_le_bytes()));
        out.extend(self.weights_sha256);
        out.extend(self.calibration_sha256);
        for layer in &self.layers {
            out.extend((layer.heads.len() as u16).to_le_bytes());
            out.extend((layer.kv_heads as u16).to_le_bytes());
        }
        let bits: Vec<bool> = self
            .layers
            .iter()
            .flat_map(|layer| [layer.attention, layer.mlp].into_iter().chain(layer.heads.iter().copied()))
            .collect();
        out.extend(bits.chunks(8).map(|bits| {
            bits.iter().enumerate().fold(0_u8, |byte, (index, &bit)| byte | u8::from(bit) << index)
        }));
        for (layer, part, values) in constants {
            out.extend((layer as u32).to_le_bytes());
            out.extend(part.to_le_bytes());
            out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        out.extend(self.report.as_bytes());
        let sum = Sha256::digest(&out);
        out.extend(sum);
        out
    }

    fn constants(&self) -> Vec<(usize, u32, &[f32])> {
        let mut all = Vec::new();
        for (index, layer) in self.layers.iter().enumerate() {
            for (part, values) in [(0, &layer.attention_constant), (1, &layer.mlp_constant)] {
                if let Some(values) = values {
                    all.push((index, part, values.as_slice()));
                }
            }
        }
        all
    }

    /// Reads a file's bytes. Files are untrusted: nothing is believed before it is checked. O(bytes).
    ///
    /// # Errors
    /// [`ModelError::BadMask`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelError> {
        if bytes.len() > MAX_MASK_BYTES {
            let what = format!("it has {} bytes, the limit is {MAX_MASK_BYTES}", bytes.len());
            return Err(ModelError::bad_mask(what));
        }
        let Some((body, sum)) = bytes.split_at_checked(bytes.len().saturating_sub(SUM_BYTES)) else {
            return Err(ModelError::bad_mask("it is too short"));
        };
        let mut cursor = Cursor { rest: body };
        if cursor.take(MAGIC.len(), "the first bytes")? != MAGIC {
            return Err(ModelError::bad_mask("its first bytes are not \"ZLRSMASK\""));
        }
        let version = cursor.number("the version", u32::MAX as usize)?;
        if version != VERSION as usize {
            return Err(ModelError::bad_mask(format!(
                "its version is {version}, this build reads {VERSION}"
            )));
        }
        if Sha256::digest(body).as_slice() != sum {
            return Err(ModelError::bad_mask("its sum is wrong: it is cut off or damaged"));
        }
        cursor.mask()
    }
}

struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn mask(&mut self) -> Result<Mask, ModelError> {
        let layers = self.number("the number of layers", MAX_LAYERS)?;
        let width = self.number("the width", MAX_WIDTH)?;
        let report_bytes = self.number("the length of the report", MAX_REPORT_BYTES)?;
        let constants = self.number("the number of constants", 2 * layers)?;
        let weights_sha256 = self.sum("the sum of the weights")?;
        let calibration_sha256 = self.sum("the sum of the calibration texts")?;
        let mut masks = Vec::new();
        for index in 0..layers {
            masks.push(self.shape(index)?);
        }
        self.bits(&mut masks)?;
        self.constants(&mut masks, constants, width)?;
        let report = std::str::from_utf8(self.take(report_bytes, "the report")?)
            .map_err(|_| ModelError::bad_mask("its report is not UTF-8"))?
            .to_owned();
        if !self.rest.is_empty() {
            return Err(ModelError::bad_mask(format!("{} bytes follow its end", self.rest.len())));
        }
        Ok(Mask { weights_sha256, calibration_sha256, width, layers: masks, report })
    }

    fn shape(&mut self, index: usize) -> Result<LayerMask, ModelError> {
        let shape = self.take(4, "the shape of a layer")?;
        let [heads, kv_heads] = [0, 2].map(|at| usize::from(u16::from_le_bytes([shape[at], shape[at + 1]])));
        let fits = heads <= MAX_HEADS && (heads == 0) == (kv_heads == 0);
        if !fits || (kv_heads > 0 && !heads.is_multiple_of(kv_heads)) {
            let what = format!("layer {index} has {heads} heads in {kv_heads} groups");
            return Err(ModelError::bad_mask(what));
        }
        Ok(LayerMask { kv_heads, heads: vec![false; heads], ..LayerMask::default() })
    }

    fn bits(&mut self, masks: &mut [LayerMask]) -> Result<(), ModelError> {
        let count: usize = masks.iter().map(|mask| 2 + mask.heads.len()).sum();
        let bytes = self.take(count.div_ceil(8), "the bits")?;
        let mut bits = bytes.iter().flat_map(|byte| (0..8).map(move |index| byte >> index & 1 == 1));
        for mask in masks {
            let parts = [&mut mask.attention, &mut mask.mlp];
            // The parts first: a zip that ends on them has not taken a bit too many.
            for (part, bit) in parts.into_iter().chain(&mut mask.heads).zip(bits.by_ref()) {
                *part = bit;
            }
        }
        if bits.any(|bit| bit) {
            return Err(ModelError::bad_mask("bits are set behind the last part"));
        }
        Ok(())
    }

    fn constants(&mut self, masks: &mut [LayerMask], count: usize, width: usize) -> Result<(), ModelError> {
        let mut last = None;
        for _ in 0..count {
            let layer = self.number("the layer of a constant", masks.len().saturating_sub(1))?;
            let part = self.number("the part of a constant", 1)?;
            if last.is_some_and(|last| last >= (layer, part)) {
                return Err(ModelError::bad_mask("its constants are not in ascending order"));
            }
            last = Some((layer, part));
            let bytes = self.take(width * 4, "a constant")?;
            let values: Vec<f32> = bytes
                .chunks_exact(4)
                .map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]))
                .collect();
            if !values.iter().all(|value| value.is_finite()) {
                return Err(ModelError::bad_mask(format!("a constant of layer {layer} is not finite")));
            }
            let mask = &mut masks[layer];
            let (left_out, place) = match part {
                0 => (mask.without_attention(), &mut mask.attention_constant),
                _ => (mask.mlp, &mut mask.mlp_constant),
            };
            if !left_out {
                let what = format!("layer {layer} has a constant for a part that it keeps");
                return Err(ModelError::bad_mask(what));
            }
            *place = Some(values);
        }
        Ok(())
    }

    fn take(&mut self, bytes: usize, what: &str) -> Result<&'a [u8], ModelError> {
        let Some((taken, rest)) = self.rest.split_at_checked(bytes) else {
            return Err(ModelError::bad_mask(format!("it ends inside {what}")));
        };
        self.rest = rest;
        Ok(taken)
    }

    fn number(&mut self, what: &str, limit: usize) -> Result<usize, ModelError> {
        let bytes = self.take(4, what)?;
        let number = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
        if number > limit {
            return Err(ModelError::bad_mask(format!("{what} is {number}, the limit is {limit}")));
        }
        Ok(number)
    }

    fn sum(&mut self, what: &str) -> Result<[u8; 32], ModelError> {
        let mut sum = [0; 32];
        sum.copy_from_slice(self.take(32, what)?);
        Ok(sum)
    }
}
