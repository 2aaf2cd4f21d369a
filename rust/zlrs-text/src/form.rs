//! Forms: a canonical text with its values taken out.

use std::fmt::Write as _;

use crate::atoms::{Atom, Extractor};
use crate::{Canon, c2, canonical};

/// Opens a place in a template. The text's own are doubled, so that no text can pretend to have a place.
const MARK: char = '\u{E000}';

/// A form and the values that fill it. A node of the graph is (scope, template), an entry is (node, values).
#[derive(Clone, Debug, PartialEq)]
pub struct Form {
    /// The canonical text.
    pub text: String,
    /// The text with a typed place for each value.
    pub template: String,
    /// The values, in order, with their ranges in `text`.
    pub atoms: Vec<Atom>,
}

impl Extractor {
    /// The form of an ask. Where the wording itself may be the subject ("spell", "translate"), nothing is taken out.
    /// Linear in the length of the ask.
    #[must_use]
    pub fn form(&self, ask: &str, canon: Canon) -> Form {
        let text = canonical(ask, canon);
        let atoms = if c2::is_about_wording(&text) { Vec::new() } else { self.slots(&text) };
        let mut template = String::with_capacity(text.len());
        let mut at = 0;
        for atom in &atoms {
            push_escaped(&text[at..atom.span.start], &mut template);
            template.push(MARK);
            template.push_str(atom.value.kind());
            template.push(';');
            at = atom.span.end;
        }
        push_escaped(&text[at..], &mut template);
        Form { text, template, atoms }
    }
}

impl Form {
    /// The values as one text, length-prefixed: equal exactly where all values are the same as asked.
    #[must_use]
    pub fn values_key(&self) -> String {
        let mut out = String::new();
        for atom in &self.atoms {
            let key = atom.value.key();
            // Writing to a string cannot fail.
            let _ = write!(out, "{}:{}:{key}", atom.value.kind(), key.len());
        }
        out
    }

    /// Template and values as one text: equal exactly where node and entry are.
    #[must_use]
    pub fn entry_key(&self) -> String {
        format!("{}:{}{}", self.template.len(), self.template, self.values_key())
    }
}

fn push_escaped(text: &str, out: &mut String) {
    for character in text.chars() {
        if character == MARK {
            out.push(MARK);
        }
        out.push(character);
    }
}
