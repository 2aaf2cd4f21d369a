//! One request while it is computed.

use std::sync::Arc;
use std::time::Duration;

use super::checked::Checked;
use super::drafting::Guessing;
use super::queue::Job;
use super::ring::Ring;
use super::statistics::Ending;
use super::{Event, FinishReason, Finished, Priority, Timings, Usage};
use crate::exit::RowTrace;
use crate::kv::{Arena, BLOCK_TOKENS, Sequence};
use crate::plan::Candidate;
use crate::prefix::{PartitionKey, Prefix, Tenant};
use crate::ring::{Checker, Shown, TokenEvents};
use crate::sampling::{Sampler, SamplingError};
use crate::text::TextStream;
use crate::vocabulary::Vocabulary;
use crate::{EngineError, Skipped};

/// Time spent on a request.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spent {
    pub kv: Duration,
    pub compute: Duration,
    pub io: Duration,
}

pub(super) struct Running {
    pub ring: Arc<Ring>,
    pub sequence: Sequence,
    pub partition: PartitionKey,
    pub priority: Priority,
    /// Place in the order of arrival.
    pub arrival: u64,
    /// Rows of the step that is being planned or computed.
    pub rows: usize,
    /// Guesses and right ones of the last step, until they are counted.
    pub judged: Option<(usize, usize)>,
    /// Time spent on it by part.
    pub spent: Spent,
    /// What was left out.
    pub skipped: Skipped,
    /// What became of the rows of the last step, if any of them could leave.
    pub(super) traces: Vec<RowTrace>,
    /// Tokens stored whose traces are taken over.
    pub(super) settled: usize,
    pub(super) require_exits: bool,
    pub(super) guessing: Guessing,
    pub(super) sampler: Sampler,
    /// What the last step's rows led to: all but the last of them were guessed.
    pub(super) chosen: Vec<u32>,
    pub(super) failure: Option<SamplingError>,
    pub(super) text: TextStream,
    pub(super) stops: Vec<String>,
    pub(super) input_tokens: usize,
    /// Prompt tokens that need not be computed; final once work has begun.
    pub(super) cached_tokens: usize,
    pub(super) output_tokens: usize,
    pub(super) budget: super::request::Budget,
    /// Tokens not yet part of a delta, and text.
    pub(super) unsent_ids: Vec<u32>,
    pub(super) unsent_text: String,
    pub(super) token_events: TokenEvents,
    /// What the reader has seen of guesses.
    pub(super) shown: Shown,
    /// What follows the answer and may send it back, where that is asked for.
    pub(super) checked: Option<Box<Checked>>,
    pub(super) submitted: Duration,
    /// When work began.
    pub(super) started: Option<Duration>,
    pub(super) first_token: Option<Duration>,
    pub(super) late_at: Option<Duration>,
    /// How it ended, and the last event. That event is sent when the request's memory is free again, so that
    /// a caller who has it finds the counters settled.
    pub ended: Option<(Ending, Event)>,
}

impl Running {
    /// Makes the request's buffers.
    pub fn new(
        job: Job,
        vocabulary: &dyn Vocabulary,
        logits: usize,
        arena: &Arena,
    ) -> Result<Self, EngineError> {
        let partition = job.request.partition();
        let Job { request, budget, ring, submitted, arrival } = job;
        let mut sampler = Sampler::new(request.sampling, logits)?;
        sampler.observe(&request.ids);
        let checked = request.validation.map(|validation| {
            let text: Vec<u8> = request
                .ids
                .iter()
                .filter(|&&id| !vocabulary.is_control(id))
                .flat_map(|&id| vocabulary.token_bytes(id).iter().copied())
                .collect();
            let source = String::from_utf8_lossy(&text).into_owned();
            Box::new(Checked::new(Checker::new(validation, source).within(budget.tokens)))
        });
        Ok(Self {
            ring,
            partition,
            priority: request.priority,
            arrival,
            rows: 0,
            judged: None,
            spent: Spent::default(),
            guessing: Guessing::default(),
            text: TextStream::new(&request.stop)?,
            stops: request.stop,
            input_tokens: request.ids.len(),
            cached_tokens: 0,
            output_tokens: 0,
            sequence: Sequence::new(arena, request.ids).with_compute(request.compute),
            skipped: Skipped::default(),
            traces: Vec::new(),
            settled: 0,
            require_exits: request.require_exits,
            sampler,
            chosen: Vec::new(),
            failure: None,
            budget,
            unsent_ids: Vec::new(),
            unsent_text: String::new(),
            token_events: request.token_events,
            shown: Shown::default(),
            checked,
            submitted,
            started: None,
            first_token: None,
            late_at: request.deadline.map(|deadline| submitted.saturating_add(deadline)),
            ended: None,
        })
    }

    pub fn tenant(&self) -> &Tenant {
        &self.partition.tenant
    }

    pub fn candidate(&self) -> Candidate {
        let guesses = self.sequence.guesses().len();
        let pending = self.sequence.pending().len() - guesses;
        Candidate { pending, guesses, decoding: pending == 1 }
    }

    /// Whether the prompt is done and one token is pending.
    pub fn is_answering(&self) -> bool {
        self.output_tokens > 0 && self.is_next()
    }

