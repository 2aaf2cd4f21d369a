//! The KV memory of the CPU: one contiguous allocation of f16 bit patterns.

use std::ops::Range;

use zlrs_kernels::{KernelError, KvLayout};

use crate::kv::BlockCopy;

/// `[blocks][block_len]`. Pages are touched when a block is first written, so an unused arena costs no memory.
#[derive(Debug)]
pub(super) struct KvMemory {
    pub layout: KvLayout,
    pub values: zlrs_kernels::KvMemory,
}

impl KvMemory {
    pub fn new(layout: KvLayout, blocks: usize) -> Result<Self, KernelError> {
        let values = zlrs_kernels::KvMemory::zeroed(layout.block_len.saturating_mul(blocks))?;
        Ok(Self { layout, values })
    }

    pub fn copy(&mut self, copy: &BlockCopy) -> Result<(), KernelError> {
        let (from, to) = (self.block(copy.from)?, self.block(copy.to)?);
        self.values.copy_within(from, to.start);
        Ok(())
    }

    /// Appends a block's values, each as two bytes, the lower first.
    pub fn read(&self, block: u32, out: &mut Vec<u8>) -> Result<(), KernelError> {
        let range = self.block(block)?;
        out.extend(self.values[range].iter().flat_map(|value| value.to_le_bytes()));
        Ok(())
    }

    /// The reverse of [`KvMemory::read`].
    pub fn write(&mut self, block: u32, bytes: &[u8]) -> Result<(), KernelError> {
        let range = self.block(block)?;
        let expected = self.layout.block_bytes();
        if bytes.len() != expected {
            return Err(KernelError::Length { what: "bytes of a KV block", expected, given: bytes.len() });
        }
        let values = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        for (to, value) in self.values[range].iter_mut().zip(values) {
            *to = value;
        }
        Ok(())
    }

    fn block(&self, block: u32) -> Result<Range<usize>, KernelError> {
        let length = self.layout.block_len;
        let limit = self.values.len() / length.max(1);
        if block as usize >= limit {
            return Err(KernelError::OutOfRange { what: "KV block", given: block as usize, limit });
        }
        let start = block as usize * length;
        Ok(start..start + length)
    }
}
