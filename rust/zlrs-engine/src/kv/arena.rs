//! Accounting of the KV memory: fixed blocks, counted references, a hard limit.
//!
//! The memory itself is one contiguous allocation that belongs to the backend (on another device, where there
//! is one). This side knows which blocks are in use and never hands out more than there are.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zlrs_kernels::BLOCK_TOKENS;

/// Why blocks were not handed out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArenaError {
    /// The limit does not hold one block.
    #[error(
        "{limit_bytes} bytes of KV memory hold no block: one block of {BLOCK_TOKENS} tokens takes {block_bytes} bytes; raise kv_bytes"
    )]
    TooSmall {
        /// The limit given.
        limit_bytes: usize,
        /// Bytes of one block over all layers.
        block_bytes: usize,
    },
    /// All blocks are in use.
    #[error("KV memory is full: {wanted} blocks wanted, {free} of {total} are free")]
    Full {
        /// Blocks asked for.
        wanted: usize,
        /// Blocks free.
        free: usize,
        /// Blocks there are.
        total: usize,
    },
}

/// What the arena holds at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArenaStatistics {
    /// Blocks the limit allows.
    pub blocks_total: usize,
    /// Blocks some handle refers to.
    pub blocks_used: usize,
    /// Most blocks ever in use at once.
    pub blocks_peak: usize,
    /// Bytes of one block over all layers.
    pub block_bytes: usize,
}

/// The blocks of one KV memory. Clones share it.
#[derive(Debug, Clone)]
pub struct Arena {
    ledger: Arc<Ledger>,
}

#[derive(Debug)]
struct Ledger {
    block_bytes: usize,
    /// References to each block; 0 is free.
    references: Box<[AtomicU32]>,
    free: Mutex<Free>,
}

#[derive(Debug)]
struct Free {
    /// Free blocks; the last is handed out next.
    blocks: Vec<u32>,
    used_peak: usize,
}

impl Ledger {
    fn free(&self) -> MutexGuard<'_, Free> {
        // The list is consistent after every statement, so a panic elsewhere cannot have torn it.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Arena {
    /// As many blocks of `block_bytes` as fit into `limit_bytes`.
    ///
    /// # Errors
    /// [`ArenaError::TooSmall`] if that is none.
    pub fn new(block_bytes: usize, limit_bytes: usize) -> Result<Self, ArenaError> {
        let blocks = limit_bytes.checked_div(block_bytes).unwrap_or(0).min(u32::MAX as usize);
        if blocks == 0 {
            return Err(ArenaError::TooSmall { limit_bytes, block_bytes });
        }
        let ledger = Ledger {
            block_bytes,
            references: (0..blocks).map(|_| AtomicU32::new(0)).collect(),
            free: Mutex::new(Free { blocks: (0..blocks as u32).rev().collect(), used_peak: 0 }),
        };
        Ok(Self { ledger: Arc::new(ledger) })
    }

    /// Blocks there are.
    pub fn blocks(&self) -> usize {
        self.ledger.references.len()
    }

    /// Bytes of all blocks.
    pub fn bytes(&self) -> usize {
        self.blocks() * self.ledger.block_bytes
    }

    /// Appends `count` fresh blocks to `out`, all or none. Their contents are whatever was there before.
    ///
    /// # Errors
    /// [`ArenaError::Full`]; `out` is then unchanged.
    pub fn allocate(&self, count: usize, out: &mut Vec<Block>) -> Result<(), ArenaError> {
        let mut free = self.ledger.free();
        let available = free.blocks.len();
        if count > available {
            return Err(ArenaError::Full { wanted: count, free: available, total: self.blocks() });
        }
        for index in free.blocks.drain(available - count..).rev() {
            self.ledger.references[index as usize].store(1, Ordering::Relaxed);
            out.push(Block { ledger: Arc::clone(&self.ledger), index });
        }
        free.used_peak = free.used_peak.max(self.blocks() - free.blocks.len());
        Ok(())
    }

    /// Blocks that no handle refers to.
    pub fn free_blocks(&self) -> usize {
        self.ledger.free().blocks.len()
    }

    /// Counts for the metrics.
    pub fn statistics(&self) -> ArenaStatistics {
        let free = self.ledger.free();
        ArenaStatistics {
            blocks_total: self.blocks(),
            blocks_used: self.blocks() - free.blocks.len(),
            blocks_peak: free.used_peak,
            block_bytes: self.ledger.block_bytes,
        }
    }
}

/// A reference to one block. Cloning counts one more; dropping the last frees the block.
#[derive(Debug)]
pub struct Block {
    ledger: Arc<Ledger>,
    index: u32,
}

impl Block {
    /// Where the block lies in the memory, in blocks.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Handles that refer to the block, this one included.
    pub fn references(&self) -> u32 {
        self.ledger.references[self.index as usize].load(Ordering::Acquire)
    }

    /// Whether another handle refers to the block too; it must then be copied before writing.
    pub fn is_shared(&self) -> bool {
        self.references() > 1
    }
}

impl Clone for Block {
    fn clone(&self) -> Self {
        self.ledger.references[self.index as usize].fetch_add(1, Ordering::Relaxed);
        Self { ledger: Arc::clone(&self.ledger), index: self.index }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.ledger.references[self.index as usize].fetch_sub(1, Ordering::AcqRel) == 1 {
            // Never allocates: the list was made with room for every block.
            self.ledger.free().blocks.push(self.index);
        }
    }
}
