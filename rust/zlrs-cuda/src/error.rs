//! What can go wrong on a device.

/// Why a device did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// The device's memory is full.
    #[error(
        "out of device memory: {what}; choose a smaller model or kv_bytes, or end what else uses the device"
    )]
    OutOfMemory {
        /// What it was wanted for.
        what: String,
    },
    /// Neither a driver nor a GPU, or one without the other.
    #[error("{what}")]
    NoDriver {
        /// What is missing.
        what: String,
    },
    /// A GPU that is too old for the kernels.
    #[error("{name} has compute capability {}.{}, at least {}.{} is needed", capability.0, capability.1, least.0, least.1)]
    Unsupported {
        /// Its name.
        name: String,
        /// What it has, major and minor.
        capability: (i32, i32),
        /// What is needed.
        least: (i32, i32),
    },
    /// No kernel of that name in the loaded module.
    #[error("no kernel {name}: the embedded module does not fit this build; reinstall the package")]
    NoKernel {
        /// Its name.
        name: &'static str,
    },
    /// A kernel that does not compute on this device what it computes elsewhere.
    #[error(
        "{kernel} gives other bits on this device than its reference; update the driver, or use device = \"cpu\""
    )]
    SelfTest {
        /// The kernel.
        kernel: &'static str,
    },
    /// Weights that no kernel reads.
    #[error("weights cannot be laid out for the device: {what}")]
    Weights {
        /// What about them.
        what: String,
    },
    /// The driver said so.
    #[error("{call} failed: {what}")]
    Driver {
        /// What was called.
        call: &'static str,
        /// The driver's words.
        what: String,
    },
}

impl CudaError {
    /// An allocation that failed.
    #[must_use]
    pub fn bytes(asked_bytes: usize) -> Self {
        Self::OutOfMemory { what: format!("{asked_bytes} bytes were asked for") }
    }
}
