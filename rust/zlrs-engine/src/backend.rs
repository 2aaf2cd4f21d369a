//! What a device must be able to do.

use std::sync::{Arc, Mutex};

use zlrs_kernels::{KernelError, Pool};
use zlrs_model::decoder::Decoder;
use zlrs_model::source::TensorSource;

use crate::engine::LayerParts;
use crate::exit::RowTrace;
use crate::governor::Governor;
use crate::plan::Plan;

/// Why a step gave no logits.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// `interrupt` said so. The blocks of the step's rows hold nothing of use.
    #[error("the step was interrupted")]
    Interrupted,
    /// A kernel refused or failed.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The device's memory does not hold what is asked of it.
    #[error(transparent)]
    DeviceFull(Box<dyn std::error::Error + Send + Sync>),
    /// The device refused or failed.
    #[error(transparent)]
    Device(Box<dyn std::error::Error + Send + Sync>),
    /// The plan asks for something this backend cannot do, or contradicts itself.
    #[error("the plan cannot be computed: {what}")]
    Plan {
        /// What is wrong with it.
        what: String,
    },
}

/// A device that can compute a model instead of the processor.
pub trait Accelerator: Sync {
    /// What it is called.
    fn name(&self) -> String;

    /// Puts the weights of `source` and the KV memory on the device; `progress(done, total)` is told bytes of weights.
    ///
    /// # Errors
    /// [`BackendError::DeviceFull`] and [`BackendError::Device`], the latter also for what is wrong with the source.
    fn open(
        &self,
        decoder: &Decoder,
        source: &dyn TensorSource,
        context_tokens: usize,
        blocks: usize,
        progress: &dyn Fn(u64, u64),
    ) -> Result<Box<dyn Backend>, BackendError>;
}

/// Sizes of the loaded model that the engine plans with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Logits in a row.
    pub vocabulary: usize,
    /// Most positions of a sequence.
    pub context_tokens: usize,
    /// Bytes of one KV block over all layers.
    pub block_bytes: usize,
    /// Blocks in the KV memory.
    pub blocks: usize,
    /// Most rows of a plan.
    pub max_rows: usize,
}

/// What a backend has loaded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Held {
    /// Bytes of weights.
    pub weight_bytes: usize,
    /// What each layer holds, in order.
    pub parts: Vec<LayerParts>,
}

/// A device with the model's weights and the KV memory. Used by one thread.
pub trait Backend: Send {
    /// Sizes, fixed for the life of the backend.
    fn shape(&self) -> Shape;

    /// Computes the rows of `plan`: stores their keys and values, and returns the logits that follow each row
    /// that wants them, `[logits_rows][vocabulary]`, in the order of the rows.
    ///
    /// `interrupt` is asked at least once a layer, the first time when the plan's copies have been made; when it
    /// is true the step ends early. Allocates nothing once
    /// steps of that size have been computed.
    ///
    /// # Errors
    /// [`BackendError`]. After [`BackendError::Kernel`] or a panic, [`Backend::recover`] comes first.
    fn step(&mut self, plan: &Plan, interrupt: &dyn Fn() -> bool) -> Result<&[f32], BackendError>;

    /// Logits of a row computed with [`Layers::Draft`](crate::plan::Layers::Draft): those of the first so many
    /// tokens. 0 where such steps cannot be computed.
    fn draft_vocabulary(&self) -> usize {
        0
    }

    /// Whether aggressive rows may leave before the last layer. Fixed for the life of the backend.
    fn can_leave(&self) -> bool {
        false
    }

    /// Whether anything is installed that aggressive rows leave out. Fixed for the life of the backend.
    fn can_skip(&self) -> bool {
        false
    }

    /// What became of each row of the last step; nothing where nothing could be left out in it.
    fn traces(&self) -> &[RowTrace] {
        &[]
    }

    /// Appends what a block of KV memory holds to `out`: [`Shape::block_bytes`] bytes, the same on every machine.
    ///
    /// # Errors
    /// [`BackendError::Kernel`] for a block that does not exist, [`BackendError::Plan`] where state cannot be
    /// taken out.
    fn read_block(&self, block: u32, out: &mut Vec<u8>) -> Result<(), BackendError> {
        let _ = (block, out);
        Err(BackendError::Plan { what: "this backend gives no state out".to_owned() })
    }

    /// Makes a block hold what [`Backend::read_block`] gave.
    ///
    /// # Errors
    /// As [`Backend::read_block`], and [`BackendError::Kernel`] for another number of bytes.
    fn write_block(&mut self, block: u32, bytes: &[u8]) -> Result<(), BackendError> {
        let _ = (block, bytes);
        Err(BackendError::Plan { what: "this backend takes no state in".to_owned() })
    }

    /// Values of the model's last state, where [`Backend::keep_states`] can give it.
    fn state_width(&self) -> Option<usize> {
        None
    }

    /// From now on every step also leaves the model's last state, normed, of each row that wants logits in `states`,
    /// `[logits_rows][state_width]`; or no step does. Ignored where there is no [`Backend::state_width`].
    fn keep_states(&mut self, states: Option<Arc<Mutex<Vec<f32>>>>) {
        let _ = states;
    }

    /// The threads that compute steps, idle between them; `None` where there are none to share. Replaced by
    /// [`Backend::recover`].
    fn pool(&self) -> Option<Arc<Pool>> {
        None
    }

    /// Reports every step to the governor from now on, and attaches the device to it. Backends that compute in one
    /// precision only ignore it.
    fn govern(&mut self, governor: Governor) {
        let _ = governor;
    }

    /// What has been loaded, as far as the backend tells.
    fn held(&self) -> Held {
        Held::default()
    }

    /// Makes the backend usable after a step that failed or panicked: a poisoned thread pool is replaced, a device
    /// is asked whether it still answers.
    ///
    /// # Errors
    /// [`BackendError`] if it cannot be used any more.
    fn recover(&mut self) -> Result<(), BackendError>;
}
