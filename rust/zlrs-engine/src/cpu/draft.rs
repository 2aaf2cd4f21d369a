//! What the model drafts with: itself without some parts, and the head's first rows.

use zlrs_kernels::Matrix;
use zlrs_model::ModelError;
use zlrs_model::decoder::Decoder;
use zlrs_model::mask::Mask;

use super::CpuBackend;
use crate::plan::Layers;

/// The weights are the full model's; only what is computed differs.
pub(super) struct Draft {
    decoder: Decoder,
    /// One row a token that can be guessed.
    pub head: Matrix,
}

/// What a plan's layers compute.
pub(super) fn described<'a>(full: &'a Decoder, draft: Option<&'a Draft>, layers: Layers) -> &'a Decoder {
    match draft {
        Some(draft) if layers == Layers::Draft => &draft.decoder,
        _ => full,
    }
}

impl CpuBackend {
    /// From now on computes [`Layers::Draft`] too: without the parts of the mask, and with the head's first
    /// `vocabulary` rows, at least one. Tokenizers number their tokens about by how common they are, so the first
    /// are most of any text. Takes no further memory for weights.
    ///
    /// # Errors
    /// Those of [`Mask::ablate`].
    pub fn draft_with(&mut self, mask: &Mask, vocabulary: usize) -> Result<(), ModelError> {
        let decoder = mask.ablate(&self.decoder)?;
        self.draft = Some(Draft { decoder, head: self.weights.head().first_rows(vocabulary.max(1)) });
        Ok(())
    }
}
