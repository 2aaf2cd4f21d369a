//! When two answers to one ask say the same.
//!
//! [`agree`] is deterministic, works without any model and errs towards [`Agreement::Undecided`]:
//!
//! 1. equal after NFC and white space: agree;
//! 2. another kind (JSON, code, value, yes or no, choice, prose), another language, or a refusal against an answer:
//!    contradict;
//! 3. closed kinds: JSON equal by value with exact decimals, values equal in their canonical unit, the same label, code
//!    equal by tokens: agree; else contradict;
//! 4. prose: for each type of hard atom (numbers with units, money, percentages, dates, times, identifiers, addresses,
//!    quotations, code) that the ask does not hold already: two sets of which neither contains the other contradict, a
//!    strict superset or another order is undecided; a predicate that one side denies and the other, which denies
//!    nothing, says contradicts, other differences in what is denied are undecided; opposite polarity at the start
//!    and opposites in one place contradict;
//! 5. lemma containment ≥ 0.7 and a length ratio of 0.5 to 2 agree, where nothing that is left over on either side can
//!    turn an answer round: no word of a [`WordClass`], no name, no sign, no word in place of another one that is not
//!    its synonym, and no other word but in a sentence that only one side has.
//!
//! What is said in step 5 about left-over words makes it stricter than containment alone: two answers that share nine
//! words of ten differ in the tenth, and that is where wrong ones differ.

mod align;
mod boilerplate;
mod code;
mod json;
mod kind;
mod prose;
mod refusal;

use unicode_normalization::UnicodeNormalization as _;

use self::kind::Kind;
use crate::atoms::WordClass;
use crate::c1;
use crate::script::{Language, is_han, language};

/// The version of the comparator and of its tables. Evidence gathered under another version does not count.
pub const COMPARATOR_VERSION: u32 = 2;

/// Whether two answers say the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Agreement {
    /// They do.
    Agree,
    /// They do not.
    Contradict,
    /// It cannot be told from the wording.
    Undecided,
}

/// What decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Equal after NFC and white space.
    Identical,
    /// Closed answers of one kind, equal or not.
    Closed(&'static str),
    /// Answers of different kinds.
    Kind,
    /// Answers in different languages.
    Language,
    /// A refusal against an answer.
    Refusal,
    /// A type of hard atom.
    Atom(&'static str),
    /// A hard atom that only one side has.
    Superset(&'static str),
    /// Yes against no at the start.
    Polarity,
    /// A predicate that one side denies.
    Negation,
    /// A word and its opposite.
    Antonym,
    /// The same things in another order.
    Order,
    /// A word of a class that only one side has.
    Class(WordClass),
    /// A name that only one side has.
    Entity,
    /// A sign that only one side has.
    Sign,
    /// One form in the past, the other not.
    Tense,
    /// Words in place of others that are no synonyms.
    Substitution,
    /// A word more inside a sentence.
    Insertion,
    /// Too few words in common.
    Containment,
    /// One side is more than twice as long.
    Length,
    /// Too long to align.
    TooLong,
    /// The same words but for what turns nothing round.
    Words,
}

impl Cause {
    /// The cause's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Cause::Identical => "identical",
            Cause::Closed(kind) | Cause::Atom(kind) => kind,
            Cause::Kind => "kind",
            Cause::Language => "language",
            Cause::Refusal => "refusal",
            Cause::Superset(_) => "superset",
            Cause::Polarity => "polarity",
            Cause::Negation => "negation",
            Cause::Antonym => "antonym",
            Cause::Order => "order",
            Cause::Class(class) => class.name(),
            Cause::Entity => "entity",
            Cause::Sign => "sign",
            Cause::Tense => "tense",
            Cause::Substitution => "substitution",
            Cause::Insertion => "insertion",
            Cause::Containment => "containment",
            Cause::Length => "length",
            Cause::TooLong => "too_long",
            Cause::Words => "words",
        }
    }
}

/// The outcome of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Verdict {
    /// Whether the answers say the same.
    pub agreement: Agreement,
    /// What decided.
    pub reason: Cause,
}

impl Verdict {
    const fn agree(reason: Cause) -> Verdict {
        Verdict { agreement: Agreement::Agree, reason }
    }

    const fn contradict(reason: Cause) -> Verdict {
        Verdict { agreement: Agreement::Contradict, reason }
    }

    const fn undecided(reason: Cause) -> Verdict {
        Verdict { agreement: Agreement::Undecided, reason }
    }
}

/// Whether an answer is a refusal to answer, by its own words.
#[must_use]
pub fn is_refusal(answer: &str) -> bool {
    refusal::is_refusal(answer)
}

/// Whether an answer is of a closed kind, whose comparison is exact: JSON, code, a value, yes or no, a choice, a label.
#[must_use]
pub fn is_closed(answer: &str) -> bool {
    !matches!(kind::of(answer), Kind::Prose)
}

/// Whether the answers `a` and `b` to `ask` say the same. Symmetric in `a` and `b`. Time and memory are linear in the
/// lengths but for the words that differ, whose alignment is bounded.
#[must_use]
pub fn agree(ask: &str, a: &str, b: &str) -> Verdict {
    let (one, two) = (kind::of(a), kind::of(b));
    let is_literal = |kind: &Kind| matches!(kind, Kind::Json(_) | Kind::Code(_));
    let is_identical =
        if is_literal(&one) || is_literal(&two) { a.trim() == b.trim() } else { plain(a) == plain(b) };
    if is_identical {
        return Verdict::agree(Cause::Identical);
    }
    if a.trim().is_empty() || b.trim().is_empty() {
        return Verdict::contradict(Cause::Kind);
    }
    if refusal::is_refusal(a) != refusal::is_refusal(b) {
        return Verdict::contradict(Cause::Refusal);
    }
    let is_worded = |kind: &Kind| matches!(kind, Kind::Prose | Kind::Label(_) | Kind::YesNo(_));
    if is_worded(&one) && is_worded(&two) && differ_in_language(a, b) {
        return Verdict::contradict(Cause::Language);
    }
    match (one, two) {
        (Kind::Prose | Kind::Label(_), Kind::Prose) | (Kind::Prose, Kind::Label(_)) => {
            prose::compare(ask, a, b)
        }
        (one, two) => kind::compare(&one, &two),
    }
}

/// The text with white space as single spaces and in NFC, outside code and quotations.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (part, is_kept) in c1::spans(text) {
        if is_kept {
            out.push_str(part);
            continue;
        }
        for character in part.nfc() {
            if !character.is_whitespace() {
                out.push(character);
            } else if !out.ends_with(' ') {
                out.push(' ');
            }
        }
    }
    out.trim().to_owned()
}

fn differ_in_language(a: &str, b: &str) -> bool {
    let is_latin = |text: &str| text.chars().any(char::is_alphabetic) && !text.chars().any(is_han);
    match (language(a), language(b)) {
        (Some(one), Some(two)) => one != two,
        (Some(Language::Chinese), None) => is_latin(b),
        (None, Some(Language::Chinese)) => is_latin(a),
        _ => false,
    }
}
