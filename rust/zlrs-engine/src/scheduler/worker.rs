//! The engine thread: admit, plan, step, emit.
//!
//! The four rooms know nothing of each other but the list of running requests and the plan between them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use super::Event;
use super::fairness::Fairness;
use super::queue::Queue;
use super::running::Running;
use super::statistics::{Counters, Ending, add};
use crate::EngineError;
use crate::backend::{Backend, BackendError};
use crate::clock::Clock;
use crate::kv::{Arena, ArenaError, BLOCK_TOKENS, Sequence};
use crate::plan::{Candidate, Plan, Planner};
use crate::prefix::PrefixCache;
use crate::vocabulary::Vocabulary;

pub(super) struct Worker {
    pub queue: Arc<Queue>,
    pub counters: Arc<Counters>,
    pub clock: Arc<dyn Clock>,
    pub vocabulary: Arc<dyn Vocabulary>,
    pub backend: Box<dyn Backend>,
    pub planner: Box<dyn Planner>,
    pub arena: Arena,
    /// Changed by this thread only; others count what is in it.
    pub prefixes: Arc<Mutex<PrefixCache>>,
    pub running_limit: usize,
    /// Threads that choose tokens.
    pub threads: usize,
    /// In the order of their claims.
    pub running: Vec<Running>,
    /// Made way for others; they hold no blocks.
    pub paused: Vec<Running>,
    pub fairness: Fairness,
    pub plan: Plan,
    /// Rows of the coming step by running request.
    pub rows: Vec<usize>,
    /// The last step failed in a way that may have broken the backend.
    pub needs_recovery: bool,
}

impl Worker {
    /// Serves until the queue is closed. A panic costs the running requests, never the thread.
    pub fn serve(mut self) {
        loop {
            let result = catch_unwind(AssertUnwindSafe(|| self.iterate()));
            match result {
                Ok(true) => {}
                Ok(false) => break,
                Err(panic) => {
                    self.needs_recovery = true;
                    // Whatever was being changed may be torn.
                    self.prefixes().clear();
                    self.fail_running(&Failure::Panic(panic_message(&*panic)));
                }
            }
        }
        self.running.append(&mut self.paused);
        self.fail_running(&Failure::Closed);
        for job in self.queue.close() {
            job.ring.push(Event::Failed(EngineError::Closed));
            job.ring.wake();
        }
        self.prefixes().clear();
    }

    /// One pass through the rooms; false when the engine closes.
    fn iterate(&mut self) -> bool {
        self.do_chores();
        self.sweep();
        if !self.admit() {
            return false;
        }
        if self.running.is_empty() {
            return true;
        }
        match self.plan() {
            Ok(()) => self.step(),
            Err(error) => self.fail_running(&Failure::Step(error.to_string())),
        }
        true
    }

    /// Decides what the coming step computes, with blocks for all of it.
    fn plan(&mut self) -> Result<(), ArenaError> {
        loop {
            self.hand_out_rows();
            let rows = self.running.iter().map(|running| (running, running.sequence.stored() + running.rows));
            let wanted = rows.map(|(running, tokens)| running.sequence.blocks_wanted(tokens)).sum();
            let nothing_left = self.running.len() == 1 && self.prefixes().is_empty();
            if self.make_room(wanted) {
                break;
            }
            if nothing_left {
                let (free, total) = (self.arena.free_blocks(), self.arena.blocks());
                return Err(ArenaError::Full { wanted, free, total });
            }
        }
        self.plan.clear();
        let mut sequences: Vec<&mut Sequence> =
            self.running.iter_mut().map(|running| &mut running.sequence).collect();
        self.planner.fill(&mut sequences, &self.rows, &mut self.plan)?;
        self.start_new(self.clock.now());
        Ok(())
    }

    /// Asks the planner for the rows of every running request. A prompt that gets its first ones now first takes
    /// over what others have computed since it was admitted.
    fn hand_out_rows(&mut self) {
        loop {
            let candidates: Vec<Candidate> = self.running.iter().map(Running::candidate).collect();
            self.rows.clear();
            self.planner.rows(&candidates, &mut self.rows);
            self.rows.resize(candidates.len(), 0);
            let mut has_more = false;
            let mut running = std::mem::take(&mut self.running);
            for (running, &rows) in running.iter_mut().zip(&self.rows) {
                running.rows = rows;
                has_more |= rows > 0 && !running.is_started() && self.reuse(running);
            }
            self.running = running;
            if !has_more {
                return;
            }
        }
    }

