//! A step that begins at a layer: what lies before it was computed already.

use zlrs_kernels::Isa;

use super::CpuBackend;
#[cfg(doc)]
use crate::backend::Backend;
use crate::backend::BackendError;
use crate::plan::Plan;

/// Is shown the hidden states before a layer, `[rows][width]`.
pub type SeeHidden<'a> = &'a mut dyn FnMut(usize, &[f32]);

impl CpuBackend {
    /// The instruction set it runs on.
    pub fn isa(&self) -> Isa {
        self.machine.isa
    }

    /// As [`Backend::step`], from layer `first` on: `hidden` has what the plan's rows, in their order, had reached
    /// there. The layers before it are not computed, and their keys and values are left as they are. Bit for bit
    /// what a whole step gives whose rows reached the same. For measuring, where one layer after another changes.
    ///
    /// # Errors
    /// Those of [`Backend::step`]; [`BackendError::Plan`] if `hidden` has another length or there is no such layer.
    pub fn step_from(&mut self, plan: &Plan, first: usize, hidden: &[f32]) -> Result<&[f32], BackendError> {
        self.check(plan)?;
        let (rows, width, layers) = (plan.rows().len(), self.decoder.width, self.decoder.layers.len());
        if hidden.len() != rows * width || first >= layers {
            let given = hidden.len();
            let what = format!("layer {first} of {layers} with {given} values for {rows} rows of {width}");
            return Err(BackendError::Plan { what });
        }
        self.buffers.hidden[..hidden.len()].copy_from_slice(hidden);
        self.layers_from(plan, first, &mut |_, _| {})
    }

    /// As [`Backend::step`]; `see` is shown the hidden states of all rows before each layer.
    ///
    /// # Errors
    /// Those of [`Backend::step`].
    pub fn step_seen(&mut self, plan: &Plan, see: SeeHidden<'_>) -> Result<&[f32], BackendError> {
        self.check(plan)?;
        self.embed(plan)?;
        self.layers_from(plan, 0, see)
    }

    fn layers_from(&mut self, plan: &Plan, first: usize, see: SeeHidden<'_>) -> Result<&[f32], BackendError> {
        self.begin(plan);
        let (rows, layers) = (plan.rows().len(), self.decoder.layers.len());
        let mut live = rows;
        for layer in first..layers {
            see(layer, &self.buffers.hidden[..rows * self.decoder.width]);
            live = self.attend(plan, layer, layer + 1 == layers)?;
            self.feed(plan, live, layer)?;
        }
        let length = self.head(plan, live)?;
        Ok(&self.buffers.logits[..length])
    }
}
