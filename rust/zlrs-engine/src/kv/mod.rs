//! Key/value memory: blocks and the sequences that hold them.

mod arena;
mod sequence;
#[cfg(test)]
mod tests;

pub use arena::{Arena, ArenaError, ArenaStatistics, Block};
pub use sequence::{BlockCopy, Sequence};
/// Tokens in one block.
pub use zlrs_kernels::BLOCK_TOKENS;
