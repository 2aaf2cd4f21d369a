//! One request while it is computed.

use std::sync::Arc;
use std::time::Duration;

use super::queue::Job;
use super::ring::Ring;
use super::statistics::Ending;
use super::{Event, FinishReason, Finished, Priority, Timings, Usage};
use crate::EngineError;
use crate::kv::{Arena, BLOCK_TOKENS, Sequence};
use crate::plan::Candidate;
use crate::prefix::{PartitionKey, Prefix, Tenant};
use crate::sampling::{Sampler, SamplingError};
use crate::text::TextStream;
use crate::vocabulary::Vocabulary;

pub(super) struct Running {
    pub ring: Arc<Ring>,
    pub sequence: Sequence,
    pub partition: PartitionKey,
    pub priority: Priority,
    /// Place in the order of arrival.
    pub arrival: u64,
    /// Rows of the step that is being planned or computed.
    pub rows: usize,
    sampler: Sampler,
    chosen: Option<Result<u32, SamplingError>>,
    text: TextStream,
    stops: Vec<String>,
    input_tokens: usize,
    /// Prompt tokens that need not be computed; final once work has begun.
    cached_tokens: usize,
    output_tokens: usize,
    budget: super::request::Budget,
    /// Tokens not yet part of a delta.
    unsent_ids: Vec<u32>,
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
            text: TextStream::new(&request.stop)?,
            stops: request.stop,
            input_tokens: request.ids.len(),
            cached_tokens: 0,
            output_tokens: 0,
            sequence: Sequence::new(arena, request.ids),
            sampler,
            chosen: None,
            budget,
            unsent_ids: Vec::new(),
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
        let pending = self.sequence.pending().len();
        Candidate { pending, decoding: pending == 1 }
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

    /// Chooses the next token from its logits; [`Running::accept`] comes after.
    pub fn choose(&mut self, logits: &[f32]) {
        let position = self.sequence.tokens().len() as u64;
        self.chosen = Some(self.sampler.choose(logits, position));
    }

    /// Takes the chosen token, if there is one, and sends what is certain.
    pub fn accept(&mut self, vocabulary: &dyn Vocabulary, now: Duration) {
        let token = match self.chosen.take() {
            None => return,
            Some(Ok(token)) => token,
            Some(Err(error)) => {
                self.ended = Some((Ending::Failed, Event::Failed(error.into())));
                return;
            }
        };
        self.first_token.get_or_insert(now);
        if vocabulary.is_end(token) {
            self.finish(FinishReason::Stop, now);
            return;
        }
        self.sequence.push(token);
        self.sampler.observe(&[token]);
        self.output_tokens += 1;
        self.unsent_ids.push(token);
        let mut text = String::new();
        let stop = if vocabulary.is_control(token) {
            None
        } else {
            self.text.push(vocabulary.token_bytes(token), &mut text)
        };
        if stop.is_some() {
            self.end(FinishReason::StopSequence, stop, text, now);
        } else if self.output_tokens >= self.budget.tokens {
            let reason = if self.budget.clipped { FinishReason::Context } else { FinishReason::MaxTokens };
            self.release(text, reason, now);
        } else if !text.is_empty() {
            self.ring.push(Event::Delta { text, ids: std::mem::take(&mut self.unsent_ids) });
        }
    }

    /// Ends the request with all text it has.
    pub fn finish(&mut self, reason: FinishReason, now: Duration) {
        self.release(String::new(), reason, now);
    }

    /// Adds the text held back, which may complete a stop sequence after all, and ends.
    fn release(&mut self, mut text: String, reason: FinishReason, now: Duration) {
        match self.text.finish(&mut text) {
            Some(stop) => self.end(FinishReason::StopSequence, Some(stop), text, now),
            None => self.end(reason, None, text, now),
        }
    }

    fn end(&mut self, reason: FinishReason, stop: Option<usize>, text: String, now: Duration) {
        if !text.is_empty() || !self.unsent_ids.is_empty() {
            self.ring.push(Event::Delta { text, ids: std::mem::take(&mut self.unsent_ids) });
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
            },
            seed: self.sampler.seed(),
            timings: Timings {
                queue: started.saturating_sub(self.submitted),
                prefill: first_token.saturating_sub(started),
                decode: now.saturating_sub(first_token),
                first_token: self
                    .first_token
                    .map_or(Duration::ZERO, |first| first.saturating_sub(self.submitted)),
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
        timings: Timings { queue: now.saturating_sub(job.submitted), ..Timings::default() },
    }));
    job.ring.wake();
}
