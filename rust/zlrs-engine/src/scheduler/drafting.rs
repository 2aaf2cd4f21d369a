//! Guesses of the running requests: made before a step is planned, judged when its tokens are chosen.

use std::time::Duration;

use super::running::Running;
use super::worker::Worker;
use crate::backend::BackendError;
use crate::draft::{Acceptance, DraftSource, Drafter, Drafting, GUESSES_LIMIT, Offer, Payoff};
use crate::kv::Sequence;
use crate::plan::{CHUNK_ROWS_BESIDE_DECODING, Plan};
use crate::prefix::Tenant;

/// Guesses of a sequence in [`Drafting::Always`].
const ALWAYS_GUESSES: usize = 7;
/// Most tokens a drafter reads before one step, so that nobody waits for a long prompt to be read.
const READ_TOKENS: usize = 4096;
/// Tokens of a prompt that are remembered with its answer: the same question again is known by its end.
const PROMPT_TOKENS: usize = 32;
/// Answers shorter than this are not worth a drafter.
const LEAST_TOKENS: usize = 4;

/// What the engine thread guesses with.
pub(super) struct Drafts {
    pub mode: Drafting,
    pub source: Box<dyn DraftSource>,
    pub payoff: Payoff,
}

/// The guesses of one request.
#[derive(Default)]
pub(super) struct Guessing {
    drafter: Option<Box<dyn Drafter>>,
    /// Tokens the drafter has read.
    read: usize,
    acceptance: Acceptance,
    /// What speaks for the guesses of the coming step.
    agreeing: usize,
    pub drafted: usize,
    pub accepted: usize,
    /// What the last proposal held.
    ids: Vec<u32>,
    /// Classes of the coming step's guesses, if the model made them itself.
    pub classes: Vec<usize>,
}

impl Guessing {
    /// Reads what is new and guesses; whether there is anything to offer.
    fn propose(&mut self, tenant: &Tenant, sequence: &Sequence, limit: usize, drafts: &mut Drafts) -> bool {
        self.ids.clear();
        let drafter = self.drafter.get_or_insert_with(|| drafts.source.begin(tenant));
        let tokens = sequence.tokens();
        let end = tokens.len().min(self.read + READ_TOKENS);
        drafter.observe(&tokens[self.read..end]);
        self.read = end;
        if end == tokens.len() {
            self.agreeing = drafter.propose(limit.min(GUESSES_LIMIT), &mut self.ids);
        }
        !self.ids.is_empty()
    }

    /// The sequence has gone back: what was read of it is read again.
    pub fn restart(&mut self) {
        self.drafter = None;
        self.read = 0;
    }

    fn offer(&self) -> Offer {
        Offer { guesses: self.ids.len(), agreeing: self.agreeing, acceptance: self.acceptance }
    }

    /// Of `guessed` guesses the first `right` were right.
    pub fn judge(&mut self, guessed: usize, right: usize) {
        self.drafted += guessed;
        self.accepted += right;
        self.acceptance.observe(self.agreeing, guessed, right);
    }
}

impl Worker {
    /// Puts guesses behind the tokens of the requests that are being answered, as many as pay.
    ///
    /// # Errors
    /// Those of the backend, when the model guesses by itself.
    pub(super) fn guess(&mut self) -> Result<(), BackendError> {
        let drafts = &mut self.drafting;
        let (mut offers, mut places) = (Vec::new(), Vec::new());
        for (index, running) in self.running.iter_mut().enumerate() {
            running.sequence.drop_guesses();
            running.guessing().0.classes.clear();
            if drafts.mode == Drafting::Off || !is_worth_guessing(running) {
                continue;
            }
            let room = room(running);
            let (guessing, sequence, tenant) = running.guessing();
            if guessing.propose(tenant, sequence, room, drafts) {
                let end = guessing.ids.iter().position(|&token| self.vocabulary.is_end(token));
                guessing.ids.truncate(end.unwrap_or(usize::MAX));
                offers.push(guessing.offer());
                places.push(index);
            }
        }
        let answering = self.running.iter().filter(|running| running.is_next()).count();
        let pending: usize = self.running.iter().map(|running| running.sequence.pending().len()).sum();
        let rows = answering + (pending - answering).min(CHUNK_ROWS_BESIDE_DECODING);
        let mut lengths = Vec::new();
        if drafts.mode == Drafting::Always {
            lengths.extend(offers.iter().map(|offer| offer.guesses.min(ALWAYS_GUESSES)));
        } else {
            drafts.payoff.lengths(rows, &offers, &mut lengths);
        }
        for (index, length) in places.into_iter().zip(lengths) {
            let (guessing, _, _) = self.running[index].guessing();
            let ids = std::mem::take(&mut guessing.ids);
            self.running[index].sequence.guess(&ids[..length]);
            self.running[index].guessing().0.ids = ids;
        }
        let guesses: usize = self.running.iter().map(|running| running.sequence.guesses().len()).sum();
        self.guess_shallow(rows + guesses)
    }

    /// Whether any request has guesses, which are dropped then.
    pub(super) fn drop_guesses(&mut self) -> bool {
        let mut some = false;
        for running in &mut self.running {
            some |= !running.sequence.guesses().is_empty();
            running.sequence.drop_guesses();
        }
        some
    }

    /// Learns what a step cost and how its guesses did; `judged` holds guesses and right ones by request.
    pub(super) fn learn_costs(&mut self, took: Duration) {
        let payoff = &mut self.drafting.payoff;
        if is_decoding(&self.plan) {
            payoff.costs.measured(self.plan.rows().len(), took);
        }
        for running in &mut self.running {
            if let Some((guessed, right)) = running.judged.take() {
                let (guessing, _, _) = running.guessing();
                if guessing.classes.is_empty() {
                    guessing.judge(guessed, right);
                    payoff.general.observe(guessing.agreeing, guessed, right);
                } else {
                    guessing.drafted += guessed;
                    guessing.accepted += right;
                    let classes = &guessing.classes[..guessed.min(guessing.classes.len())];
                    self.shallow.payoff.observe(classes, right);
                }
                super::statistics::add(&self.counters.tokens_drafted, guessed);
                super::statistics::add(&self.counters.tokens_accepted, right);
            }
        }
    }

    /// Remembers an answer for the next ones of its tenant.
    pub(super) fn learn_answer(&mut self, running: &Running) {
        if self.drafting.mode != Drafting::Off {
            self.drafting.source.learn(running.tenant(), running.exchange(PROMPT_TOKENS));
        }
    }
}

/// Whether somebody waits for tokens that can be guessed.
pub(super) fn is_worth_guessing(running: &Running) -> bool {
    running.is_next() && !running.is_bound() && running.tokens_allowed() >= LEAST_TOKENS && room(running) > 0
}

/// Most guesses that can still become tokens: the step itself brings one.
pub(super) fn room(running: &Running) -> usize {
    running.tokens_left().saturating_sub(1)
}

/// Whether every row of the step was for a token that somebody waits for.
fn is_decoding(plan: &Plan) -> bool {
    plan.rows().iter().all(|row| row.wants_logits)
}
