//! Typed atoms of a text.
//!
//! An [`Extractor`] finds values and gives each one a canonical form: numbers with units, money, percentages, dates,
//! times, identifiers, quotations, code, addresses, words that turn an answer round, and names. Where two readings
//! overlap, the more specific one wins. All patterns run in linear time.
//!
//! A wrong value is worse than none: a spelling that may mean two things (晚上1点, 一亿三千) is none, and one that mostly
//! means one (5g, 4K, 元) has a key of its own.

mod calendar;
mod currency;
mod domain;
mod numbers;
mod numerals;
mod pattern;
mod value;
mod words;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

pub use self::calendar::{Date, Time};
pub use self::domain::{BUILT_IN_PATTERNS, DomainPattern, PATTERN_BYTES, PATTERN_NAME_BYTES, PATTERNS};
pub(crate) use self::numbers::is_superscript;
pub(crate) use self::pattern::compiled;
pub use self::value::{Atom, Quantity, Value, WordClass};
use crate::c1;
use crate::error::TextError;

static URL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern::compiled(
        r#"(?i)(?-u:\b)(?:https?://|www\.)[^\s<>"'`\u{3000}-\u{303F}\u{FF00}-\u{FFEF}\u{4E00}-\u{9FFF}]+"#,
    )
});

/// Finds atoms.
#[derive(Clone, Debug)]
pub struct Extractor {
    patterns: Vec<DomainPattern>,
    /// The built-in ones that are looked for.
    built_in: Vec<&'static str>,
}

impl Default for Extractor {
    /// With the built-in domain patterns.
    fn default() -> Extractor {
        Extractor { patterns: Vec::new(), built_in: BUILT_IN_PATTERNS.to_vec() }
    }
}

impl Extractor {
    /// With the built-in domain patterns and `patterns`, which come first.
    ///
    /// # Errors
    /// Too many patterns, or a name that is given twice or belongs to a built-in pattern.
    pub fn new(patterns: Vec<DomainPattern>) -> Result<Extractor, TextError> {
        if patterns.len() > PATTERNS {
            return Err(TextError::TooManyPatterns { given: patterns.len() });
        }
        for (at, pattern) in patterns.iter().enumerate() {
            let is_taken = patterns[..at].iter().any(|other| other.name() == pattern.name());
            if is_taken || BUILT_IN_PATTERNS.contains(&pattern.name()) {
                return Err(TextError::PatternTwice { name: pattern.name().to_owned() });
            }
        }
        Ok(Extractor { patterns, ..Extractor::default() })
    }

    /// Without any domain pattern.
    #[must_use]
    pub fn without_patterns() -> Extractor {
        Extractor { patterns: Vec::new(), built_in: Vec::new() }
    }

    /// Without the built-in patterns; the configured ones stay.
    #[must_use]
    pub fn without_built_in(self) -> Extractor {
        Extractor { built_in: Vec::new(), ..self }
    }

    /// Without the patterns of these names, configured or built in.
    ///
    /// # Errors
    /// A name that no pattern has.
    pub fn without(mut self, names: &[String]) -> Result<Extractor, TextError> {
        for name in names {
            let is_known = BUILT_IN_PATTERNS.contains(&name.as_str())
                || self.patterns.iter().any(|pattern| pattern.name() == name);
            if !is_known {
                return Err(TextError::PatternUnknown { name: name.chars().take(40).collect() });
            }
        }
        self.patterns.retain(|pattern| !names.iter().any(|name| name == pattern.name()));
        self.built_in.retain(|built_in| !names.iter().any(|name| name == built_in));
        Ok(self)
    }

