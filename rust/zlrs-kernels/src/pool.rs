//! One pool of threads for every kernel: the calling thread is worker 0, the others wait for work.
//!
//! A job is a closure that every worker runs once with its own index; [`Pool::run`] returns when all are
//! done. Waiting threads spin for a short, adjustable number of rounds, offering their core now and then, and
//! then sleep: machines are shared, and a thread that spins while the one it waits for has no core only makes
//! it later.
//!
//! What is decided here:
//! - `run` from inside a job of the same pool is an error, [`KernelError::PoolNested`]: it would wait for
//!   itself. Jobs of *other* pools may be started from inside a job, but two pools must not call each other
//!   in both directions.
//! - Callers on several threads take turns.
//! - A panic in a job is caught on its worker. The pool is poisoned: this and every later `run` is
//!   [`KernelError::PoolPoisoned`]. The closure must not make its workers wait for each other, or a panic in
//!   one could leave the rest waiting.
//! - After `fork` the child has none of the threads: every use there is [`KernelError::PoolForked`].
#![allow(
    unsafe_code,
    reason = "a borrowed closure is lent to other threads; run() ends only when they are done"
)]

use std::any::Any;
use std::cell::{RefCell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, Thread};

use crate::KernelError;
use crate::output::share;

/// Most workers that have shares of their own in [`Pool::run_units_in_order`].
const MAX_SHARES: usize = 32;

/// Most workers a pool may have.
pub const MAX_THREADS: usize = 512;

/// Rounds a waiting thread spins before it sleeps, unless told otherwise: some fifty microseconds, which
/// bridges the gaps between the jobs of a step. Waking a sleeper costs up to as much on a virtual machine.
pub const DEFAULT_SPIN_ROUNDS: u32 = 2000;

/// A spinning thread offers its core to others every so many rounds. When two workers share a core, the one
/// that has work then gets it at once instead of after the other's whole spin.
const YIELD_EVERY: u32 = 32;

/// A job as the caller lends it.
type Job<'job> = dyn Fn(usize) + Sync + 'job;

/// A fixed set of worker threads. Dropping it ends and joins them.
///
/// `Pool` is `Sync`; share it by reference or `Arc`.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    threads: usize,
    /// Held by the thread whose job runs.
    turn: Mutex<()>,
    owner_process: u32,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("threads", &self.threads)
            .field("poisoned", &self.shared.poison.get().is_some())
            .finish_non_exhaustive()
    }
}

/// What the workers see. The two counters lie on cache lines of their own.
struct Shared {
    /// Number of jobs published so far; a change wakes the workers.
    generation: Padded<AtomicU64>,
    /// Workers that have not finished the current job.
    remaining: Padded<AtomicUsize>,
    slot: UnsafeCell<Slot>,
    shutdown: AtomicBool,
    /// The message of the first panic.
    poison: OnceLock<String>,
    /// Tells pools apart on the per-thread list of running jobs.
    id: u64,
    spin_rounds: u32,
}

/// The current job. Written only by the thread that holds `turn` while `remaining` is 0; read only by
/// workers between the change of `generation` and their own decrement of `remaining`.
struct Slot {
    job: Option<&'static Job<'static>>,
    caller: Option<Thread>,
}

// SAFETY: all fields but `slot` are Sync by themselves. `slot` follows the protocol stated at `Slot`: the
// writer publishes with a release store of `generation`, readers acquire it; readers release `remaining`,
// the writer acquires its 0 before it writes again. The job inside is `Sync`, `Thread` is `Send + Sync`.
unsafe impl Sync for Shared {}
// SAFETY: as above; nothing in it is tied to a thread.
unsafe impl Send for Shared {}

#[repr(align(64))]
struct Padded<T>(T);

