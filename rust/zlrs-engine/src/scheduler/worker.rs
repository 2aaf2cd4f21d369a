//! The engine thread: admit, plan, step, emit.
//!
//! The four rooms know nothing of each other but the list of running requests and the plan between them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::queue::{Job, Queue};
use super::running::{Running, finish_waiting};
use super::statistics::{Counters, Ending, add};
use super::{Event, FinishReason};
use crate::EngineError;
use crate::backend::{Backend, BackendError};
use crate::clock::Clock;
use crate::kv::{Arena, ArenaError, Sequence};
use crate::plan::{Plan, Planner};
use crate::vocabulary::Vocabulary;

/// Requests computed at once.
const RUNNING_LIMIT: usize = 1;

pub(super) struct Worker {
    pub queue: Arc<Queue>,
    pub counters: Arc<Counters>,
    pub clock: Arc<dyn Clock>,
    pub vocabulary: Arc<dyn Vocabulary>,
    pub backend: Box<dyn Backend>,
    pub planner: Box<dyn Planner>,
    pub arena: Arena,
    pub running: Vec<Running>,
    pub plan: Plan,
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
                    self.fail_running(&Failure::Panic(panic_message(&*panic)));
                }
            }
        }
        self.fail_running(&Failure::Closed);
        for job in self.queue.close() {
            job.ring.push(Event::Failed(EngineError::Closed));
            job.ring.wake();
        }
    }

    /// One pass through the rooms; false when the engine closes.
    fn iterate(&mut self) -> bool {
        if !self.admit() {
            return false;
        }
        self.sweep();
        if self.running.is_empty() {
            return true;
        }
        match self.plan() {
            Ok(()) => self.step(),
            Err(error) => self.fail_running(&Failure::Step(error.to_string())),
        }
        true
    }

    /// Takes requests from the queue while there is room; waits for one when there is nothing to do.
    fn admit(&mut self) -> bool {
        if self.running.is_empty() {
            let Some(job) = self.queue.next() else { return false };
            self.start(job);
        }
        while self.running.len() < RUNNING_LIMIT {
            let Some(job) = self.queue.try_next() else { break };
            self.start(job);
        }
        !self.queue.is_closed()
    }

    fn start(&mut self, job: Job) {
        let now = self.clock.now();
        if job.ring.is_cancelled() || job.is_late(now) {
            self.dismiss(&job);
            return;
        }
        let ring = Arc::clone(&job.ring);
        ring.push(Event::Started { input_tokens: job.request.ids.len() });
        match Running::new(job, self.backend.shape().vocabulary, &self.arena, now) {
            Ok(running) => {
                self.running.push(running);
                self.counters.running.store(self.running.len() as u64, Ordering::Relaxed);
            }
            Err(error) => {
                self.counters.count(Ending::Failed);
                ring.push(Event::Failed(error));
            }
        }
        ring.wake();
    }

    /// Ends requests, waiting or running, that were cancelled or are late.
    fn sweep(&mut self) {
        let now = self.clock.now();
        for job in self.queue.sweep(now) {
            self.dismiss(&job);
        }
        let mut some_ended = false;
        for running in &mut self.running {
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

    /// Asks the planner what the coming step computes.
    fn plan(&mut self) -> Result<(), ArenaError> {
        self.plan.clear();
        let mut sequences: Vec<&mut Sequence> =
            self.running.iter_mut().map(|running| &mut running.sequence).collect();
        self.planner.plan(&mut sequences, &mut self.plan)
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
        // A step that nobody waits for any more ends early; one that somebody waits for does not.
        let interrupt = || {
            let now = self.clock.now();
            self.queue.is_closed() || self.running.iter().all(|running| running.interruption(now).is_some())
        };
        match self.backend.step(&self.plan, &interrupt) {
            Ok(logits) => {
                add(&self.counters.steps, 1);
                let vocabulary = &*self.vocabulary;
                emit(&mut self.running, &self.plan, logits, vocabulary, &self.counters, self.clock.now());
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

    /// Fails every running request for the same reason.
    fn fail_running(&mut self, error: &Failure) {
        for running in &mut self.running {
            if running.ended.is_none() {
                running.ended = Some((Ending::Failed, Event::Failed(error.to_error())));
            }
        }
        self.clear_ended();
    }

    /// Lets go of the requests that have ended, wakes the readers of all.
    fn clear_ended(&mut self) {
        let mut index = 0;
        while let Some(running) = self.running.get_mut(index) {
            let Some((ending, event)) = running.ended.take() else {
                running.ring.wake();
                index += 1;
                continue;
            };
            let ring = Arc::clone(&running.ring);
            drop(self.running.remove(index));
            self.counters.count(ending);
            self.counters.running.store(self.running.len() as u64, Ordering::Relaxed);
            ring.push(event);
            ring.wake();
        }
    }
}

/// Records what the step stored, chooses a token from every row of logits and sends what is certain.
fn emit(
    running: &mut [Running],
    plan: &Plan,
    logits: &[f32],
    vocabulary: &dyn Vocabulary,
    counters: &Counters,
    now: Duration,
) {
    let row_length = logits.len() / plan.logits_rows().max(1);
    let mut logits = logits.chunks_exact(row_length.max(1));
    for row in plan.rows() {
        let running = &mut running[row.sequence as usize];
        running.sequence.advance(1);
        if running.is_prompt(row.position) {
            add(&counters.tokens_prefilled, 1);
        }
        if row.wants_logits
            && let Some(logits) = logits.next()
        {
            add(&counters.tokens_decoded, 1);
            running.accept(logits, vocabulary, now);
        }
    }
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
