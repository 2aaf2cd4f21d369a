//! The engine's backend on NVIDIA GPUs.
//!
//! Kernels are the sources of `cuda/`; this crate lays out weights for them, owns device memory and launches.
//! Where it launches is a [`Device`]: the driver, or the same kernels compiled for the host, which is how
//! everything here is tested without a GPU.

#![expect(unsafe_code, reason = "kernels are launched with raw addresses")]

mod device;
mod error;
mod planes;

pub use device::{Address, Argument, Device, Launch};
pub use error::CudaError;
pub use planes::{Planes, UNIT};
