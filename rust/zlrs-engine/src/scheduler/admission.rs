//! Who is computed: from the queue to the running requests, and back when memory is short.
//!
//! A request is admitted when the memory holds its prompt beside what the running ones need next, not its whole
//! answer. When it comes short after all, the request with the weakest claim pauses: its blocks become
//! reusable like any other prefix, and it goes on later from what is left of them. The strongest claim never
//! pauses, and any request that was accepted fits into the memory alone, so everybody ends.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use super::queue::Job;
use super::running::{Running, finish_waiting};
use super::statistics::{Ending, add};
use super::worker::Worker;
use super::{Event, FinishReason, Priority};
use crate::kv::BLOCK_TOKENS;
use crate::prefix::{PartitionKey, Prefix, PrefixCache};

/// A claim: the least goes first.
type Claim = (Priority, u64, u64);

/// Somebody who could run.
#[derive(Clone, Copy)]
enum Waiting {
    /// Index among the paused.
    Paused(usize),
    /// Arrival number of a job.
    Queued(u64),
}

impl Worker {
    pub(super) fn prefixes(&self) -> MutexGuard<'_, PrefixCache> {
        self.prefixes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn claim(&self, running: &Running) -> Claim {
        (running.priority, self.fairness.served(running.tenant()), running.arrival)
    }

    fn job_claim(&self, job: &Job) -> Claim {
        (job.request.priority, self.fairness.served(&job.request.tenant), job.arrival)
    }

    /// Lets requests run while there is room; waits for one when there is nothing to do. False when the engine
    /// closes.
    pub(super) fn admit(&mut self) -> bool {
        if self.running.is_empty() && self.paused.is_empty() {
            self.queue.wait();
        }
        self.settle_fairness();
        while !self.queue.is_closed() {
            let Some((claim, waiting)) = self.next_waiting() else { break };
            let is_full = self.running.len() >= self.running_limit;
            if is_full || !self.has_memory_for(waiting) {
                // Interactive requests push batches out.
                let pushes = claim.0 == Priority::Interactive
                    && self.running.iter().any(|running| running.priority == Priority::Batch);
                if !(pushes && self.pause_weakest()) {
                    break;
                }
                continue;
            }
            match waiting {
                Waiting::Paused(index) => {
                    let mut running = self.paused.remove(index);
                    self.reuse(&mut running);
                    self.running.push(running);
                }
                Waiting::Queued(arrival) => match self.queue.take(arrival) {
                    Some(job) => self.take_in(job),
                    None => break,
                },
            }
            self.count_levels();
        }
        // Rows are handed out in this order.
        let mut running = std::mem::take(&mut self.running);
        running.sort_by_key(|running| self.claim(running));
        self.running = running;
        !self.queue.is_closed()
    }

    fn settle_fairness(&mut self) {
        let mut present = Vec::new();
        self.queue.for_each(|job| present.push(job.request.tenant));
        present.extend(self.running.iter().chain(&self.paused).map(|running| *running.tenant()));
        self.fairness.settle(present.iter());
    }

    /// The strongest claim of those who wait; of one tenant's, those who have begun come first.
    fn next_waiting(&self) -> Option<(Claim, Waiting)> {
        let paused = self.paused.iter().enumerate();
        let paused = paused.map(|(index, running)| (self.claim(running), Waiting::Paused(index)));
        let queued = self
            .queue
            .peek(|job| self.job_claim(job), |job| (self.job_claim(job), Waiting::Queued(job.arrival)));
        paused.chain(queued).min_by_key(|(claim, _)| *claim)
    }

    /// Whether the memory holds one more: its tokens and the next block, beside the same for all that run.
    fn has_memory_for(&self, waiting: Waiting) -> bool {
        if self.running.is_empty() {
            return true;
        }
        let fits = |key: &PartitionKey, ids: &[u32]| {
            let mut prefixes = self.prefixes();
            // Held until the end: these blocks cannot be reclaimed for it.
            let known = prefixes.lookup(key, ids, ids.len().saturating_sub(1));
            let wanted = (ids.len() + BLOCK_TOKENS).div_ceil(BLOCK_TOKENS) - known.tokens / BLOCK_TOKENS;
            let promised: usize = self.running.iter().map(Running::blocks_wanted).sum();
            let free = self.arena.free_blocks();
            free >= wanted + promised || free + prefixes.statistics().blocks_reclaimable >= wanted + promised
        };
        match waiting {
            Waiting::Paused(index) => {
                let running = &self.paused[index];
                fits(&running.partition, running.sequence.tokens())
            }
            Waiting::Queued(arrival) => {
                let look = |job: &Job| fits(&job.request.partition(), &job.request.ids);
                self.queue.peek(|job| job.arrival != arrival, look).unwrap_or(false)
            }
        }
    }

