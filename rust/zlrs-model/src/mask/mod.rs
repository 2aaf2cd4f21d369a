//! Zero-layer masks: which parts of a model are left out, and what stands in for them.
//!
//! A mask names query heads, attention blocks and MLP blocks; a KV group is left out with the last of its query
//! heads, a layer with both of its blocks. [`Mask::compile`] gives the description of the smaller model, whose
//! missing parts have no weights, no keys and values and are not computed. [`Mask::ablate`] gives the description
//! of the full model with the same parts computed and thrown away: its logits are the same bits.

mod compile;
mod file;

use std::fmt::Write;

pub use file::{MAX_MASK_BYTES, MAX_REPORT_BYTES};

use crate::ModelError;
use crate::decoder::Decoder;

/// Which parts of one model file are left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Mask {
    /// SHA-256 of the model file that the mask was made for.
    pub weights_sha256: [u8; 32],
    /// SHA-256 over the texts it was measured on; zeros for a mask that was not measured.
    pub calibration_sha256: [u8; 32],
    /// Values of a hidden state.
    pub width: usize,
    /// One entry a layer, in order.
    pub layers: Vec<LayerMask>,
    /// What was measured, as JSON, at most [`MAX_REPORT_BYTES`]; kept as it is and not read here.
    pub report: String,
}

/// What one layer leaves out. `true` is left out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LayerMask {
    /// Key and value heads of the layer in the file.
    pub kv_heads: usize,
    /// The whole attention block.
    pub attention: bool,
    /// The whole MLP block.
    pub mlp: bool,
    /// The query heads of the file, one by one.
    pub heads: Vec<bool>,
    /// Added to the hidden state in place of the attention block, `width` values.
    pub attention_constant: Option<Vec<f32>>,
    /// Added to the hidden state in place of the MLP block, `width` values.
    pub mlp_constant: Option<Vec<f32>>,
}

impl LayerMask {
    /// Whether attention is left out, by itself or head by head.
    pub fn without_attention(&self) -> bool {
        self.attention || (!self.heads.is_empty() && self.heads.iter().all(|&out| out))
    }

    /// Key and value heads all of whose query heads are left out.
    pub fn silent_groups(&self) -> impl Iterator<Item = usize> + '_ {
        let group = self.heads.len().checked_div(self.kv_heads).unwrap_or(0).max(1);
        let heads = self.heads.chunks(group).enumerate();
        heads.filter(|(_, heads)| self.attention || heads.iter().all(|&out| out)).map(|(index, _)| index)
    }
}

impl Mask {
    /// A mask for a model that leaves nothing out.
    pub fn empty(decoder: &Decoder, weights_sha256: [u8; 32]) -> Self {
        let layer = |layer: &crate::decoder::Layer| {
            let (heads, kv_heads) =
                layer.attention.as_ref().map_or((0, 0), |part| (part.heads, part.kv_heads));
            LayerMask { kv_heads, heads: vec![false; heads], ..LayerMask::default() }
        };
        Self {
            weights_sha256,
            calibration_sha256: [0; 32],
            width: decoder.width,
            layers: decoder.layers.iter().map(layer).collect(),
            report: "{}".to_owned(),
        }
    }

    /// Whether nothing is left out.
    pub fn is_empty(&self) -> bool {
        self.layers.iter().all(|layer| !layer.attention && !layer.mlp && !layer.heads.contains(&true))
    }

    /// Fails unless the mask has the shape of the model and leaves it at least one attention block.
    ///
    /// # Errors
    /// [`ModelError::MaskMismatch`], [`ModelError::BadMask`].
    pub fn check(&self, decoder: &Decoder) -> Result<(), ModelError> {
        let mismatch = |what: String| Err(ModelError::MaskMismatch { what });
        if (self.layers.len(), self.width) != (decoder.layers.len(), decoder.width) {
            return mismatch(format!(
                "the mask is for {} layers of width {}, the model has {} of width {}",
                self.layers.len(),
                self.width,
                decoder.layers.len(),
                decoder.width
            ));
        }
        for (index, (mask, layer)) in self.layers.iter().zip(&decoder.layers).enumerate() {
            let (heads, kv_heads) =
                layer.attention.as_ref().map_or((0, 0), |part| (part.heads, part.kv_heads));
            if (mask.heads.len(), mask.kv_heads) != (heads, kv_heads) {
                return mismatch(format!(
                    "layer {index} has {heads} heads in {kv_heads} groups, in the mask {} in {}",
                    mask.heads.len(),
                    mask.kv_heads
                ));
            }
        }
        if self.layers.iter().all(LayerMask::without_attention) {
            return Err(ModelError::bad_mask("it leaves no attention block, and so no memory of the text"));
        }
        Ok(())
    }

    /// Fails unless the mask was made for the file with that sum.
    ///
    /// # Errors
    /// [`ModelError::MaskMismatch`].
    pub fn check_weights(&self, sha256: [u8; 32]) -> Result<(), ModelError> {
        if self.weights_sha256 == sha256 {
            return Ok(());
        }
        Err(ModelError::MaskMismatch {
            what: format!(
                "the mask was made for weights {}, the file has {}",
                hex(&self.weights_sha256),
                hex(&sha256)
            ),
        })
    }
}

fn hex(sum: &[u8]) -> String {
    sum.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
