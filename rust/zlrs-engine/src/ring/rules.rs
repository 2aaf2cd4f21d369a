//! Configured rules: after this must come that.

use regex::{Regex, RegexBuilder};

/// Bytes at the end of an answer in which patterns are looked for.
pub const RULE_WINDOW_BYTES: usize = 512;
/// Most memory of one compiled pattern.
const SIZE_BYTES: usize = 1 << 20;

/// A rule that cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rule {name:?}: {problem}")]
pub struct RuleError {
    /// The rule's name.
    pub name: String,
    /// What is wrong.
    pub problem: String,
}

/// What must follow a pattern, e.g. a code behind a diagnosis. Matching is linear in the text, whatever the patterns
/// are: they have no back references and no look-around.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Its name in receipts.
    pub name: String,
    pattern: Regex,
    /// Anchored at its beginning.
    follow: Regex,
    /// The same anywhere.
    anywhere: Regex,
    within_bytes: usize,
}

/// How a rule fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Its pattern is not there, or ends where the text does.
    Absent,
    /// Its pattern ends here; too little follows to tell.
    Open,
    /// What must follow the match (begin, end) does.
    Kept(usize, usize),
    /// It does not.
    Broken(usize, usize),
}

impl Rule {
    /// Compiles a rule: behind every match of `pattern`, `follow` must match within a line and `within_bytes`.
    ///
    /// # Errors
    /// [`RuleError`] for a pattern that is none, has look-around, or is too large.
    pub fn new(name: &str, pattern: &str, follow: &str, within_bytes: usize) -> Result<Self, RuleError> {
        let compile = |pattern: &str| {
            RegexBuilder::new(pattern)
                .size_limit(SIZE_BYTES)
                .dfa_size_limit(SIZE_BYTES)
                .build()
                .map_err(|error| RuleError { name: name.to_owned(), problem: error.to_string() })
        };
        Ok(Self {
            name: name.to_owned(),
            pattern: compile(pattern)?,
            follow: compile(&format!("\\A(?:{follow})"))?,
            anywhere: compile(follow)?,
            within_bytes: within_bytes.max(1),
        })
    }

    /// Looks at a text from byte `from` on; `finished` when nothing more comes. O(window + `within_bytes`).
    pub fn check(&self, text: &str, from: usize, finished: bool) -> Verdict {
        let mut start = from.max(text.len().saturating_sub(RULE_WINDOW_BYTES + self.within_bytes));
        while !text.is_char_boundary(start) {
            start += 1;
        }
        let Some(found) = self.pattern.find_at(text, start) else { return Verdict::Absent };
        let (begin, end) = (found.start(), found.end());
        if found.is_empty() || (end == text.len() && !finished) {
            return Verdict::Absent;
        }
        let behind = &text[end..];
        if self.follow.is_match(behind) {
            return Verdict::Kept(begin, end);
        }
        if finished || behind.len() >= self.within_bytes || behind.contains('\n') {
            return Verdict::Broken(begin, end);
        }
        Verdict::Open
    }

    /// What of a source could follow, in its order, each once.
    pub fn spans(&self, source: &str, limit: usize) -> Vec<String> {
        let mut spans: Vec<String> = Vec::new();
        for found in self.anywhere.find_iter(source).filter(|found| !found.is_empty()) {
            if spans.len() == limit {
                break;
            }
            if !spans.iter().any(|span| span == found.as_str()) {
                spans.push(found.as_str().to_owned());
            }
        }
        spans
    }
}
