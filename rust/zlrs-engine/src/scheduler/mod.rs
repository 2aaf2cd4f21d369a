//! One engine thread, a bounded queue before it, a ring of events behind it for each request.
//!
//! The thread is worker 0 of the backend's pool. It knows nothing of text templates, files or Python; see
//! [`Engine`](crate::Engine) for those.

mod admission;
mod answering;
mod checked;
mod choosing;
mod chore;
mod drafting;
mod event;
mod fairness;
mod generation;
mod pace;
mod queue;
mod request;
mod ring;
mod running;
mod shallow;
mod statistics;
#[cfg(test)]
mod tests;
mod worker;

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

pub use event::{Event, FinishReason, Finished, Timings, Usage};
pub use generation::{Canceller, Generation};
pub use request::{Priority, Request};
pub use statistics::Statistics;

use self::drafting::Drafts;
use self::fairness::Fairness;
use self::pace::Pace;
use self::queue::{Job, Queue};
use self::ring::Ring;
use self::shallow::Shallow;
use self::statistics::{Counters, add, read};
use self::worker::Worker;
use crate::backend::{Backend, Shape};
use crate::clock::{Clock, SystemClock};
use crate::draft::{DraftSource, Drafting, Lookup, Payoff};
use crate::kv::{Arena, Block};
use crate::plan::{ExactPlanner, Plan, Planner};
use crate::prefix::{PartitionKey, Pin, Prefix, PrefixCache, Tenant};
use crate::vocabulary::Vocabulary;
use crate::{Compute, EngineError};

/// Most requests computed at once, unless told otherwise.
pub const RUNNING_LIMIT: usize = 32;

/// What a scheduler runs with.
pub struct SchedulerOptions {
    /// Most requests that may wait, at least 1.
    pub queue_limit: usize,
    /// Most requests computed at once, at least 1; no more than rows fit into a step.
    pub running_limit: usize,
    /// Decides what steps compute.
    pub planner: Box<dyn Planner>,
    /// Whether it plans keys and values of less than f16, which aggressive requests then get.
    pub lower_kv: bool,
    /// Whether tokens are guessed, to verify several in one step.
    pub drafting: Drafting,
    /// Guesses them.
    pub drafts: Box<dyn DraftSource>,
    /// Whether the model guesses by itself where those guesses are none; the backend must be able to.
    pub self_drafting: Drafting,
    /// Time for deadlines and timings.
    pub clock: Arc<dyn Clock>,
}

impl Default for SchedulerOptions {
    fn default() -> Self {
        Self {
            queue_limit: 64,
            running_limit: RUNNING_LIMIT,
            planner: Box::new(ExactPlanner::default()),
            lower_kv: false,
            drafting: Drafting::Off,
            drafts: Box::new(Lookup::default()),
            self_drafting: Drafting::Off,
            clock: Arc::new(SystemClock::default()),
        }
    }
}

/// Runs requests on one backend, all together: a step computes a token for each that is being answered and a
/// chunk of the prompts of others. All methods may be called from any thread.
pub struct Scheduler {
    queue: Arc<Queue>,
    counters: Arc<Counters>,
    clock: Arc<dyn Clock>,
    arena: Arena,
    prefixes: Arc<Mutex<PrefixCache>>,
    shape: Shape,
    state_width: Option<usize>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Whether aggressive requests leave anything out.
    can_skip: bool,
    can_leave: bool,
    /// Whether they keep keys and values in less than f16.
    lower_kv: bool,
    owner_process: u32,
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler").field("shape", &self.shape).finish_non_exhaustive()
    }
}

impl Scheduler {
    /// Starts the engine thread.
    ///
    /// # Errors
    /// [`EngineError::Option`] for a limit of 0, [`EngineError::Arena`] for a KV memory without a block,
    /// [`EngineError::System`] if there is no thread to be had.
    pub fn start(
        backend: Box<dyn Backend>,
        vocabulary: Arc<dyn Vocabulary>,
        options: SchedulerOptions,
    ) -> Result<Self, EngineError> {
        let SchedulerOptions { queue_limit, running_limit, planner, lower_kv, drafting, .. } = options;
        let SchedulerOptions { drafts, self_drafting, clock, .. } = options;
        let limits = [("queue_limit", queue_limit), ("running_limit", running_limit)];
        for (name, given) in limits {
            if given == 0 {
                return Err(EngineError::Option { name, given, allowed: "at least 1".to_owned() });
            }
        }
        let (shape, can_skip, can_leave) = (backend.shape(), backend.can_skip(), backend.can_leave());
        let state_width = backend.state_width();
        let arena = Arena::new(shape.block_bytes, shape.blocks * shape.block_bytes)?;
        let queue = Arc::new(Queue::new(queue_limit));
        let counters = Arc::new(Counters::default());
        let prefixes = Arc::new(Mutex::new(PrefixCache::default()));
        let worker = Worker {
            queue: Arc::clone(&queue),
            counters: Arc::clone(&counters),
            clock: Arc::clone(&clock),
            vocabulary,
            backend,
            planner,
            arena: arena.clone(),
            prefixes: Arc::clone(&prefixes),
            running_limit: running_limit.min(shape.max_rows),
            drafting: Drafts { mode: drafting, source: drafts, payoff: Payoff::default() },
            shallow: Shallow::new(self_drafting, shape.vocabulary),
            pace: Pace::default(),
            running: Vec::new(),
            paused: Vec::new(),
            fairness: Fairness::default(),
            plan: Plan::default(),
            rows: Vec::new(),
            needs_recovery: false,
            states: Arc::default(),
        };
        let thread = std::thread::Builder::new()
            .name("zlrs-engine".to_owned())
            .spawn(move || worker.serve())
            .map_err(|source| EngineError::System { what: "starting the engine thread", source })?;
        Ok(Self {
            queue,
            counters,
            clock,
            arena,
            prefixes,
            shape,
            state_width,
            thread: Mutex::new(Some(thread)),
            can_skip,
            can_leave,
            lower_kv,
            owner_process: std::process::id(),
        })
    }