thread_local! {
    /// Pools whose jobs run on this thread now, outermost first.
    static RUNNING: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

impl Pool {
    /// A pool of `threads` workers, the caller of [`run`](Self::run) counted: `threads - 1` are started, so
    /// 1 starts none.
    ///
    /// # Errors
    /// [`KernelError::OutOfRange`] unless `1 <= threads <= MAX_THREADS`; [`KernelError::Spawn`] if the system
    /// gives no thread; [`KernelError::FloatMode`] if the calling thread, from which workers inherit, flushes
    /// subnormal numbers or does not round to nearest.
    pub fn new(threads: usize) -> Result<Self, KernelError> {
        Self::with_spin_rounds(threads, DEFAULT_SPIN_ROUNDS)
    }

    /// As [`new`](Self::new), with the rounds a waiting thread spins before it sleeps. 0 sleeps at once and
    /// suits oversubscribed machines; many thousands suit cores that are this process's alone.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_spin_rounds(threads: usize, spin_rounds: u32) -> Result<Self, KernelError> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        if !(1..=MAX_THREADS).contains(&threads) {
            let what = "number of pool threads (at least 1)";
            return Err(KernelError::OutOfRange { what, given: threads, limit: MAX_THREADS });
        }
        if !floats_as_specified() {
            return Err(KernelError::FloatMode);
        }
        let shared = Arc::new(Shared {
            generation: Padded(AtomicU64::new(0)),
            remaining: Padded(AtomicUsize::new(0)),
            slot: UnsafeCell::new(Slot { job: None, caller: None }),
            shutdown: AtomicBool::new(false),
            poison: OnceLock::new(),
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            spin_rounds,
        });
        let owner_process = std::process::id();
        // Made before the threads, so that a failure half way joins those already started.
        let mut pool = Self { shared, workers: Vec::new(), threads, turn: Mutex::new(()), owner_process };
        for worker in 1..threads {
            let shared = Arc::clone(&pool.shared);
            let handle = thread::Builder::new()
                .name(format!("zlrs-worker-{worker}"))
                .spawn(move || shared.work(worker))
                .map_err(|source| KernelError::Spawn { worker, threads, source })?;
            pool.workers.push(handle);
        }
        Ok(pool)
    }

    /// Number of workers, the caller counted.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Runs `job(worker)` once for each worker in `0..threads()`, worker 0 on this thread, and returns when
    /// all are done. Everything the workers wrote is visible then.
    ///
    /// # Errors
    /// - [`KernelError::PoolForked`] in a process other than the one that made the pool,
    /// - [`KernelError::PoolNested`] from inside a job of this pool,
    /// - [`KernelError::PoolPoisoned`] if a worker panics in this job or did in an earlier one. What the job
    ///   wrote is then incomplete.
    pub fn run(&self, job: &Job<'_>) -> Result<(), KernelError> {
        self.run_on(job, self.threads)
    }

    /// Runs `job` on this thread only, under the rules of [`run`](Self::run): for work too small to wake anyone.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_alone(&self, job: &(dyn Fn() + Sync)) -> Result<(), KernelError> {
        self.run_on(&|_| job(), 1)
    }

    fn run_on(&self, job: &Job<'_>, threads: usize) -> Result<(), KernelError> {
        let current = std::process::id();
        if current != self.owner_process {
            return Err(KernelError::PoolForked { owner: self.owner_process, current });
        }
        let Some(_guard) = RunningGuard::enter(self.shared.id) else { return Err(KernelError::PoolNested) };
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.check()?;
        if threads > 1 {
            self.publish(job);
        }
        self.shared.run_caught(job, 0);
        if threads > 1 {
            // Nothing between publish and here can unwind, so the borrow of `job` outlives its use.
            self.shared.wait(|shared| shared.remaining.0.load(Ordering::Acquire) == 0);
        }
        self.shared.check()
    }

    /// Runs `job(worker, unit)` once for each unit in `0..units`. Workers take the next unit as they become
    /// free, so units may differ in cost; which worker runs a unit is left open.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_units(&self, units: usize, job: &(dyn Fn(usize, usize) + Sync)) -> Result<(), KernelError> {
        let next = AtomicUsize::new(0);
        self.run(&|worker| {
            loop {
                let unit = next.fetch_add(1, Ordering::Relaxed);
                if unit >= units {
                    break;
                }
                job(worker, unit);
            }
        })
    }

    /// As [`run_units`](Self::run_units), but each worker has a contiguous share of the units and goes through it
    /// in order; who is done early takes units of the others' shares. For units that lie beside one another in
    /// memory.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_units_in_order(
        &self,
        units: usize,
        job: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<(), KernelError> {
        if self.threads > MAX_SHARES {
            return self.run_units(units, job);
        }
        let next: [Padded<AtomicUsize>; MAX_SHARES] =
            std::array::from_fn(|worker| Padded(AtomicUsize::new(share(units, self.threads, worker).start)));
        self.run(&|worker| {
            for victim in (worker..self.threads).chain(0..worker) {
                let end = share(units, self.threads, victim).end;
                loop {
                    let unit = next[victim].0.fetch_add(1, Ordering::Relaxed);
                    if unit >= end {
                        break;
                    }
                    job(worker, unit);
                }
            }
        })
    }

    /// Hands `job` to the other workers.
    fn publish(&self, job: &Job<'_>) {
        // SAFETY: only the lifetime changes. `run` does not return before every worker has finished with the
        // reference (it waits for `remaining` to reach 0), so it is never used past the real lifetime.
        let job = unsafe { std::mem::transmute::<&Job<'_>, &'static Job<'static>>(job) };
        // SAFETY: this thread holds `turn`, and `remaining` is 0, so no worker reads the slot.
        unsafe { *self.shared.slot.get() = Slot { job: Some(job), caller: Some(thread::current()) } };
        self.shared.remaining.0.store(self.workers.len(), Ordering::Relaxed);
        self.shared.generation.0.fetch_add(1, Ordering::Release);
        self.wake_all();
    }

    fn wake_all(&self) {
        for worker in &self.workers {
            worker.thread().unpark();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let workers = std::mem::take(&mut self.workers);
        if std::process::id() != self.owner_process {
            // A forked child has no such threads: joining would wait for ever.
            std::mem::forget(workers);
            return;
        }
        self.shared.shutdown.store(true, Ordering::Release);
        for worker in workers {
            worker.thread().unpark();
            // Jobs' panics are caught inside, so a worker ends with Ok.
            drop(worker.join());
        }
    }
}

impl Shared {
    /// The life of a worker other than 0.
    fn work(&self, worker: usize) {
        let Some(_guard) = RunningGuard::enter(self.id) else { return };
        let mut seen = 0;
        loop {
            self.wait(|shared| {
                shared.generation.0.load(Ordering::Acquire) != seen || shared.shutdown.load(Ordering::Acquire)
            });
            let generation = self.generation.0.load(Ordering::Acquire);
            if generation == seen {
                return;
            }
            seen = generation;
            // SAFETY: `generation` was acquired after it changed and this worker has not yet decremented
            // `remaining`, so the slot holds the job and nobody writes it.
            let slot = unsafe { &*self.slot.get() };
            let caller = slot.caller.clone();
            if let Some(job) = slot.job {
                self.run_caught(job, worker);
            }
            if self.remaining.0.fetch_sub(1, Ordering::AcqRel) == 1
                && let Some(caller) = caller
            {
                caller.unpark();
            }
        }
    }

    /// Spins, then sleeps, until `done`. Whoever makes it true unparks this thread afterwards.
    fn wait(&self, done: impl Fn(&Self) -> bool) {
        for round in 1..=self.spin_rounds {
            if done(self) {
                return;
            }
            if round % YIELD_EVERY == 0 {
                thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
        while !done(self) {
            thread::park();
        }
    }

    fn run_caught(&self, job: &Job<'_>, worker: usize) {
        // Unwind safety: after a panic the pool runs nothing more and `run` reports the error.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| job(worker))) {
            // The first message is kept; a second panic of the same job changes nothing.
            drop(self.poison.set(panic_message(payload.as_ref())));
            // A payload's destructor could panic in turn; one leaked payload a worker is the lesser evil.
            std::mem::forget(payload);
        }
    }

    fn check(&self) -> Result<(), KernelError> {
        match self.poison.get() {
            None => Ok(()),
            Some(message) => Err(KernelError::PoolPoisoned { message: message.clone() }),
        }
    }
}

/// Whether this thread's arithmetic keeps subnormal numbers and rounds to nearest, ties to even. Libraries built
/// for speed at any price sometimes switch a process to something else while they are loaded.
fn floats_as_specified() -> bool {
    let [least, tiny, half_step] = std::hint::black_box([f32::MIN_POSITIVE, 1e-45_f32, f32::EPSILON / 2.0]);
    let keeps_results = least * 0.5 > 0.0;
    let keeps_inputs = tiny * 8_388_608.0 > 0.0;
    let to_nearest_even = 1.0 + half_step == 1.0 && 1.0 + half_step * 1.5 > 1.0 && -1.0 - half_step == -1.0;
    keeps_results && keeps_inputs && to_nearest_even
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "no message".to_owned()
    }
}

/// Marks a pool's jobs as running on this thread while it lives.
struct RunningGuard;

impl RunningGuard {
    /// `None` if jobs of that pool run on this thread already, or if the thread is being torn down.
    fn enter(id: u64) -> Option<Self> {
        RUNNING
            .try_with(|running| {
                let mut running = running.borrow_mut();
                (!running.contains(&id)).then(|| running.push(id))
            })
            .ok()
            .flatten()
            .map(|()| Self)
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        // Guards nest, so the last entry is this one. A thread being torn down has no list any more.
        let _ = RUNNING.try_with(|running| running.borrow_mut().pop());
    }
}
