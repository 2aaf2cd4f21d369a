//! Everything that can go wrong in this crate, in one enum.

use crate::{Isa, TensorType};

/// Why a kernel call was refused or failed. A refused call has written nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// `ZLRS_ISA` names no instruction set this build knows.
    #[error(
        "ZLRS_ISA is {given:?}; it must be \"naive\", \"avx2\" or \"avx512\", or unset to let zlrs detect"
    )]
    UnknownIsa {
        /// The value found in the environment.
        given: String,
    },
    /// The instruction set was asked for by name and this processor lacks it.
    #[error(
        "instruction set {isa:?} is not available on this processor; use ZLRS_ISA=naive or leave it unset"
    )]
    IsaUnavailable {
        /// The set that was asked for.
        isa: Isa,
    },
    /// The number of columns does not fill whole blocks of the tensor type.
    #[error(
        "{tensor_type} rows of {cols} columns: the type stores blocks of {block_len}, so the number of columns must be a positive multiple of it"
    )]
    PartialBlock {
        /// The type of the tensor.
        tensor_type: TensorType,
        /// Columns asked for.
        cols: usize,
        /// Weights in one block of the type.
        block_len: usize,
    },
    /// Rows times bytes per row does not fit the address space.
    #[error("a {tensor_type} matrix of {rows} x {cols} is too large for this machine's address space")]
    TooLarge {
        /// The type of the tensor.
        tensor_type: TensorType,
        /// Rows asked for.
        rows: usize,
        /// Columns asked for.
        cols: usize,
    },
    /// The memory for a result or a packed matrix could not be had.
    #[error("could not allocate {bytes} bytes for {what}; free some memory or use a smaller model")]
    OutOfMemory {
        /// What the memory was for.
        what: &'static str,
        /// Its size.
        bytes: usize,
    },
    /// A slice has the wrong number of elements.
    #[error("{what} has {given} elements, expected {expected}")]
    Length {
        /// Which argument.
        what: &'static str,
        /// The number of elements the shapes ask for.
        expected: usize,
        /// The number it has.
        given: usize,
    },
    /// An index or a count lies outside its range.
    #[error("{what} is {given}, the limit is {limit}")]
    OutOfRange {
        /// Which argument.
        what: &'static str,
        /// The value given.
        given: usize,
        /// The first value that is not allowed, or the largest allowed count, as `what` says.
        limit: usize,
    },
    /// A parameter of the rotary embedding lies outside its range.
    #[error("RoPE {what} is {given}; it must be {allowed}")]
    RopeParameter {
        /// Which parameter.
        what: &'static str,
        /// The value given.
        given: f64,
        /// The range in words.
        allowed: &'static str,
    },
    /// Reading weights failed.
    #[error("reading weight rows {first_row}..{end_row} failed: {source}")]
    Read {
        /// First row of the slice that failed.
        first_row: usize,
        /// The row after its last.
        end_row: usize,
        /// What the reader reported.
        source: std::io::Error,
    },
    /// A thread of the pool could not be started.
    #[error("could not start worker thread {worker} of {threads}: {source}; use fewer threads")]
    Spawn {
        /// Index of the worker.
        worker: usize,
        /// Number of workers asked for.
        threads: usize,
        /// What the system reported.
        source: std::io::Error,
    },
    /// The thread's floating-point mode is not the processor's default.
    #[error(
        "this thread flushes subnormal numbers to zero or does not round to nearest, so results would differ from the specification; load the engine before the library that changes the mode (one built with -ffast-math, for example)"
    )]
    FloatMode,
    /// A worker panicked earlier; results of the pool can no longer be trusted.
    #[error("a worker of the thread pool panicked ({message}); the pool must be rebuilt")]
    PoolPoisoned {
        /// The panic's message.
        message: String,
    },
    /// A job tried to run another job on the pool that runs it.
    #[error(
        "a job of the thread pool may not start another job on the same pool; start it after the first has ended"
    )]
    PoolNested,
    /// The process was forked after the pool was made; the child has none of its threads.
    #[error(
        "the thread pool belongs to process {owner}, this is process {current}: load the engine after forking, or start workers by spawn"
    )]
    PoolForked {
        /// The process that made the pool.
        owner: u32,
        /// The process that called.
        current: u32,
    },
}
