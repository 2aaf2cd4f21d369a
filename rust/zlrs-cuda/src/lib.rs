//! The engine's backend on NVIDIA GPUs.
//!
//! Kernels are the sources of `cuda/`; this crate lays out weights for them, owns device memory and launches.
//! Where it launches is a [`Device`]: the driver, or the same kernels compiled for the host, which is how
//! everything here is tested without a GPU.

#![expect(unsafe_code, reason = "kernels are launched with raw addresses")]

mod accelerator;
mod backend;
mod device;
mod driver;
mod error;
mod measure;
mod nvml;
mod planes;
mod queue;
mod self_test;
mod sizes;
mod weights;

pub use accelerator::Cuda;
pub use backend::CudaBackend;
pub use device::{Address, Argument, Device, Launch};
pub use driver::{Gpu, GpuFacts, probe};
pub use error::CudaError;
pub use measure::{AttentionShape, Measured, measure};
pub use nvml::Nvml;
pub use planes::{Planes, UNIT};
pub use self_test::{self_test, self_test_model};
pub use sizes::attention_shared_bytes;
pub use weights::LoadError;