    /// From job to running request.
    fn take_in(&mut self, job: Job) {
        let now = self.clock.now();
        if job.ring.is_cancelled() || job.is_late(now) {
            self.dismiss(&job);
            return;
        }
        let ring = Arc::clone(&job.ring);
        match Running::new(job, &*self.vocabulary, self.backend.shape().vocabulary, &self.arena) {
            Ok(mut running) => {
                let begun = self.clock.now();
                self.reuse(&mut running);
                running.spent.kv += self.clock.now().saturating_sub(begun);
                self.running.push(running);
            }
            Err(error) => {
                self.counters.count(Ending::Failed);
                ring.push(Event::Failed(error));
                ring.wake();
            }
        }
    }

    /// What is known of the request's tokens.
    pub(super) fn known(&self, running: &Running) -> Prefix {
        let tokens = running.sequence.tokens();
        self.prefixes().lookup(&running.partition, tokens, tokens.len().saturating_sub(1))
    }

    /// Takes over what is known of the request's tokens.
    fn reuse(&self, running: &mut Running) {
        let prefix = self.known(running);
        running.adopt(prefix);
    }

    /// Keeps what a request has computed for others: all of it, or whole blocks only while it goes on.
    pub(super) fn keep(&self, running: &Running, whole_blocks: bool) {
        let stored = running.sequence.stored();
        let count = if whole_blocks { stored / BLOCK_TOKENS * BLOCK_TOKENS } else { stored };
        let sequence = &running.sequence;
        self.prefixes().insert(&running.partition, &sequence.tokens()[..count], sequence.blocks());
    }

    /// Makes the running request with the weakest claim wait, unless it is the only one.
    pub(super) fn pause_weakest(&mut self) -> bool {
        if self.running.len() < 2 {
            return false;
        }
        // By arrival, not by rows had: who yields must not change from step to step.
        let weakest = self.running.iter().enumerate();
        let weakest = weakest.max_by_key(|(_, running)| (running.priority, running.arrival));
        let Some((index, _)) = weakest else { return false };
        let mut running = self.running.remove(index);
        running.sequence.drop_guesses();
        self.keep(&running, false);
        running.sequence.release();
        self.paused.push(running);
        add(&self.counters.pauses, 1);
        self.count_levels();
        true
    }

    /// Gives up what is kept for reuse until `wanted` blocks are free; whether they are.
    pub(super) fn evict_for(&mut self, wanted: usize) -> bool {
        let missing = wanted.saturating_sub(self.arena.free_blocks());
        if missing == 0 {
            return true;
        }
        let freed = self.prefixes().evict(missing);
        add(&self.counters.kv_blocks_evicted, freed);
        freed >= missing
    }

    /// Makes sure that `wanted` blocks are free; false if a request has been paused for them, so that the plan
    /// must be made again. Nothing more can be done for the only running request.
    pub(super) fn make_room(&mut self, wanted: usize) -> bool {
        if self.evict_for(wanted) {
            return true;
        }
        if !self.pause_weakest() {
            // What is left is shared with the one that runs; without it nothing needs to be copied.
            let mut prefixes = self.prefixes();
            if !prefixes.unpin_oldest() {
                prefixes.clear();
            }
        }
        false
    }

    /// Ends requests, waiting or running, that were cancelled or are late.
    pub(super) fn sweep(&mut self) {
        let now = self.clock.now();
        for job in self.queue.sweep(now) {
            self.dismiss(&job);
        }
        let mut some_ended = false;
        for running in self.running.iter_mut().chain(&mut self.paused) {
            if let Some(reason) = running.interruption(now) {
                running.finish(reason, now);
                some_ended = true;
            }
        }
        if some_ended {
            self.clear_ended();
        }
    }

    fn dismiss(&self, job: &Job) {
        let cancelled = job.ring.is_cancelled();
        let reason = if cancelled { FinishReason::Cancelled } else { FinishReason::Deadline };
        self.counters.count(if cancelled { Ending::Cancelled } else { Ending::Finished });
        finish_waiting(job, reason, self.clock.now());
    }

    /// Lets go of the requests that have ended, wakes the readers of all.
    pub(super) fn clear_ended(&mut self) {
        for paused in [false, true] {
            let list = if paused { &mut self.paused } else { &mut self.running };
            let (ended, stay): (Vec<_>, Vec<_>) =
                std::mem::take(list).into_iter().partition(|running| running.ended.is_some());
            *list = stay;
            self.count_levels();
            for mut running in ended {
                let Some((ending, event)) = running.ended.take() else { continue };
                if ending != Ending::Failed {
                    self.keep(&running, false);
                    self.learn_answer(&running);
                }
                let ring = Arc::clone(&running.ring);
                drop(running);
                self.counters.count(ending);
                ring.push(event);
                ring.wake();
            }
        }
        self.running.iter().for_each(|running| running.ring.wake());
    }

    pub(super) fn count_levels(&self) {
        self.counters.running.store(self.running.len() as u64, Ordering::Relaxed);
        self.counters.paused.store(self.paused.len() as u64, Ordering::Relaxed);
    }

    /// Begins the work of those that have rows in the coming step and had none before.
    pub(super) fn start_new(&mut self, now: Duration) {
        for running in &mut self.running {
            if running.rows > 0 && !running.is_started() {
                add(&self.counters.tokens_reused, running.start(now));
            }
        }
    }
}
