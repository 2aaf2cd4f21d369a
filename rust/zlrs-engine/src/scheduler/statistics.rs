//! Counters for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// What the engine has done and is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Requests that wait, those that had to stop included.
    pub queued: u64,
    /// Requests being computed.
    pub running: u64,
    /// KV blocks that requests and pins hold.
    pub kv_blocks_used: u64,
    /// KV blocks kept for reuse alone; they are given up when requests want them.
    pub kv_blocks_cached: u64,
    /// KV blocks there are.
    pub kv_blocks_total: u64,
    /// Most KV blocks ever held at once, for requests and for reuse.
    pub kv_blocks_peak: u64,
    /// Requests accepted.
    pub requests: u64,
    /// Requests that ended by themselves or by their deadline.
    pub finished: u64,
    /// Requests that ended because their caller went away or cancelled.
    pub cancelled: u64,
    /// Requests that ended with an error.
    pub failed: u64,
    /// Prompt tokens computed.
    pub tokens_prefilled: u64,
    /// Prompt tokens that were not computed because their keys and values were there.
    pub tokens_reused: u64,
    /// Tokens chosen, those that end turns included.
    pub tokens_decoded: u64,
    /// Tokens that were guessed and verified.
    pub tokens_drafted: u64,
    /// Guesses that were right.
    pub tokens_accepted: u64,
    /// Steps computed.
    pub steps: u64,
    /// KV blocks kept for reuse that were given up.
    pub kv_blocks_evicted: u64,
    /// Times a running request had to make way for another.
    pub pauses: u64,
    /// Times the backend had to be made usable again.
    pub recoveries: u64,
    /// 1 while the backend cannot be made usable, so that every request fails.
    pub backend_lost: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub running: AtomicU64,
    pub requests: AtomicU64,
    pub finished: AtomicU64,
    pub cancelled: AtomicU64,
    pub failed: AtomicU64,
    pub paused: AtomicU64,
    pub tokens_prefilled: AtomicU64,
    pub tokens_reused: AtomicU64,
    pub tokens_decoded: AtomicU64,
    pub tokens_drafted: AtomicU64,
    pub tokens_accepted: AtomicU64,
    pub steps: AtomicU64,
    pub kv_blocks_evicted: AtomicU64,
    pub pauses: AtomicU64,
    pub recoveries: AtomicU64,
    pub backend_lost: AtomicU64,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Finished,
    Cancelled,
    Failed,
}

impl Counters {
    pub fn count(&self, ending: Ending) {
        let counter = match ending {
            Ending::Finished => &self.finished,
            Ending::Cancelled => &self.cancelled,
            Ending::Failed => &self.failed,
        };
        add(counter, 1);
    }
}

pub(super) fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}

pub(super) fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