    /// Computes the plan, then hands each request its logits.
    fn step(&mut self) {
        if self.needs_recovery {
            add(&self.counters.recoveries, 1);
            if let Err(error) = self.backend.recover() {
                self.fail_running(&error.into());
                return;
            }
            self.needs_recovery = false;
        }
        // A step ends early when at least half of its rows are for nobody: what the others lose by it is no
        // more than what they would wait for.
        let interrupt = || {
            let now = self.clock.now();
            let dead = self.running.iter().filter(|running| running.interruption(now).is_some());
            let dead_rows: usize = dead.map(|running| running.rows).sum();
            self.queue.is_closed() || (dead_rows > 0 && 2 * dead_rows >= self.plan.rows().len())
        };
        match self.backend.step(&self.plan, &interrupt) {
            Ok(logits) => {
                add(&self.counters.steps, 1);
                let vocabulary = &*self.vocabulary;
                record(&mut self.running, &self.plan, &self.counters);
                choose(&mut self.running, &self.plan, logits, self.threads);
                let now = self.clock.now();
                self.running.iter_mut().for_each(|running| running.accept(vocabulary, now));
                self.keep_prompts();
            }
            // The reason is found, and acted on, by the next sweep.
            Err(BackendError::Interrupted) => {}
            Err(error) => {
                self.needs_recovery = true;
                self.fail_running(&error.into());
            }
        }
        self.clear_ended();
    }

    /// Charges the step to its tenants and shares the prompts' new blocks at once, so that a request with the
    /// same beginning need not wait for the end of this one.
    fn keep_prompts(&mut self) {
        for running in &self.running {
            self.fairness.charge(running.tenant(), running.rows);
            let stored = running.sequence.stored();
            let before = stored.saturating_sub(running.rows);
            if running.rows > 1 && running.ended.is_none() && before / BLOCK_TOKENS < stored / BLOCK_TOKENS {
                self.keep(running, true);
            }
        }
    }

    /// Fails every running request for the same reason.
    fn fail_running(&mut self, error: &Failure) {
        for running in &mut self.running {
            if running.ended.is_none() {
                running.ended = Some((Ending::Failed, Event::Failed(error.to_error())));
            }
        }
        self.clear_ended();
    }
}

/// Records what the step stored.
fn record(running: &mut [Running], plan: &Plan, counters: &Counters) {
    for row in plan.rows() {
        let running = &mut running[row.sequence as usize];
        running.sequence.advance(1);
        if running.is_prompt(row.position) {
            add(&counters.tokens_prefilled, 1);
        }
    }
    add(&counters.tokens_decoded, plan.logits_rows());
}

/// Chooses a token from every row of logits. Draws from weights are shared among threads: each is a matter of
/// its own request alone.
fn choose(running: &mut [Running], plan: &Plan, logits: &[f32], threads: usize) {
    let row_length = logits.len() / plan.logits_rows().max(1);
    let mut rows = logits.chunks_exact(row_length.max(1));
    let mut by_sequence = vec![None; running.len()];
    for row in plan.rows().iter().filter(|row| row.wants_logits) {
        by_sequence[row.sequence as usize] = rows.next();
    }
    let with_logits = running.iter_mut().zip(by_sequence).filter_map(|(running, row)| Some((running, row?)));
    let (mut slow, quick): (Vec<_>, Vec<_>) = with_logits.partition(|(running, _)| running.is_sampled());
    let share = slow.len().div_ceil(threads.max(1)).max(1);
    let choose_all = |rows: &mut [(&mut Running, &[f32])]| {
        for (running, logits) in rows {
            running.choose(logits);
        }
    };
    std::thread::scope(|scope| {
        let mut shares = slow.chunks_mut(share);
        let own = shares.next();
        for other in shares {
            scope.spawn(move || choose_all(other));
        }
        for (running, logits) in quick {
            running.choose(logits);
        }
        own.into_iter().for_each(choose_all);
    });
}

/// A failure that several requests share.
enum Failure {
    Closed,
    Step(String),
    Panic(String),
}

impl Failure {
    fn to_error(&self) -> EngineError {
        match self {
            Self::Closed => EngineError::Closed,
            Self::Step(message) => EngineError::Step { message: message.clone() },
            Self::Panic(message) => EngineError::Panicked { message: message.clone() },
        }
    }
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        Self::Step(error.to_string())
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
