//! Guessing tokens, so that one step can verify several of them.
//!
//! A [`Drafter`] guesses what comes next. The step computes the guesses as further rows, the sampler chooses at each
//! row what it would have chosen there anyway (the draws are functions of seed and position), and guesses that
//! equal the choices have saved a step each. So a guess costs time when it is wrong and never changes a token.
//!
//! [`Lookup`] guesses by looking where the last tokens occurred before: in the prompt, in the answer so far, in
//! earlier answers of the same tenant. [`Payoff`] decides how many guesses are worth their rows. Where it finds none, the model
//! may guess by itself, with steps that leave out some of its parts; [`ShallowPayoff`] decides whether that is worth
//! the time.

mod automaton;
mod lookup;
mod payoff;
mod shallow;

pub use automaton::{Cursor, SuffixAutomaton};
pub use lookup::{ANSWER_TOKENS, LEARNED_TENANTS, Lookup, TEXT_TOKENS};
pub use payoff::{Acceptance, GUESSES_LIMIT, Offer, Payoff, StepCosts};
pub use shallow::{SHALLOW_GUESSES, ShallowPayoff, class_of};

use crate::prefix::Tenant;

/// Whether tokens are guessed. Answers do not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Drafting {
    /// Never.
    #[default]
    Off,
    /// As many as pay by what steps have cost and guesses have been right until now.
    Auto,
    /// Whenever there is something to guess, whether it pays or not.
    Always,
}

impl Drafting {
    /// The mode of a name: `off`, `auto`, `always`.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "off" => Self::Off,
            "auto" => Self::Auto,
            "always" => Self::Always,
            _ => return None,
        })
    }
}

/// Guesses what one sequence goes on with.
pub trait Drafter: Send {
    /// More tokens of the sequence, certain ones, in their order; the prompt's come first.
    fn observe(&mut self, ids: &[u32]);

    /// Appends up to `limit` guesses of the tokens that follow. Returns how much speaks for them: the number of
    /// tokens before them that agree with the place they are taken from, or what compares with that.
    fn propose(&mut self, limit: usize, out: &mut Vec<u32>) -> usize;
}

/// Makes drafters and learns from what has been answered.
pub trait DraftSource: Send {
    /// A drafter for a new sequence of a tenant.
    fn begin(&mut self, tenant: &Tenant) -> Box<dyn Drafter>;

    /// An answer of a tenant has ended.
    fn learn(&mut self, tenant: &Tenant, answer: &[u32]);
}
