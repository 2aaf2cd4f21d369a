//! The KV memory of the CPU: one contiguous allocation of f16 bit patterns.

use zlrs_kernels::{KernelError, KvLayout};

use crate::kv::BlockCopy;

/// `[blocks][block_len]`. Pages are touched when a block is first written, so an unused arena costs no memory.
#[derive(Debug)]
pub(super) struct KvMemory {
    pub layout: KvLayout,
    pub values: Vec<u16>,
}

impl KvMemory {
    pub fn new(layout: KvLayout, blocks: usize) -> Result<Self, KernelError> {
        let len = layout.block_len.saturating_mul(blocks);
        let mut probe: Vec<u16> = Vec::new();
        probe.try_reserve_exact(len).map_err(|_| KernelError::OutOfMemory {
            what: "the KV memory",
            bytes: len.saturating_mul(size_of::<u16>()),
        })?;
        drop(probe);
        // Zeroed by the system, page by page on first use; growing the probe would touch all of it.
        Ok(Self { layout, values: vec![0; len] })
    }

    pub fn copy(&mut self, copy: &BlockCopy) -> Result<(), KernelError> {
        let length = self.layout.block_len;
        let limit = self.values.len() / length.max(1);
        for block in [copy.from, copy.to] {
            if block as usize >= limit {
                return Err(KernelError::OutOfRange { what: "KV block", given: block as usize, limit });
            }
        }
        let from = copy.from as usize * length;
        self.values.copy_within(from..from + length, copy.to as usize * length);
        Ok(())
    }
}
