//! Guesses that the model makes by itself, with steps that leave out some of its parts.
//!
//! They write keys and values behind those that are stored, where the step that verifies the guesses computes all
//! layers again. So nothing of them is left, whatever becomes of the guesses.

use zlrs_kernels::{Isa, largest};

use super::drafting::{is_worth_guessing, room};
use super::worker::Worker;
use crate::Compute;
use crate::backend::BackendError;
use crate::draft::{Drafting, SHALLOW_GUESSES, ShallowPayoff, class_of};
use crate::kv::BLOCK_TOKENS;
use crate::plan::{Layers, Plan, Row};

/// Guesses of a sequence in [`Drafting::Always`].
const ALWAYS_GUESSES: usize = 4;

/// What the engine thread lets the model guess with.
pub(super) struct Shallow {
    mode: Drafting,
    pub payoff: ShallowPayoff,
    plan: Plan,
    /// Logits of all tokens; of those that cannot be guessed the least there is.
    row: Vec<f32>,
    isa: Isa,
}

/// What one sequence goes on with.
struct Chain {
    /// Index of the running request.
    place: usize,
    ids: Vec<u32>,
    classes: Vec<usize>,
    /// How likely all of it is right.
    chance: f64,
    goes_on: bool,
}

impl Shallow {
    pub fn new(mode: Drafting, vocabulary: usize) -> Self {
        let length = if mode == Drafting::Off { 0 } else { vocabulary };
        Self {
            mode,
            payoff: ShallowPayoff::default(),
            plan: Plan::default(),
            row: vec![f32::MIN; length],
            // Every set finds the same.
            isa: Isa::select().unwrap_or(Isa::Naive),
        }
    }

    /// How far a token's logit lies above all others.
    fn margin(&self, token: u32) -> f32 {
        let (before, rest) = self.row.split_at(token as usize);
        let Some((&own, after)) = rest.split_first() else { return 0.0 };
        let others = [before, after].into_iter().filter_map(|logits| largest(self.isa, logits));
        own - others.fold(f32::MIN, f32::max)
    }
}

impl Worker {
    /// Lets the model guess for those who are answered and have no guesses, if it pays beside a step of `rows` rows.
    ///
    /// # Errors
    /// Those of the backend.
    pub(super) fn guess_shallow(&mut self, rows: usize) -> Result<(), BackendError> {
        let vocabulary = self.backend.draft_vocabulary();
        if self.shallow.mode == Drafting::Off || vocabulary == 0 || self.needs_recovery {
            return Ok(());
        }
        let waiting = self.running.iter().enumerate();
        let waiting = waiting.filter(|(_, running)| {
            running.is_answering() && is_worth_guessing(running) && running.sequence.guesses().is_empty()
        });
        let places: Vec<usize> = waiting.map(|(place, _)| place).collect();
        let limit = match self.shallow.mode {
            Drafting::Always => ALWAYS_GUESSES,
            _ => self.shallow.payoff.guesses(&self.drafting.payoff.costs, rows, places.len()),
        };
        if limit == 0 || places.is_empty() || !self.has_room_for(&places, limit) {
            return Ok(());
        }
        let mut chains: Vec<Chain> = places.into_iter().map(Chain::new).collect();
        let begun = self.clock.now();
        for index in 0..limit.min(SHALLOW_GUESSES) {
            if !self.shallow_step(&mut chains, index, rows)? {
                break;
            }
        }
        let took = self.clock.now().saturating_sub(begun);
        for chain in chains {
            let running = &mut self.running[chain.place];
            running.spent.compute += took;
            running.sequence.guess(&chain.ids);
            running.guessing().0.classes = chain.classes;
        }
        Ok(())
    }

    /// Whether blocks are free for so many guesses beside what the coming step takes without them: nobody makes
    /// way for guesses.
    fn has_room_for(&mut self, places: &[usize], guesses: usize) -> bool {
        let certain: usize = self.running.iter().map(super::running::Running::blocks_wanted).sum();
        let of = |&place: &usize| {
            let sequence = &self.running[place].sequence;
            sequence.blocks_wanted(sequence.tokens().len() + guesses)
        };
        let wanted: usize = places.iter().map(of).sum();
        self.evict_for(certain + wanted)
    }

    /// Guess number `index` of every chain that goes on; whether there are such.
    fn shallow_step(
        &mut self,
        chains: &mut [Chain],
        index: usize,
        rows: usize,
    ) -> Result<bool, BackendError> {
        let Self { running, shallow, backend, clock, queue, vocabulary, drafting, .. } = self;
        shallow.plan.clear();
        shallow.plan.layers = Layers::Draft;
        for chain in chains.iter_mut().filter(|chain| chain.goes_on) {
            let sequence = &mut running[chain.place].sequence;
            let position = sequence.stored() + index;
            let token = chain.ids.last().or_else(|| sequence.pending().first()).copied();
            let reserved = sequence.reserve(position + 1, shallow.plan.copies_mut());
            let (Some(token), Ok(())) = (token, reserved) else {
                chain.goes_on = false;
                continue;
            };
            let used_blocks = (position + 1).div_ceil(BLOCK_TOKENS);
            let sequence = shallow.plan.add_sequence(&sequence.table()[..used_blocks]);
            let compute = Compute::Exact;
            shallow.plan.add_row(Row {
                token,
                position: position as u32,
                sequence,
                wants_logits: true,
                compute,
            });
        }
        let sequences = shallow.plan.rows().len();
        if sequences == 0 {
            return Ok(false);
        }
        let begun = clock.now();
        let vocabulary_rows = backend.draft_vocabulary();
        let interrupt = || {
            let now = clock.now();
            queue.is_closed() || running.iter().any(|running| running.interruption(now).is_some())
        };
        let logits = match backend.step(&shallow.plan, &interrupt) {
            Ok(logits) => logits,
            // The reason is found, and acted on, by the next sweep.
            Err(BackendError::Interrupted) => return Ok(false),
            Err(error) => return Err(error),
        };
        shallow.payoff.costs.measured(sequences, clock.now().saturating_sub(begun));
        let full = &drafting.payoff.costs;
        let going_on = chains.iter_mut().filter(|chain| chain.goes_on);
        for (chain, logits) in going_on.zip(logits.chunks_exact(vocabulary_rows)) {
            let running = &mut running[chain.place];
            shallow.row[..vocabulary_rows].copy_from_slice(logits);
            // What ends the answer need not be verified: the step brings it anyway.
            let token = running.would_choose(&shallow.row, index).filter(|&token| !vocabulary.is_end(token));
            let Some(token) = token else {
                chain.goes_on = false;
                continue;
            };
            let class = class_of(shallow.margin(token));
            chain.ids.push(token);
            chain.classes.push(class);
            chain.chance *= shallow.payoff.chance(class);
            chain.goes_on = chain.ids.len() < room(running)
                && (shallow.mode == Drafting::Always || shallow.payoff.goes_on(full, rows, chain.chance));
        }
        Ok(true)
    }
}

impl Chain {
    fn new(place: usize) -> Self {
        Self { place, ids: Vec::new(), classes: Vec::new(), chance: 1.0, goes_on: true }
    }
}
