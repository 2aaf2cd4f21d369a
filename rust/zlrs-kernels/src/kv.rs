//! Where keys and values lie in the arena, and how a token's are written.
//!
//! The arena is one slice of f16 bit patterns, divided into blocks of equal length. A block holds 16
//! consecutive positions of one sequence for all layers. Inside a block, a layer has its keys as
//! `[kv head][dimension][position]`, so that one load covers 8 positions of a dimension, and its values as
//! `[kv head][position][dimension]`, so that one load covers 8 dimensions of a position. A layer without
//! attention takes no space.
//!
//! The rounding to f16 (to nearest, ties to even; beyond the range to infinity; subnormals kept; NaN stays NaN)
//! is part of the specification: attention reads what is stored, also for the position being computed.

use std::ops::Range;

use crate::dispatch::dispatch;
use crate::{Isa, KernelError};

/// Positions in a block.
pub const BLOCK_TOKENS: usize = 16;

/// One layer's place inside a block, offsets and lengths in f16 values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct KvLayer {
    /// Heads of keys and values; 0 in a layer without attention.
    pub kv_heads: usize,
    /// Values of one head.
    pub head_dim: usize,
    /// Start of the keys.
    pub key_offset: usize,
    /// Start of the values.
    pub value_offset: usize,
}

impl KvLayer {
    /// Length of the keys of all heads in a block, and of the values.
    const fn part_len(&self) -> usize {
        self.kv_heads * self.head_dim * BLOCK_TOKENS
    }

    /// Keys of one head in a block, `[dimension][position]`.
    pub(crate) const fn keys(&self, kv_head: usize) -> Range<usize> {
        let len = self.head_dim * BLOCK_TOKENS;
        let start = self.key_offset + kv_head * len;
        start..start + len
    }

    /// Values of one head in a block, `[position][dimension]`.
    pub(crate) const fn values(&self, kv_head: usize) -> Range<usize> {
        let len = self.head_dim * BLOCK_TOKENS;
        let start = self.value_offset + kv_head * len;
        start..start + len
    }
}

/// The arrangement of all layers inside a block.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KvLayout {
    /// Positions in a block, always [`BLOCK_TOKENS`].
    pub block_tokens: usize,
    /// One entry a layer, in order.
    pub layers: Vec<KvLayer>,
    /// Length of a block in f16 values.
    pub block_len: usize,
}

impl KvLayout {
    /// The layout for layers given as `(kv_heads, head_dim)`; a layer with either 0 has no attention and
    /// takes no space.
    ///
    /// # Errors
    /// [`KernelError::OutOfMemory`] if a block would exceed the address space.
    pub fn new(layers: &[(usize, usize)]) -> Result<Self, KernelError> {
        let mut block_len = 0_usize;
        let mut placed = Vec::with_capacity(layers.len());
        for &(kv_heads, head_dim) in layers {
            let part = kv_heads.checked_mul(head_dim).and_then(|len| len.checked_mul(BLOCK_TOKENS));
            let end = part.and_then(|len| len.checked_mul(2)).and_then(|len| block_len.checked_add(len));
            let (Some(part), Some(end)) = (part, end.filter(|&end| end <= isize::MAX as usize / 2)) else {
                return Err(KernelError::OutOfMemory {
                    what: "a block of keys and values",
                    bytes: usize::MAX,
                });
            };
            placed.push(match part {
                0 => KvLayer::default(),
                _ => KvLayer { kv_heads, head_dim, key_offset: block_len, value_offset: block_len + part },
            });
            block_len = end;
        }
        Ok(Self { block_tokens: BLOCK_TOKENS, layers: placed, block_len })
    }

    /// Bytes of one block.
    pub fn block_bytes(&self) -> usize {
        self.block_len * size_of::<u16>()
    }

    /// The layer's entry, if it has attention and lies within the block.
    pub(crate) fn attending(&self, layer: usize) -> Result<&KvLayer, KernelError> {
        let out_of_range = |what, given, limit| Err(KernelError::OutOfRange { what, given, limit });
        let Some(found) = self.layers.get(layer) else {
            return out_of_range("layer", layer, self.layers.len());
        };
        if found.kv_heads == 0 || found.head_dim == 0 {
            return out_of_range("layer (one without attention)", layer, self.layers.len());
        }
        let end = found.key_offset.max(found.value_offset).saturating_add(found.part_len());
        if end > self.block_len {
            return out_of_range("end of a layer in its block", end, self.block_len);
        }
        Ok(found)
    }

    /// The place of a block in an arena of `arena_len` values.
    pub(crate) fn block(&self, arena_len: usize, block: u32) -> Result<Range<usize>, KernelError> {
        let start = (block as usize).checked_mul(self.block_len);
        match start.and_then(|start| Some(start..start.checked_add(self.block_len)?)) {
            Some(range) if range.end <= arena_len => Ok(range),
            _ => Err(KernelError::OutOfRange {
                what: "KV block",
                given: block as usize,
                limit: arena_len / self.block_len.max(1),
            }),
        }
    }
}

/// Writes one token's keys and values of a layer, each `[kv_heads][head_dim]`, to position `slot` of a block,
/// rounded to f16. O(kv_heads · head_dim), on the calling thread.
///
/// # Errors
/// [`KernelError::OutOfRange`] for a layer that has no attention or a block or slot that does not exist,
/// [`KernelError::Length`] for keys or values of the wrong length. Nothing is written then.
#[expect(clippy::too_many_arguments, reason = "a place (four) and two slices")]
pub fn store_kv(
    isa: Isa,
    arena: &mut [u16],
    layout: &KvLayout,
    layer: usize,
    block: u32,
    slot: usize,
    key: &[f32],
    value: &[f32],
) -> Result<(), KernelError> {
    let layer = layout.attending(layer)?;
    let expected = layer.kv_heads * layer.head_dim;
    for (what, given) in [("keys of a token", key.len()), ("values of a token", value.len())] {
        if given != expected {
            return Err(KernelError::Length { what, expected, given });
        }
    }
    if slot >= BLOCK_TOKENS {
        let what = "slot of a KV block";
        return Err(KernelError::OutOfRange { what, given: slot, limit: BLOCK_TOKENS });
    }
    let range = layout.block(arena.len(), block)?;
    let block = &mut arena[range];
    let heads = key.chunks_exact(layer.head_dim).zip(value.chunks_exact(layer.head_dim));
    for (kv_head, (key, value)) in heads.enumerate() {
        store_key(isa, key, slot, &mut block[layer.keys(kv_head)]);
        let values = &mut block[layer.values(kv_head)];
        store_value(isa, value, &mut values[slot * layer.head_dim..][..layer.head_dim]);
    }
    Ok(())
}

fn store_key(isa: Isa, key: &[f32], slot: usize, keys: &mut [u16]) {
    dispatch!(isa, kv::store_key(key, slot, keys));
}

fn store_value(isa: Isa, value: &[f32], values: &mut [u16]) {
    dispatch!(isa, kv::store_value(value, values));
}
