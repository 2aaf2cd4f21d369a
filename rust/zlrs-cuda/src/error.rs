//! What can go wrong on a device.

/// Why a device did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// The device's memory is full.
    #[error("out of device memory: {asked_bytes} bytes were asked for; choose a smaller model or kv_bytes")]
    OutOfMemory {
        /// Bytes of the allocation that failed.
        asked_bytes: usize,
    },
    /// No kernel of that name in the loaded module.
    #[error("no kernel {name}: the embedded module does not fit this build; reinstall the package")]
    NoKernel {
        /// Its name.
        name: &'static str,
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
