//! Sizes that kernels and their callers agree on.

/// Positions of a tile of attention.
const TILE: usize = 64;

/// Dynamic shared memory of a block of `attention` for up to `queries` queries of `head_dim` values: `AttentionState`
/// in `cuda/kernels/attention.cu`.
#[must_use]
pub const fn attention_shared_bytes(queries: usize, head_dim: usize) -> usize {
    queries * (3 * head_dim + TILE + 7) * 4
}
