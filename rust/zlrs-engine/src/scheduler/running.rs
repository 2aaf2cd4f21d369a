//! One request while it is computed.

use std::sync::Arc;
use std::time::Duration;

use super::drafting::Guessing;
use super::queue::Job;
use super::ring::Ring;
use super::statistics::Ending;
use super::{Event, FinishReason, Finished, Priority, Timings, Usage};
use crate::exit::RowTrace;
use crate::kv::{Arena, BLOCK_TOKENS, Sequence};
use crate::plan::Candidate;
use crate::prefix::{PartitionKey, Prefix, Tenant};
use crate::ring::{Shown, TokenEvents};
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
    traces: Vec<RowTrace>,
    /// Tokens stored whose traces are taken over.
    settled: usize,
    require_exits: bool,
    guessing: Guessing,
    sampler: Sampler,
    /// What the last step's rows led to: all but the last of them were guessed.
    chosen: Vec<u32>,
    failure: Option<SamplingError>,
    text: TextStream,
    stops: Vec<String>,
    input_tokens: usize,
    /// Prompt tokens that need not be computed; final once work has begun.
    cached_tokens: usize,
    output_tokens: usize,
    budget: super::request::Budget,
    /// Tokens not yet part of a delta, and text.
    unsent_ids: Vec<u32>,
    unsent_text: String,
    token_events: TokenEvents,
    /// What the reader has seen of guesses.
    shown: Shown,
    submitted: Duration,
    /// When work began.
    started: Option<Duration>,
    first_token: Option<Duration>,
    late_at: Option<Duration>,
    /// How it ended, and the last event. That event is sent when the request's memory is free again, so that
    /// a caller who has it finds the counters settled.
    pub ended: Option<(Ending, Event)>,
}

