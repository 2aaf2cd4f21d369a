//! What only the engine thread may do with the backend's memory, done between two steps.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::Scheduler;
use super::worker::Worker;
use crate::EngineError;
use crate::backend::BackendError;
use crate::kv::Block;

/// One piece of such work. Whoever asks waits for the reply and may go away meanwhile; blocks are freed with the
/// chore or with the reply, whichever is dropped last.
#[derive(Debug)]
pub(super) enum Chore {
    /// Take out what blocks hold.
    Read { blocks: Vec<Block>, reply: SyncSender<Result<Vec<u8>, EngineError>> },
    /// Find blocks for these bytes and fill them; `None`, and nothing given up, when they and as many as are
    /// `to_come` after them do not fit.
    Write { bytes: Vec<u8>, to_come: usize, reply: SyncSender<Result<Option<Vec<Block>>, EngineError>> },
}

impl Scheduler {
    /// What the blocks hold, one after the other.
    ///
    /// # Errors
    /// [`EngineError::Closed`]; [`EngineError::Step`] from a backend that gives no state out.
    pub(crate) fn read_blocks(&self, blocks: &[Block]) -> Result<Vec<u8>, EngineError> {
        let (reply, receiver) = sync_channel(1);
        self.ask(Chore::Read { blocks: blocks.to_vec(), reply }, &receiver)
    }

    /// Fresh blocks that hold the bytes, a whole number of blocks. Takes free memory and memory kept for reuse
    /// alone, never that of requests or pins: `None` when that is not enough for them and for as many blocks as
    /// are `to_come` with later calls. Nothing is then given up.
    ///
    /// # Errors
    /// As [`Scheduler::read_blocks`].
    pub(crate) fn write_blocks(
        &self,
        bytes: Vec<u8>,
        to_come: usize,
    ) -> Result<Option<Vec<Block>>, EngineError> {
        let (reply, receiver) = sync_channel(1);
        self.ask(Chore::Write { bytes, to_come, reply }, &receiver)
    }

    fn ask<T>(&self, chore: Chore, receiver: &Receiver<Result<T, EngineError>>) -> Result<T, EngineError> {
        super::check_process(self.owner_process)?;
        if !self.queue.push_chore(chore) {
            return Err(EngineError::Closed);
        }
        // The sender is dropped without a word when the engine closes, or in a panic.
        receiver.recv().unwrap_or(Err(EngineError::Closed))
    }
}

impl Worker {
    /// Does what others have asked for. A chore is short: whoever has much to ask asks in pieces.
    pub(super) fn do_chores(&mut self) {
        for chore in self.queue.take_chores() {
            // Whoever asked may have gone; what is replied is freed then.
            match chore {
                Chore::Read { blocks, reply } => {
                    let result = self.read(&blocks);
                    drop(blocks);
                    let _ = reply.send(result.map_err(|error| step_failed(&error)));
                }
                Chore::Write { bytes, to_come, reply } => {
                    let _ = reply.send(self.write(&bytes, to_come).map_err(|error| step_failed(&error)));
                }
            }
        }
    }

    fn read(&self, blocks: &[Block]) -> Result<Vec<u8>, BackendError> {
        let mut bytes = Vec::with_capacity(blocks.len() * self.backend.shape().block_bytes);
        blocks.iter().try_for_each(|block| self.backend.read_block(block.index(), &mut bytes))?;
        Ok(bytes)
    }

    fn write(&mut self, bytes: &[u8], to_come: usize) -> Result<Option<Vec<Block>>, BackendError> {
        let block_bytes = self.backend.shape().block_bytes;
        let count = bytes.len() / block_bytes;
        // What running requests will want next stays free for them.
        let promised: usize = self.running.iter().map(super::running::Running::blocks_wanted).sum();
        let wanted = count + to_come + promised;
        let missing = wanted.saturating_sub(self.arena.free_blocks());
        if missing > 0 {
            // Nobody's prefix is given up for a state that does not fit all the same.
            if self.prefixes().statistics().blocks_reclaimable < missing {
                return Ok(None);
            }
            let freed = self.prefixes().evict(missing);
            super::statistics::add(&self.counters.kv_blocks_evicted, freed);
        }
        let mut blocks = Vec::with_capacity(count);
        if self.arena.free_blocks() < wanted || self.arena.allocate(count, &mut blocks).is_err() {
            return Ok(None);
        }
        for (block, bytes) in blocks.iter().zip(bytes.chunks_exact(block_bytes)) {
            self.backend.write_block(block.index(), bytes)?;
        }
        Ok(Some(blocks))
    }
}

fn step_failed(error: &BackendError) -> EngineError {
    EngineError::Step { message: error.to_string() }
}
