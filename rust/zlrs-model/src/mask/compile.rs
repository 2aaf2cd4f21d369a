//! From a mask to the description of the model that is left.

use super::{LayerMask, Mask};
use crate::ModelError;
use crate::decoder::{Attention, Decoder, HeadCut, names};
use crate::source::TensorSource;

/// Columns of a floating-point matrix are summed in this many lanes; cuts keep every column in its lane.
const FLOAT_LANES: usize = 8;

impl Mask {
    /// The model without the parts that the mask leaves out. `source` has the full model's weights.
    ///
    /// Blocks and whole KV groups vanish. A single query head vanishes where every group that is left loses as
    /// many; where groups differ, those with fewer heads keep some that are computed and then set to zero, for the
    /// kernels want groups of one size. Nothing is cut inside a block of the output projection's weights.
    ///
    /// # Errors
    /// [`ModelError::MaskMismatch`] for another model's shape, [`ModelError::BadMask`] when no attention is left,
    /// [`ModelError::MissingTensor`].
    pub fn compile(&self, decoder: &Decoder, source: &dyn TensorSource) -> Result<Decoder, ModelError> {
        self.apply(decoder, &|index, part, mask| {
            let name = names::layer(index, names::ATTENTION_OUTPUT);
            let info = source.info(&name).ok_or_else(|| ModelError::MissingTensor {
                name,
                why: "a mask cuts its columns".to_owned(),
            })?;
            Ok(cut(part, &mask.heads, info.tensor_type.block_len().max(FLOAT_LANES)))
        })
    }

    /// The full model with the same parts computed and thrown away: for measuring, and as the reference that
    /// [`Mask::compile`] must equal bit for bit.
    ///
    /// # Errors
    /// As [`Mask::compile`].
    pub fn ablate(&self, decoder: &Decoder) -> Result<Decoder, ModelError> {
        self.apply(decoder, &|_, part, mask| Ok(uncut(part, &mask.heads)))
    }

    fn apply(
        &self,
        decoder: &Decoder,
        cut: &dyn Fn(usize, &Attention, &LayerMask) -> Result<HeadCut, ModelError>,
    ) -> Result<Decoder, ModelError> {
        self.check(decoder)?;
        let mut left = decoder.clone();
        for (index, (mask, layer)) in self.layers.iter().zip(&mut left.layers).enumerate() {
            if mask.without_attention() {
                layer.attention = None;
                layer.attention_constant.clone_from(&mask.attention_constant);
            } else if let Some(part) = layer.attention.as_mut().filter(|_| mask.heads.contains(&true)) {
                let cut = cut(index, part, mask)?;
                (part.heads, part.kv_heads) = (cut.heads.len(), cut.kv_heads.len());
                part.cut = Some(cut);
            }
            if mask.mlp {
                layer.mlp = None;
                layer.mlp_constant.clone_from(&mask.mlp_constant);
            }
        }
        Ok(left)
    }
}

/// All heads are computed, those that are left out are set to zero.
fn uncut(part: &Attention, out: &[bool]) -> HeadCut {
    HeadCut {
        file_heads: part.heads,
        file_kv_heads: part.kv_heads,
        heads: (0..part.heads).collect(),
        kv_heads: (0..part.kv_heads).collect(),
        silent: (0..part.heads).filter(|&head| out[head]).collect(),
    }
}

fn cut(part: &Attention, out: &[bool], block_columns: usize) -> HeadCut {
    let group = part.heads / part.kv_heads;
    let kept = |kv_head: usize| (kv_head * group..(kv_head + 1) * group).filter(|&head| !out[head]);
    let kv_heads: Vec<usize> = (0..part.kv_heads).filter(|&kv_head| kept(kv_head).next().is_some()).collect();
    let size = kv_heads.iter().map(|&kv_head| kept(kv_head).count()).max().unwrap_or(group);
    let mut heads = Vec::new();
    for &kv_head in &kv_heads {
        let mut fillers = size - kept(kv_head).count();
        let start = kv_head * group;
        for (offset, &out) in out[start..start + group].iter().enumerate() {
            let filler = out && fillers > 0;
            fillers -= usize::from(filler);
            if filler || !out {
                heads.push(start + offset);
            }
        }
    }
    let computed = |column: usize| heads.binary_search(&(column / part.head_dim)).is_ok();
    let mut blocks = (0..part.query_width()).step_by(block_columns);
    let whole = part.query_width().is_multiple_of(block_columns)
        && blocks.all(|block| {
            let first = computed(block);
            (block..block + block_columns).step_by(2).all(|column| computed(column) == first)
        });
    if !whole {
        return uncut(part, out);
    }
    let silent = (0..heads.len()).filter(|&index| out[heads[index]]).collect();
    HeadCut { file_heads: part.heads, file_kv_heads: part.kv_heads, heads, kv_heads, silent }
}
