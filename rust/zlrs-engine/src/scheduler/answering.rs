//! From chosen tokens to what a request's reader gets.

use std::time::Duration;

use super::checked::Return;
use super::choosing::Said;
use super::running::Running;
use super::statistics::Ending;
use super::{Event, FinishReason, Finished, Timings, Usage};
use crate::ring::TokenEvents;
use crate::vocabulary::Vocabulary;

impl Running {
    /// Chooses a token at each row of `logits`, as long as the guess behind the row is what was chosen;
    /// [`Running::accept`] comes after.
    pub fn choose(&mut self, said: Said<'_>, row_length: usize) {
        self.chosen.clear();
        let first = self.sequence.tokens().len();
        let rows = said.logits.len() / row_length.max(1);
        let state_length = said.states.len() / rows.max(1);
        if let Some(checked) = &mut self.checked {
            checked.begin_step();
        }
        for (index, row) in said.logits.chunks_exact(row_length.max(1)).enumerate() {
            let bound = self.checked.as_ref().and_then(|checked| checked.bound_choice(row, said.vocabulary));
            let choice = match bound {
                Some(token) => Ok(token),
                None => self.sampler.choose(row, (first + index) as u64),
            };
            match choice {
                Ok(token) => {
                    self.chosen.push(token);
                    if let Some(checked) = self.checked.as_mut().filter(|checked| checked.has_head()) {
                        let state = said.states.get(index * state_length..(index + 1) * state_length);
                        checked.chose(token, row, state.filter(|state| !state.is_empty()));
                    }
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

    /// Takes the chosen tokens, if there are any, and sends what is certain.
    pub fn accept(&mut self, vocabulary: &dyn Vocabulary, now: Duration) {
        let guessed = self.sequence.guesses().len();
        self.sequence.drop_guesses();
        self.settle_traces();
        let chosen = std::mem::take(&mut self.chosen);
        for (index, &token) in chosen.iter().enumerate() {
            // Flapping may have ended it.
            if self.ended.is_some() || !self.accept_one(token, vocabulary, now) {
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
                // Tokens without text too: how many there are must not depend on what was guessed.
                self.send_all();
                self.ended = Some((Ending::Failed, Event::Failed(error.into())));
            }
            self.send_delta();
        }
    }

    /// Takes one token; whether the next one may follow it.
    fn accept_one(&mut self, token: u32, vocabulary: &dyn Vocabulary, now: Duration) -> bool {
        self.first_token.get_or_insert(now);
        let row = self.checked.as_mut().and_then(|checked| checked.take_state());
        if vocabulary.is_end(token) {
            if !self.goes_back(true) {
                self.finish(FinishReason::Stop, now);
            }
            return false;
        }
        let text_before = self.checked.as_ref().map(|_| self.text.clone());
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
            let provisional = self.checked.is_some();
            self.shown.accept(token, text, provisional, |event| self.ring.push(Event::Token(event)));
        }
        if let (Some(checked), Some(text_before)) = (&mut self.checked, text_before) {
            let text = self.unsent_text.split_off(before);
            self.unsent_ids.pop();
            checked.push(token, text, text_before, row, vocabulary, |id, text| {
                self.unsent_ids.push(id);
                self.unsent_text.push_str(text);
            });
            if stop.is_some() || self.text.is_holding() {
                checked.cut();
            }
        }
        if self.goes_back(stop.is_some() || self.output_tokens >= self.budget.tokens) {
            return false;
        }
        if stop.is_some() {
            self.release_all();
            if self.token_events != TokenEvents::Off {
                self.shown.end("", |event| self.ring.push(Event::Token(event)));
            }
            self.end(FinishReason::StopSequence, stop, now);
        } else if self.output_tokens >= self.budget.tokens {
            let reason = if self.budget.clipped { FinishReason::Context } else { FinishReason::MaxTokens };
            self.finish(reason, now);
        }
        self.ended.is_none()
    }

    /// Goes back to where the answer is likely wrong, if it is; `finished` when it would end here.
    fn goes_back(&mut self, finished: bool) -> bool {
        let Some(checked) = &mut self.checked else { return false };
        let Some(back) = checked.judge(finished.then_some(&self.text), self.output_tokens) else {
            return false;
        };
        let Return { start, taken, before } = back;
        self.failure = None;
        if let Some(before) = before {
            self.text = before;
        }
        self.shown.reopen(start, taken);
        self.output_tokens = start;
        self.sequence.rewind(self.input_tokens + start);
        self.guessing.restart();
        self.sampler.forget();
        self.sampler.observe(self.sequence.tokens());
        true
    }

    /// What is held back cannot change any more.
    fn release_all(&mut self) {
        if let Some(checked) = &mut self.checked {
            checked.release_all(|id, text| {
                self.unsent_ids.push(id);
                self.unsent_text.push_str(text);
            });
        }
    }

    /// Shows the guesses of the coming step to a reader who wants to see them.
    pub fn show_guesses(&mut self, vocabulary: &dyn Vocabulary) {
        let computed = (self.sequence.stored() + self.rows).saturating_sub(self.sequence.tokens().len());
        let guesses = self.sequence.guesses();
        let guesses = &guesses[..computed.min(guesses.len())];
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

    /// Sends what is certain, if there is any text.
    fn send_delta(&mut self) {
        if !self.unsent_text.is_empty() {
            let (text, ids) = (std::mem::take(&mut self.unsent_text), std::mem::take(&mut self.unsent_ids));
            self.ring.push(Event::Delta { text, ids });
        }
    }

    /// Sends all that can be sent, text or not.
    fn send_all(&mut self) {
        if !self.unsent_text.is_empty() || !self.unsent_ids.is_empty() {
            let (text, ids) = (std::mem::take(&mut self.unsent_text), std::mem::take(&mut self.unsent_ids));
            self.ring.push(Event::Delta { text, ids });
        }
    }

    /// Ends the request with all text it has: what was held back may complete a stop sequence after all.
    pub fn finish(&mut self, reason: FinishReason, now: Duration) {
        self.release_all();
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
        self.send_all();
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
            notes: self.checked.as_ref().map(|checked| checked.notes().to_vec()).unwrap_or_default(),
        };
        let cancelled = reason == FinishReason::Cancelled;
        let ending = if cancelled { Ending::Cancelled } else { Ending::Finished };
        self.ended = Some((ending, Event::Finished(finished)));
    }
}
