//! A GPU as the engine's accelerator.

use zlrs_engine::backend::{Accelerator, Backend, BackendError};
use zlrs_model::decoder::Decoder;
use zlrs_model::source::TensorSource;

use crate::{CudaBackend, CudaError, Gpu, GpuFacts, LoadError, probe, self_test, self_test_model};

/// The first GPU of the machine, found but not yet opened.
#[derive(Debug, Clone)]
pub struct Cuda {
    facts: GpuFacts,
}

impl Cuda {
    /// Looks for a driver and a GPU that is new enough.
    ///
    /// # Errors
    /// As [`probe`].
    pub fn find() -> Result<Self, CudaError> {
        Ok(Self { facts: probe()? })
    }

    /// What is known of the GPU.
    #[must_use]
    pub fn facts(&self) -> &GpuFacts {
        &self.facts
    }
}

impl Accelerator for Cuda {
    fn name(&self) -> String {
        self.facts.name.clone()
    }

    fn open(
        &self,
        decoder: &Decoder,
        source: &dyn TensorSource,
        context_tokens: usize,
        blocks: usize,
        progress: &dyn Fn(u64, u64),
    ) -> Result<Box<dyn Backend>, BackendError> {
        let gpu = self_test_model(self_test(Gpu::open()?)?, decoder, source)?;
        let sensor = gpu.sensor();
        let backend = CudaBackend::new(gpu, decoder.clone(), source, context_tokens, blocks, progress);
        Ok(Box::new(backend.map_err(BackendError::from)?.with_sensor(sensor)))
    }
}

impl From<CudaError> for BackendError {
    fn from(error: CudaError) -> Self {
        match error {
            CudaError::OutOfMemory { .. } => Self::DeviceFull(Box::new(error)),
            error => Self::Device(Box::new(error)),
        }
    }
}

impl From<LoadError> for BackendError {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Device(error) => error.into(),
            LoadError::Kernel(error) => error.into(),
            error @ LoadError::Model(_) => Self::Device(Box::new(error)),
        }
    }
}
