//! The validation ring: tokens that are shown before they are certain, and taken back when they were wrong.
//!
//! [`Shown`] keeps what the reader of a stream has seen of a drafter's guesses. A step verifies guesses, so that
//! the answer is the one without any; what changes on the way is told by [`TokenEvent`]s.
//!
//! A [`Checker`] follows an answer and marks what is likely wrong, by rules, by looks at the source and by a
//! re-scoring [`Head`]. It changes answers, so it is there only where it is asked for.

mod atoms;
mod check;
mod constraint;
pub mod features;
pub mod fit;
mod head;
mod rules;
mod shown;
mod source;
pub mod teach;

pub use atoms::{Atom, AtomKind, atoms, canonical, next_atom};
pub use check::{Checker, Note, Outcome, REDOS_LIMIT, ROUNDS_LIMIT, Redo, Validation};
pub use constraint::Constraint;
pub use head::{FORMAT, HEAD_BYTES_LIMIT, HEAD_HIDDEN_LIMIT, HEAD_WEIGHTS_LIMIT, Head, HeadError};
pub use rules::{RULE_WINDOW_BYTES, Rule, RuleError, Verdict};
pub use shown::{RING_DEPTH, Shown, TokenEvent};
pub use source::Source;

/// Which events of single tokens a generation tells beside the answer's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TokenEvents {
    /// None.
    #[default]
    Off,
    /// Every token when it is verified.
    Verified,
    /// Guesses too, before the step that verifies them, and what becomes of them.
    Provisional,
}

impl TokenEvents {
    /// The mode of a name: `plain`, `verified`, `provisional`.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "plain" => Self::Off,
            "verified" => Self::Verified,
            "provisional" => Self::Provisional,
            _ => return None,
        })
    }
}
