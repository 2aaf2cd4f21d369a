//! The engine thread: admit, plan, step, emit.
//!
//! The four rooms know nothing of each other but the list of running requests and the plan between them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::Event;
use super::choosing::{Said, choose};
use super::drafting::Drafts;
use super::fairness::Fairness;
use super::pace::Pace;
use super::queue::Queue;
use super::running::Running;
use super::shallow::Shallow;
use super::statistics::{Counters, Ending, add};
use crate::EngineError;
use crate::backend::{Backend, BackendError};
use crate::clock::Clock;
use crate::exit::RowTrace;
use crate::kv::{Arena, ArenaError, BLOCK_TOKENS, Sequence};
use crate::plan::{Candidate, Plan, Planner};
use crate::prefix::PrefixCache;
use crate::vocabulary::Vocabulary;

/// How long to wait for memory that others hold before looking again.
const LENT_WAIT: Duration = Duration::from_millis(2);

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
    /// In the order of their claims.
    pub running: Vec<Running>,
    /// Made way for others; they hold no blocks.
    pub paused: Vec<Running>,
    pub fairness: Fairness,
    pub drafting: Drafts,
    pub shallow: Shallow,
    pub pace: Pace,
    pub plan: Plan,
    /// Rows of the coming step by running request.
    pub rows: Vec<usize>,
    /// The last step failed in a way that may have broken the backend.
    pub needs_recovery: bool,
    /// The model's last states of a step, where somebody reads them.
    pub states: Arc<Mutex<Vec<f32>>>,
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
        if let Err(error) = self.guess() {
            self.needs_recovery = true;
            self.fail_running(&error.into());
            return true;
        }
        match self.plan() {
            Ok(()) => self.step(),
            // A state that is being saved or restored gives its memory back by itself.
            Err(_) if self.memory_is_lent() => std::thread::sleep(LENT_WAIT),
            Err(error) => self.fail_running(&Failure::Step(error.to_string())),
        }
        true
    }

    /// Whether others than running requests hold blocks, once nothing is kept for reuse.
    fn memory_is_lent(&self) -> bool {
        let held: usize = self.running.iter().map(|running| running.sequence.blocks().len()).sum();
        self.prefixes().is_empty() && self.arena.blocks() - self.arena.free_blocks() > held
    }

    /// Decides what the coming step computes, with blocks for all of it.
    fn plan(&mut self) -> Result<(), ArenaError> {
        let begun = self.clock.now();
        loop {
            self.hand_out_rows();
            let rows = self.running.iter().map(|running| (running, running.sequence.stored() + running.rows));
            let wanted = rows.map(|(running, tokens)| running.sequence.blocks_wanted(tokens)).sum();
            let nothing_left = self.running.len() == 1 && self.prefixes().is_empty();
            // Nobody makes way for guesses.
            if self.evict_for(wanted) || (!self.drop_guesses() && self.make_room(wanted)) {
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
        let now = self.clock.now();
        for running in self.running.iter_mut().filter(|running| running.rows > 0) {
            running.spent.kv += now.saturating_sub(begun);
        }
        self.start_new(now);
        for running in &mut self.running {
            running.show_guesses(&*self.vocabulary);
        }
        Ok(())
    }

    /// Asks the planner for the rows of every running request. A prompt that gets its first ones now first takes
    /// over what others have computed since it was admitted.
    fn hand_out_rows(&mut self) {
        loop {
            let mut candidates: Vec<Candidate> = self.running.iter().map(Running::candidate).collect();
            for (index, candidate) in candidates.iter_mut().enumerate() {
                if self.waits_for_prefix(index) {
                    (candidate.pending, candidate.guesses) = (0, 0);
                }
            }
            self.rows.clear();
            self.planner.rows(&candidates, &mut self.rows);
            self.rows.resize(candidates.len(), 0);
            self.pace.shorten(&candidates, &mut self.rows);
            let mut has_more = false;
            for index in 0..self.running.len() {
                let rows = self.rows[index];
                self.running[index].rows = rows;
                if rows > 0 && !self.running[index].is_started() {
                    let prefix = self.known(&self.running[index]);
                    has_more |= self.running[index].adopt(prefix);
                }
            }
            if !has_more {
                return;
            }
        }
    }

    /// Whether a prompt that has not begun had better wait, because one before it computes the beginning they
    /// share.
    fn waits_for_prefix(&self, index: usize) -> bool {
        let waiting = &self.running[index];
        if waiting.is_started() {
            return false;
        }
        let (own, known) = (waiting.sequence.tokens(), waiting.sequence.stored());
        self.running[..index].iter().any(|other| {
            let (prompt, stored) = (other.prompt(), other.sequence.stored());
            // Whole blocks are shared while a prompt goes on; the last token is always computed.
            let whole = |tokens: usize| tokens / BLOCK_TOKENS * BLOCK_TOKENS;
            let possible = whole(prompt.len().min(own.len().saturating_sub(1)));
            if possible <= stored.max(known) || waiting.partition != other.partition || other.ended.is_some()
            {
                return false;
            }
            let common =
                own.iter().zip(&prompt[..possible]).take_while(|(left, right)| left == right).count();
            whole(common) > stored.max(known)
        })
    }

    /// Computes the plan, then hands each request its logits.
    fn step(&mut self) {
        if self.needs_recovery && !self.recover() {
            return;
        }
        self.running.iter_mut().for_each(Running::begin_step);
        // A step ends early when at least half of its rows are for nobody: what the others lose by it is no
        // more than what they would wait for.
        let interrupt = || {
            let now = self.clock.now();
            let dead = self.running.iter().filter(|running| running.interruption(now).is_some());
            let dead_rows: usize = dead.map(|running| running.rows).sum();
            self.queue.is_closed() || (dead_rows > 0 && 2 * dead_rows >= self.plan.rows().len())
        };
        let reads_states = self.running.iter().any(Running::reads_states);
        self.backend.keep_states(reads_states.then(|| Arc::clone(&self.states)));
        let begun = self.clock.now();
        let pool = self.backend.pool();
        match self.backend.step(&self.plan, &interrupt) {
            Ok(logits) => {
                add(&self.counters.steps, 1);
                record(&mut self.running, &self.plan, &self.counters);
                let computed = self.clock.now();
                let result = {
                    let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
                    let states = if reads_states { &states[..] } else { &[] };
                    let said = Said { logits, states, vocabulary: &*self.vocabulary };
                    choose(&mut self.running, &self.plan, said, pool.as_deref())
                };
                note_traces(&mut self.running, &self.plan, self.backend.traces());
                let now = self.clock.now();
                match result {
                    Ok(()) => self.emit(begun, computed, now),
                    Err(error) => {
                        self.needs_recovery = true;
                        self.fail_running(&Failure::Step(error.to_string()));
                    }
                }
            }
            // The reason is found, and acted on, by the next sweep.
            Err(BackendError::Interrupted) => {}
            Err(error) => {
                self.needs_recovery = true;
                let of_device = matches!(error, BackendError::Device(_) | BackendError::DeviceFull(_));
                if of_device {
                    // Blocks that others would read may have been changed by half.
                    self.prefixes().clear();
                }
                self.fail_running(&error.into());
                // Probes must hear of a dead device before the next request does.
                if of_device {
                    self.recover();
                }
            }
        }
        self.clear_ended();
    }

    /// Makes the backend usable again; whether it is.
    fn recover(&mut self) -> bool {
        add(&self.counters.recoveries, 1);
        let result = self.backend.recover();
        self.needs_recovery = result.is_err();
        self.counters.backend_lost.store(u64::from(self.needs_recovery), Ordering::Relaxed);
        if let Err(error) = result {
            self.fail_running(&error.into());
        }
        !self.needs_recovery
    }

    /// Counts what the step took, sends what was chosen, shares what was stored.
    fn emit(&mut self, begun: Duration, computed: Duration, now: Duration) {
        let took = computed.saturating_sub(begun);
        self.pace.measured(self.plan.rows().len(), took);
        self.learn_costs(took);
        let mut at = now;
        for running in &mut self.running {
            if running.rows > 0 {
                running.spent.compute += now.saturating_sub(begun);
            }
            add(&self.counters.tokens_decoded, running.chosen());
            running.accept(&*self.vocabulary, now);
            let after = self.clock.now();
            running.spent.io += after.saturating_sub(at);
            at = after;
        }
        self.keep_prompts();
    }

    /// Charges the step to its tenants and shares the prompts' new blocks at once, so that a request with the
    /// same beginning need not wait for the end of this one.
    fn keep_prompts(&mut self) {
        for index in 0..self.running.len() {
            let running = &self.running[index];
            self.fairness.charge(running.tenant(), running.rows);
            let stored = running.sequence.stored();
            let before = stored.saturating_sub(running.rows);
            if running.is_prompt(before as u32)
                && running.ended.is_none()
                && before / BLOCK_TOKENS < stored / BLOCK_TOKENS
            {
                let begun = self.clock.now();
                self.keep(running, true);
                self.running[index].spent.kv += self.clock.now().saturating_sub(begun);
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
}

/// Hands each request what became of its rows.
fn note_traces(running: &mut [Running], plan: &Plan, traces: &[RowTrace]) {
    for (row, &trace) in plan.rows().iter().zip(traces) {
        running[row.sequence as usize].trace(trace);
    }
}

/// A failure that several requests share.
enum Failure {
    Closed,
    Step(String),
    Full(String),
    Panic(String),
}

impl Failure {
    fn to_error(&self) -> EngineError {
        match self {
            Self::Closed => EngineError::Closed,
            Self::Step(message) => EngineError::Step { message: message.clone() },
            Self::Full(message) => EngineError::StepFull { message: message.clone() },
            Self::Panic(message) => EngineError::Panicked { message: message.clone() },
        }
    }
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        match error {
            BackendError::DeviceFull(error) => Self::Full(error.to_string()),
            error => Self::Step(error.to_string()),
        }
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
