//! What can be told from a text alone: canonical forms, typed atoms, guards, the comparison of answers, hygiene and
//! personal numbers. No I/O, no model; all patterns run in linear time.
//!
//! # Forms
//!
//! Two wordings with one form share a *node* of the decision graph. That a shared form means a shared answer is a
//! claim, and claims need evidence: a form decides where an answer is looked for, never that it is served.
//!
//! - **C1** ([`Canon::C1`]): Unicode NFC, line ends, outer and repeated spaces, outside code and quotes.
//! - **C2** ([`Canon::C2`]): besides, for English one-sentence questions, the case of the first word, terminal
//!   punctuation, politeness and contractions.
//!
//! Nothing else is merged: no compatibility forms (they turn 10² into 102), no case folding (US, us), no removal of
//! joiners, no synonyms, no stop words. Where a rule could change a meaning it does not apply.
//!
//! # The rest
//! - [`Extractor`] finds typed values ([`atoms`]) and takes them out of a form ([`Form`]): a node is (scope, template), an
//!   entry is (node, values).
//! - [`guard`](guard()) names what forbids two asks to share an answer; that it names nothing proves nothing.
//! - [`agree`] says whether two answers to one ask say the same, and [`flips`] holds the pairs that measure it.
//! - [`hygiene`] cleans a text by named rules, [`redact`] finds personal numbers by their check digits.
#![forbid(unsafe_code)]

pub mod atoms;
mod c1;
mod c2;
pub mod compare;
mod decimal;
mod error;
pub mod flips;
mod form;
pub mod guard;
pub mod hygiene;
mod lemma;
mod lexicon;
mod names;
mod opposites;
pub mod redact;
mod script;
mod synonyms;
mod tokens;
mod units;
mod words;

pub use crate::atoms::{Atom, DomainPattern, Extractor, Quantity, Value, WordClass};
pub use crate::compare::{Agreement, COMPARATOR_VERSION, Cause, Verdict, agree, is_closed, is_refusal};
pub use crate::decimal::Decimal;
pub use crate::error::TextError;
pub use crate::form::Form;
pub use crate::guard::{GUARD_VERSION, Reason, Refusal, guard};
pub use crate::lemma::{Inflection, lemma};
pub use crate::script::{Language, language};
pub use crate::units::Unit;

/// The version of the rules. It is part of every node's key; any change of any rule changes it.
pub const CANON_VERSION: u32 = 3;

/// A set of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Canon {
    /// Unicode and white space.
    C1,
    /// C1, and the rules for English questions.
    C2,
}

/// The canonical form of an ask. Linear in its length; applying it twice gives the same text.
#[must_use]
pub fn canonical(text: &str, canon: Canon) -> String {
    let form = c1::normalise(text);
    match canon {
        Canon::C1 => form,
        Canon::C2 => c2::normalise(form),
    }
}
