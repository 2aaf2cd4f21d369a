//! The arithmetic of the engine on CPUs: matrix products of GGUF weights, norms, activations, RoPE,
//! attention over the KV arena, and the one thread pool that runs them.
//!
//! Every operation is specified once, in plain scalar code, in [`naive`]. A faster path for an instruction
//! set must equal it bit for bit, so a result depends on its inputs alone: never on the number of threads,
//! on how many rows share a call, or on the machine. [`NUMERICS_VERSION`] numbers the specification.

mod attention;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod dispatch;
mod draw;
mod elementwise;
mod error;
mod isa;
mod kv;
mod matmul;
mod matrix;
mod memory;
pub mod naive;
mod output;
mod pool;
mod rope;
mod scratch;
mod types;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use attention::{AttentionRow, attention};
pub use draw::{largest, weights};
pub use elementwise::{add, exp, gelu_multiply, rms_norm, rms_norm_in_place, scale, silu_multiply, softcap};
pub use error::KernelError;
pub use isa::Isa;
pub use kv::{BLOCK_TOKENS, KvLayer, KvLayout, store_kv};
pub use matmul::{Gate, Product, matmul, matmul_gated, matmul_gated_above, matmul_many};
pub use matrix::{Matrix, ReadRows};
pub use memory::KvMemory;
pub use output::for_rows;
pub use pool::{DEFAULT_SPIN_ROUNDS, MAX_THREADS, Pool};
pub use rope::{RopeLayout, RopeParameters, RopeScaling, RopeTable, rope};
pub use scratch::Scratch;
pub use types::TensorType;

/// The version of the rules in [`naive`]. Values computed under another number (a saved KV cache, for
/// example) are not reused, because they may differ in the last bits.
pub const NUMERICS_VERSION: u32 = 1;