impl Running {
    /// Makes the request's buffers.
    pub fn new(job: Job, vocabulary: usize, arena: &Arena) -> Result<Self, EngineError> {
        let partition = job.request.partition();
        let Job { request, budget, ring, submitted, arrival } = job;
        let mut sampler = Sampler::new(request.sampling, vocabulary)?;
        sampler.observe(&request.ids);
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
        self.output_tokens > 0 && self.sequence.pending().len() == 1
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

    /// The tokens of the answer so far.
    pub fn answer(&self) -> &[u32] {
        &self.sequence.tokens()[self.input_tokens..]
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

    /// Chooses a token at each row of `logits`, as long as the guess behind the row is what was chosen;
    /// [`Running::accept`] comes after.
    pub fn choose(&mut self, logits: &[f32], row_length: usize) {
        self.chosen.clear();
        let first = self.sequence.tokens().len();
        let rows = logits.len() / row_length.max(1);
        for (index, row) in logits.chunks_exact(row_length.max(1)).enumerate() {
            match self.sampler.choose(row, (first + index) as u64) {
                Ok(token) => {
                    self.chosen.push(token);
                    if self.sequence.guesses().get(index) != Some(&token) {
                        break;
                    }
                    self.sampler.observe(&[token]);
                }
                Err(error) => {
                    self.failure = Some(error);
                    break;
                }
            }
        }
        if rows > 1 {
            let right = self.chosen.len().saturating_sub(usize::from(self.failure.is_none()));
            self.judged = Some((rows - 1, right));
        }
    }

    /// The token it would choose at `logits`, so many places behind the certain tokens; changes nothing.
    pub fn would_choose(&mut self, logits: &[f32], place: usize) -> Option<u32> {
        let position = (self.sequence.tokens().len() + place) as u64;
        self.sampler.choose(logits, position).ok()
    }

    /// Tokens the last step has brought.
    pub fn chosen(&self) -> usize {
        self.chosen.len()
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
    fn settle_traces(&mut self) {
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
        }
        self.sequence.set_exit_state(state);
        if self.require_exits && state.is_flapping() && self.ended.is_none() {
            let error = EngineError::ExitInstability { tokens: self.sequence.stored() };
            self.ended = Some((Ending::Failed, Event::Failed(error)));
        }
    }

    /// Takes the chosen tokens, if there are any, and sends what is certain.
    pub fn accept(&mut self, vocabulary: &dyn Vocabulary, now: Duration) {
        let guessed = self.sequence.guesses().len();
        self.sequence.drop_guesses();
        self.settle_traces();
        let chosen = std::mem::take(&mut self.chosen);
        for (index, &token) in chosen.iter().enumerate() {
            // Flapping may have ended it.
            if self.ended.is_none() {
                self.accept_one(token, vocabulary, now);
            }
            if self.ended.is_some() {
                break;
            }
            if index < guessed && (index + 1 < chosen.len() || self.failure.is_some()) {
                // Its row was computed as a guess.
                self.sequence.advance(1);
                self.settle_traces();
            }
        }
        if self.ended.is_none() {
            if let Some(error) = self.failure.take() {
                self.ended = Some((Ending::Failed, Event::Failed(error.into())));
            }
            // Before a failure comes every token there is, so that guesses change nothing a caller sees.
            if !self.unsent_text.is_empty() || (self.ended.is_some() && !self.unsent_ids.is_empty()) {
                self.send_delta();
            }
        }
    }

    fn accept_one(&mut self, token: u32, vocabulary: &dyn Vocabulary, now: Duration) {
        self.first_token.get_or_insert(now);
        if vocabulary.is_end(token) {
            self.finish(FinishReason::Stop, now);
            return;
        }
        self.sequence.push(token);
        self.sampler.observe(&[token]);
        self.output_tokens += 1;
        self.unsent_ids.push(token);
        let before = self.unsent_text.len();
        let stop = if vocabulary.is_control(token) {
            None
        } else {
            self.text.push(vocabulary.token_bytes(token), &mut self.unsent_text)
        };
        if self.token_events != TokenEvents::Off {
            let text = &self.unsent_text[before..];
            self.shown.accept(token, text, |event| self.ring.push(Event::Token(event)));
        }
        if stop.is_some() {
            if self.token_events != TokenEvents::Off {
                self.shown.end("", |event| self.ring.push(Event::Token(event)));
            }
            self.end(FinishReason::StopSequence, stop, now);
        } else if self.output_tokens >= self.budget.tokens {
            let reason = if self.budget.clipped { FinishReason::Context } else { FinishReason::MaxTokens };
            self.finish(reason, now);
        }
    }

    /// Shows the guesses of the coming step to a reader who wants to see them.
    pub fn show_guesses(&mut self, vocabulary: &dyn Vocabulary) {
        let guesses = self.sequence.guesses();
        if self.token_events != TokenEvents::Provisional || guesses.is_empty() || self.ring.is_crowded() {
            return;
        }
        let mut text = self.text.clone();
        let mut is_stopped = false;
        let guesses = guesses.iter().map_while(|&token| {
            let mut piece = String::new();
            if !is_stopped && !vocabulary.is_control(token) {
                is_stopped = text.push(vocabulary.token_bytes(token), &mut piece).is_some();
            } else if is_stopped {
                return None;
            }
            Some((token, piece))
        });
        self.shown.guess(guesses, |event| self.ring.push(Event::Token(event)));
        self.ring.wake();
    }

    /// Sends what is certain.
    fn send_delta(&mut self) {
        let (text, ids) = (std::mem::take(&mut self.unsent_text), std::mem::take(&mut self.unsent_ids));
        self.ring.push(Event::Delta { text, ids });
    }

    /// Ends the request with all text it has: what was held back may complete a stop sequence after all.
    pub fn finish(&mut self, reason: FinishReason, now: Duration) {
        let before = self.unsent_text.len();
        let stop = self.text.finish(&mut self.unsent_text);
        if self.token_events != TokenEvents::Off {
            let rest = &self.unsent_text[before..];
            self.shown.end(rest, |event| self.ring.push(Event::Token(event)));
        }
        match stop {
            Some(stop) => self.end(FinishReason::StopSequence, Some(stop), now),
            None => self.end(reason, None, now),
        }
    }

    fn end(&mut self, reason: FinishReason, stop: Option<usize>, now: Duration) {
        if !self.unsent_text.is_empty() || !self.unsent_ids.is_empty() {
            self.send_delta();
        }
        let started = self.started.unwrap_or(now);
        let first_token = self.first_token.unwrap_or(now);
        let finished = Finished {
            reason,
            stop_sequence: stop.map(|index| self.stops[index].clone()),
            usage: Usage {
                input_tokens: self.input_tokens,
                cached_tokens: self.cached_tokens,
                output_tokens: self.output_tokens,
                drafted_tokens: self.guessing.drafted,
                accepted_tokens: self.guessing.accepted,
            },
            seed: self.sampler.seed(),
            compute: self.sequence.compute(),
            skipped: self.skipped,
            timings: Timings {
                queue: started.saturating_sub(self.submitted),
                prefill: first_token.saturating_sub(started),
                decode: now.saturating_sub(first_token),
                first_token: self
                    .first_token
                    .map_or(Duration::ZERO, |first| first.saturating_sub(self.submitted)),
                kv: self.spent.kv,
                decompress: Duration::ZERO,
                compute: self.spent.compute,
                io: self.spent.io,
            },
        };
        let cancelled = reason == FinishReason::Cancelled;
        let ending = if cancelled { Ending::Cancelled } else { Ending::Finished };
        self.ended = Some((ending, Event::Finished(finished)));
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
    }));
    job.ring.wake();
}