    /// Checks the request and joins the queue. Returns at once. An aggressive request runs exact where nothing is
    /// installed; its last event says so.
    ///
    /// # Errors
    /// The first limit the request does not keep, [`EngineError::QueueFull`], [`EngineError::Closed`],
    /// [`EngineError::Forked`].
    pub fn submit(&self, mut request: Request) -> Result<Generation, EngineError> {
        check_process(self.owner_process)?;
        if request.require_exits && (request.compute, self.can_leave) != (Compute::Aggressive, true) {
            return Err(EngineError::NoExits { compute: request.compute.name(), installed: self.can_leave });
        }
        request.compute = self.effective(request.compute);
        let budget = request.check(self.shape, self.state_width)?;
        let ring = Arc::new(Ring::new()?);
        let input_tokens = request.ids.len();
        let generation = Generation::new(Arc::clone(&ring), input_tokens, self.owner_process);
        self.queue.push(Job { request, budget, ring, submitted: self.clock.now(), arrival: 0 })?;
        add(&self.counters.requests, 1);
        Ok(generation)
    }

    /// What a request that asks for `compute` gets.
    pub fn effective(&self, compute: Compute) -> Compute {
        if self.can_skip || self.lower_kv { compute } else { Compute::Exact }
    }

    /// Keeps what requests of that kind have computed of a tenant's tokens until the pin is dropped; see [`Pin`].
    ///
    /// # Errors
    /// [`EngineError::Forked`].
    pub fn pin(&self, tenant: Tenant, compute: Compute, ids: &[u32]) -> Result<Pin, EngineError> {
        check_process(self.owner_process)?;
        let key = PartitionKey::of(tenant, self.effective(compute));
        Ok(Pin::new(&self.prefixes, &key, ids))
    }

    /// What exact requests know of the first tokens of `ids`; the blocks stay as they are while they are held.
    pub(crate) fn known(&self, tenant: Tenant, ids: &[u32]) -> Prefix {
        let mut prefixes = self.prefixes.lock().unwrap_or_else(PoisonError::into_inner);
        prefixes.lookup(&PartitionKey::exact(tenant), ids, ids.len())
    }

    /// Remembers that `blocks` hold the first of `ids`, and pins what is known of them all.
    pub(crate) fn remember(&self, tenant: Tenant, ids: &[u32], blocks: &[Block]) -> Pin {
        let key = PartitionKey::exact(tenant);
        self.prefixes.lock().unwrap_or_else(PoisonError::into_inner).insert(&key, ids, blocks);
        Pin::new(&self.prefixes, &key, ids)
    }

    /// Sizes of the backend.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Counts so far.
    ///
    /// # Errors
    /// [`EngineError::Forked`].
    pub fn statistics(&self) -> Result<Statistics, EngineError> {
        check_process(self.owner_process)?;
        // Held while both are counted: the engine thread moves no block between them meanwhile.
        let prefixes = self.prefixes.lock().unwrap_or_else(PoisonError::into_inner);
        let kv = self.arena.statistics();
        let kv_blocks_cached = prefixes.statistics().blocks_reclaimable;
        drop(prefixes);
        Ok(Statistics {
            queued: self.queue.len() as u64 + read(&self.counters.paused),
            running: read(&self.counters.running),
            kv_blocks_used: kv.blocks_used.saturating_sub(kv_blocks_cached) as u64,
            kv_blocks_cached: kv_blocks_cached as u64,
            kv_blocks_total: kv.blocks_total as u64,
            kv_blocks_peak: kv.blocks_peak as u64,
            requests: read(&self.counters.requests),
            finished: read(&self.counters.finished),
            cancelled: read(&self.counters.cancelled),
            failed: read(&self.counters.failed),
            tokens_prefilled: read(&self.counters.tokens_prefilled),
            tokens_reused: read(&self.counters.tokens_reused),
            tokens_decoded: read(&self.counters.tokens_decoded),
            tokens_drafted: read(&self.counters.tokens_drafted),
            tokens_accepted: read(&self.counters.tokens_accepted),
            steps: read(&self.counters.steps),
            kv_blocks_evicted: read(&self.counters.kv_blocks_evicted),
            pauses: read(&self.counters.pauses),
            recoveries: read(&self.counters.recoveries),
            backend_lost: read(&self.counters.backend_lost),
        })
    }

    /// Ends the engine thread and waits for it: running and waiting requests fail with
    /// [`EngineError::Closed`], memory is freed. A second call does nothing. In a forked child it does nothing.
    pub fn close(&self) {
        if check_process(self.owner_process).is_err() {
            return;
        }
        for job in self.queue.close() {
            job.ring.push(Event::Failed(EngineError::Closed));
            job.ring.wake();
        }
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // The thread catches its own panics, so there is nothing to learn from its result.
            let _ = thread.join();
        }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.close();
    }
}

/// Locks and threads do not survive a fork, so every entry asks first.
fn check_process(owner: u32) -> Result<(), EngineError> {
    let current = std::process::id();
    if current == owner { Ok(()) } else { Err(EngineError::Forked { owner, current }) }
}
