//! Keeps text of users from becoming control tokens.
//!
//! A template mixes its own text with the messages', and afterwards nobody can tell which `<|im_end|>` came
//! from whom. So a character that no text can mean (a Unicode noncharacter that occurs nowhere in the
//! input) is put into the messages before rendering: behind every character that could be the first of a
//! control token, and before text that could continue one. What the template writes itself stays whole; what
//! contains the mark is not a control token. After rendering the marks are taken out again.
//!
//! Templates look into messages (`'</think>' in content`), so a character that begins one of the template's
//! own literals stays unmarked, as long as the literal itself leads away from every control token. That keeps
//! the protection even where a template cuts messages up, changes case or removes parts of them.

use std::borrow::Cow;

use aho_corasick::AhoCorasick;

use crate::ModelError;
use crate::tokenizer::{Segment, automaton};

pub(super) struct Guard {
    /// Texts of control tokens, of at least two characters each.
    controls: Vec<String>,
    finder: Option<AhoCorasick>,
    /// Characters that begin one.
    first: Vec<char>,
    /// The template's literals that contain such characters, each with the byte offsets where they may stay
    /// unmarked.
    literals: Vec<(String, Vec<usize>)>,
}

impl Guard {
    pub(super) fn new<'a>(
        controls: impl Iterator<Item = &'a str>,
        literals: Vec<String>,
    ) -> Result<Self, ModelError> {
        // A single character cannot be split by a mark: such a token is text to templates.
        let mut controls: Vec<String> =
            controls.filter(|text| text.chars().nth(1).is_some()).map(str::to_owned).collect();
        controls.sort_unstable();
        let mut first: Vec<char> = controls.iter().filter_map(|text| text.chars().next()).collect();
        first.dedup();
        let finder = if controls.is_empty() { None } else { Some(automaton(&controls)?) };
        let mut guard = Self { controls, finder, first, literals: Vec::new() };
        guard.literals = literals
            .into_iter()
            .map(|literal| {
                let exempt = guard.exempt_offsets(&literal);
                (literal, exempt)
            })
            .filter(|(_, exempt)| !exempt.is_empty())
            .collect();
        guard.literals.sort_unstable();
        guard.literals.dedup();
        Ok(guard)
    }

    /// Where a literal has a first character that, with what follows it in the literal, is the beginning of no
    /// control token.
    fn exempt_offsets(&self, literal: &str) -> Vec<usize> {
        literal
            .char_indices()
            .filter(|(_, character)| self.first.contains(character))
            .map(|(offset, _)| offset)
            .filter(|&offset| {
                let tail = &literal[offset..];
                !self.controls.iter().any(|text| text.starts_with(tail) || tail.starts_with(text.as_str()))
            })
            .collect()
    }

    /// A noncharacter that occurs in none of the texts.
    pub(super) fn mark_for(texts: &[&str]) -> Option<char> {
        // U+FDD0 to U+FDEF and the last two of each plane: Unicode will never assign them.
        let ends_of_planes = (0..=0x10_u32).flat_map(|plane| [plane << 16 | 0xfffe, plane << 16 | 0xffff]);
        (0xfdd0..=0xfdef_u32)
            .chain(ends_of_planes)
            .filter_map(char::from_u32)
            .find(|&mark| texts.iter().all(|text| !text.contains(mark)))
    }

    /// `text` with marks, so that no part of it can become (part of) a control token.
    pub(super) fn protect<'t>(&self, text: &'t str, mark: char) -> Cow<'t, str> {
        let body = text.trim_start();
        let leading = text.len() - body.len();
        let continues = self.could_continue(body.trim_end());
        if !continues && !text.contains(self.first.as_slice()) {
            return Cow::Borrowed(text);
        }
        let exempt = self.exempt_in(text);
        let mut out = String::with_capacity(text.len() + text.len() / 8 + mark.len_utf8());
        for (at, character) in text.char_indices() {
            if continues && at == leading {
                out.push(mark);
            }
            out.push(character);
            if self.first.contains(&character) && exempt.binary_search(&at).is_err() {
                out.push(mark);
            }
        }
        Cow::Owned(out)
    }

    /// Whether text before `body` and `body` together could make a control token.
    fn could_continue(&self, body: &str) -> bool {
        !body.is_empty()
            && self.controls.iter().any(|text| {
                text.char_indices().skip(1).any(|(at, _)| {
                    let rest = &text[at..];
                    body.starts_with(rest) || rest.starts_with(body)
                })
            })
    }

    /// Sorted offsets of the characters that stay unmarked.
    fn exempt_in(&self, text: &str) -> Vec<usize> {
        let mut offsets: Vec<usize> = self
            .literals
            .iter()
            .flat_map(|(literal, exempt)| {
                text.match_indices(literal.as_str())
                    .flat_map(move |(start, _)| exempt.iter().map(move |offset| start + offset))
            })
            .collect();
        offsets.sort_unstable();
        offsets
    }

    /// Cuts rendered text at the control tokens and takes the marks out.
    pub(super) fn segments(&self, rendered: &str, mark: char) -> Vec<Segment> {
        let mut segments = Vec::new();
        let mut position = 0;
        let push_text = |segments: &mut Vec<Segment>, text: &str| {
            let text = text.replace(mark, "");
            if !text.is_empty() {
                segments.push(Segment { text, control: false });
            }
        };
        for found in self.finder.iter().flat_map(|finder| finder.find_iter(rendered)) {
            push_text(&mut segments, &rendered[position..found.start()]);
            segments.push(Segment { text: rendered[found.range()].to_owned(), control: true });
            position = found.end();
        }
        push_text(&mut segments, &rendered[position..]);
        segments
    }
}