    /// Bytes that are equal for two extractors with the same patterns, and for no others; empty for the default.
    #[must_use]
    pub fn patterns_id(&self) -> Vec<u8> {
        let mut id = Vec::new();
        if self.patterns.is_empty() && self.built_in.len() == BUILT_IN_PATTERNS.len() {
            return id;
        }
        let configured = self.patterns.iter().flat_map(|pattern| [pattern.name(), pattern.source()]);
        for part in configured.chain(["built in"]).chain(self.built_in.iter().copied()) {
            id.extend_from_slice(&(part.len() as u64).to_le_bytes());
            id.extend_from_slice(part.as_bytes());
        }
        id
    }

    /// The values of `text` that a form leaves out, in order, without overlap. Linear in the length of the text.
    #[must_use]
    pub fn slots(&self, text: &str) -> Vec<Atom> {
        let mut taken = Taken::default();
        for (part, range) in kept(text) {
            taken.add(range, kept_value(part));
        }
        for found in URL.iter().flat_map(|pattern| pattern.find_iter(text)) {
            let url = found.as_str().trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '*']);
            taken.add(found.start()..found.start() + url.len(), Value::Url(url.to_owned()));
        }
        taken.add_all(domain::configured(text, &self.patterns).into_iter().map(id));
        let dates = calendar::dates(text);
        if !self.built_in.is_empty() {
            // A date has the shape of some identifiers and is none.
            let is_date = |range: &Range<usize>| dates.iter().any(|(date, _)| date == range);
            let ids = domain::built_in(text).into_iter();
            let ids = ids.filter(|(_, name, _)| self.built_in.contains(&name.as_str()));
            taken.add_all(ids.filter(|(range, ..)| !is_date(range)).map(id));
        }
        taken.add_all(dates.into_iter().map(|(range, date)| (range, Value::Date(date))));
        taken.add_all(calendar::times(text).into_iter().map(|(range, time)| (range, Value::Time(time))));
        taken.add_all(numbers::find(text));
        taken.sorted()
    }

    /// All atoms of `text`, in order, without overlap: slots, words that turn an answer round, names.
    #[must_use]
    pub fn atoms(&self, text: &str) -> Vec<Atom> {
        let slots = self.slots(text);
        let mut taken = Taken::default();
        let words = words::find(text, &slots);
        taken.add_all(slots.into_iter().chain(words).map(|atom| (atom.span, atom.value)));
        taken.sorted()
    }
}

fn id((range, pattern, value): (Range<usize>, String, String)) -> (Range<usize>, Value) {
    (range, Value::Id { pattern, value })
}

/// Code and quotations with their ranges.
fn kept(text: &str) -> impl Iterator<Item = (&str, Range<usize>)> {
    let mut at = 0;
    c1::spans(text).filter_map(move |(part, is_kept)| {
        let range = at..at + part.len();
        at = range.end;
        is_kept.then_some((part, range))
    })
}

fn kept_value(part: &str) -> Value {
    if part.starts_with('`') {
        return Value::Code(part.trim_matches('`').to_owned());
    }
    let mut inner = part.chars();
    inner.next();
    if part.chars().count() > 1 && part.ends_with(|last| "\"'”’“»›」』".contains(last)) {
        inner.next_back();
    }
    Value::Quoted(inner.as_str().to_owned())
}

/// Ranges that are taken, each by the first that came.
#[derive(Default)]
struct Taken {
    /// By start: the end and the value.
    ranges: BTreeMap<usize, (usize, Value)>,
}

impl Taken {
    fn add(&mut self, span: Range<usize>, value: Value) {
        let before = self.ranges.range(..span.end).next_back();
        if !span.is_empty() && before.is_none_or(|(_, (end, _))| *end <= span.start) {
            self.ranges.insert(span.start, (span.end, value));
        }
    }

    fn add_all(&mut self, found: impl IntoIterator<Item = (Range<usize>, Value)>) {
        for (span, value) in found {
            self.add(span, value);
        }
    }

    fn sorted(self) -> Vec<Atom> {
        self.ranges.into_iter().map(|(start, (end, value))| Atom { span: start..end, value }).collect()
    }
}