    /// Whether one certain token is pending, so that the coming step says what follows: the last of an answer, or of
    /// a prompt that is known but for it.
    pub fn is_next(&self) -> bool {
        self.sequence.pending().len() == 1
    }

    /// Whether the next token is bound, so that nothing is guessed.
    pub fn is_bound(&self) -> bool {
        self.checked.as_ref().is_some_and(|checked| checked.is_bound())
    }

    /// Whether it wants to see the model's last states.
    pub fn reads_states(&self) -> bool {
        self.checked.as_ref().is_some_and(|checked| checked.has_head())
    }

    /// Tokens it may still get.
    pub fn tokens_left(&self) -> usize {
        self.budget.tokens - self.output_tokens
    }

    /// Tokens it may get in all.
    pub fn tokens_allowed(&self) -> usize {
        self.budget.tokens
    }

    /// Its guesses, and what they are made from.
    pub fn guessing(&mut self) -> (&mut Guessing, &Sequence, &Tenant) {
        (&mut self.guessing, &self.sequence, &self.partition.tenant)
    }

    /// The tokens of the prompt.
    pub fn prompt(&self) -> &[u32] {
        &self.sequence.tokens()[..self.input_tokens]
    }

    /// The tokens of the answer so far, behind the last `tokens` of the prompt; nothing while there is no answer.
    pub fn exchange(&self, tokens: usize) -> &[u32] {
        let from = if self.output_tokens == 0 {
            self.sequence.tokens().len()
        } else {
            self.input_tokens.saturating_sub(tokens)
        };
        &self.sequence.tokens()[from..]
    }

    /// Blocks it still takes to compute what is known of the sequence and the tokens after that.
    pub fn blocks_wanted(&self) -> usize {
        self.sequence.blocks_wanted(self.sequence.tokens().len() + BLOCK_TOKENS)
    }

    /// Takes over what another request has computed, if it is more than this one has.
    pub fn adopt(&mut self, prefix: Prefix) -> bool {
        let is_more = prefix.tokens > self.sequence.stored();
        if is_more {
            self.sequence.adopt(prefix.tokens, prefix.blocks);
        }
        is_more
    }

    pub fn is_started(&self) -> bool {
        self.started.is_some()
    }

    /// Work begins: what has been taken over until now is what the request did not have to compute. Returns that
    /// number of tokens.
    pub fn start(&mut self, now: Duration) -> usize {
        self.started = Some(now);
        self.cached_tokens = self.sequence.stored();
        let (input_tokens, cached_tokens) = (self.input_tokens, self.cached_tokens);
        self.ring.push(Event::Started { input_tokens, cached_tokens });
        self.ring.wake();
        cached_tokens
    }

    /// Why the request should end now whatever the model says.
    pub fn interruption(&self, now: Duration) -> Option<FinishReason> {
        if self.ring.is_cancelled() {
            Some(FinishReason::Cancelled)
        } else if self.late_at.is_some_and(|late_at| now >= late_at) {
            Some(FinishReason::Deadline)
        } else {
            None
        }
    }

    /// Whether a position belongs to the prompt.
    pub fn is_prompt(&self, position: u32) -> bool {
        (position as usize) < self.input_tokens
    }

    /// Whether choosing a token takes much longer than finding the largest logit.
    pub fn is_sampled(&self) -> bool {
        self.sampler.is_sampled()
    }

    /// A step is going to store tokens.
    pub fn begin_step(&mut self) {
        self.settled = self.sequence.stored();
        self.traces.clear();
    }

    /// What became of the next row of the step.
    pub fn trace(&mut self, trace: RowTrace) {
        self.traces.push(trace);
    }

    /// Takes over what became of the rows that stay: those of wrong guesses never were.
    pub(super) fn settle_traces(&mut self) {
        let kept = self.sequence.stored().saturating_sub(self.settled).min(self.traces.len());
        if kept == 0 {
            return;
        }
        self.settled += kept;
        let mut state = self.sequence.exit_state();
        for trace in self.traces.drain(..kept) {
            state.advance(trace);
            self.skipped.tokens += usize::from(trace.skipped_layers > 0);
            self.skipped.row_layers += usize::from(trace.skipped_layers);
            self.skipped.most_layers = self.skipped.most_layers.max(usize::from(trace.skipped_layers));
        }
        self.sequence.set_exit_state(state);
        if self.require_exits && state.is_flapping() && self.ended.is_none() {
            let error = EngineError::ExitInstability { tokens: self.sequence.stored() };
            self.ended = Some((Ending::Failed, Event::Failed(error)));
        }
    }
}

/// Ends a request that never ran.
pub(super) fn finish_waiting(job: &Job, reason: FinishReason, now: Duration) {
    job.ring.push(Event::Finished(Finished {
        reason,
        stop_sequence: None,
        usage: Usage { input_tokens: job.request.ids.len(), ..Usage::default() },
        seed: job.request.sampling.seed.unwrap_or(0),
        compute: job.request.compute,
        skipped: Skipped::default(),
        timings: Timings { queue: now.saturating_sub(job.submitted), ..Timings::default() },
        notes: Vec::new(),
    }));
    job.ring.wake();
}
