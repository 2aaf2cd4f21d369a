//! The text an answer is about.

use std::collections::HashSet;

use super::atoms::{AtomKind, atoms, canonical};

/// Most spans that are kept to be copied, of each kind.
const SPANS_LIMIT: usize = 512;
/// Longest span in bytes.
const SPAN_BYTES_LIMIT: usize = 64;

/// A source: its text, and which words and numbers it has.
#[derive(Debug, Clone, Default)]
pub struct Source {
    text: String,
    known: HashSet<String>,
    /// Sorted, so that beginnings are found.
    sorted: Vec<String>,
    numbers: Vec<String>,
    names: Vec<String>,
}

impl Source {
    /// Reads a text. O(text).
    pub fn new(text: String) -> Self {
        let mut source = Self::default();
        for atom in atoms(&text) {
            let span = &text[atom.range.clone()];
            let spans = match atom.kind {
                AtomKind::Number => &mut source.numbers,
                AtomKind::Name | AtomKind::Word => &mut source.names,
            };
            let is_new = source.known.insert(canonical(span));
            let is_kept = atom.kind != AtomKind::Word && span.len() <= SPAN_BYTES_LIMIT;
            if is_new && is_kept && spans.len() < SPANS_LIMIT {
                spans.push(span.to_owned());
            }
        }
        source.sorted = source.known.iter().cloned().collect();
        source.sorted.sort_unstable();
        source.text = text;
        source
    }

    /// Whether a whole word or number is literally there.
    pub fn has(&self, span: &str) -> bool {
        self.known.contains(&canonical(span))
    }

    /// Whether a word or number that is there begins like this. O(log words).
    pub fn has_beginning(&self, beginning: &str) -> bool {
        let begins = |beginning: &str| {
            let at = self.sorted.partition_point(|known| known.as_str() < beginning);
            self.sorted.get(at).is_some_and(|known| known.starts_with(beginning))
        };
        // A comma of an unfinished number may group digits or not.
        begins(beginning) || begins(&beginning.replace(',', ""))
    }

    /// Whether there is nothing to compare with.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// What can stand for an atom of a kind, in the order of the text; nothing for plain words.
    pub fn spans(&self, kind: AtomKind) -> &[String] {
        match kind {
            AtomKind::Number => &self.numbers,
            AtomKind::Name => &self.names,
            AtomKind::Word => &[],
        }
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }
}
