//! Marks tokens that are likely wrong, and decides what is done about them.
//!
//! A mark comes from a rule, from the built-in looks at numbers and repetition, or from a head's score. What is marked
//! and stands literally in the source is right. Else the answer is decoded again from there, bound to what the source
//! has, twice at most.

use std::collections::HashMap;
use std::sync::Arc;

use super::atoms::{Atom, AtomKind, next_atom};
use super::constraint::Constraint;
use super::features::{FeatureReader, RowFacts, SCALARS};
use super::head::Head;
use super::rules::{Rule, Verdict};
use super::source::Source;

/// Times an answer is decoded again from one place.
pub const ROUNDS_LIMIT: usize = 2;
/// Times one answer is decoded again in all.
pub const REDOS_LIMIT: usize = 8;
/// Most notes of one answer.
const NOTES_LIMIT: usize = 32;
/// Spans of a source that can stand for what a rule asks for.
const RULE_SPANS_LIMIT: usize = 256;
/// Longest run of tokens whose third repetition in a row is marked, and the fewest tokens of all three.
const REPEATED_RUN: usize = 16;
const REPEATED_TOKENS: usize = 12;

/// What is looked for. Nothing by default.
#[derive(Debug, Clone, Default)]
pub struct Validation {
    /// Tokens that may still change: text is held back until so many more have come.
    pub reach_tokens: usize,
    /// What must follow what.
    pub rules: Arc<[Rule]>,
    /// Mark numbers that are not in the source.
    pub numbers: bool,
    /// Mark runs of tokens that come three times in a row.
    pub repetition: bool,
    /// Scores tokens.
    pub head: Option<Arc<Head>>,
}

/// What became of a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It stands in the source.
    InSource,
    /// The answer was decoded again from there.
    Redone,
    /// The source has nothing to put there.
    NothingToCopy,
    /// It is sent already.
    BeyondRing,
    /// It was decoded again as often as allowed, or the answer may not become long enough for what would be copied.
    Left,
}

impl Outcome {
    /// The name in receipts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InSource => "in_source",
            Self::Redone => "redone",
            Self::NothingToCopy => "nothing_to_copy",
            Self::BeyondRing => "beyond_ring",
            Self::Left => "left",
        }
    }
}

/// One mark, for the receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Index of the first token.
    pub index: usize,
    /// `numbers`, `repetition`, `head`, or the rule's name.
    pub by: String,
    /// What was marked.
    pub text: String,
    /// What became of it.
    pub outcome: Outcome,
}

/// Decode again from a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redo {
    /// Its index in the answer.
    pub start: usize,
    /// What may come.
    pub constraint: Constraint,
}

/// Follows one answer.
#[derive(Debug)]
pub struct Checker {
    validation: Arc<Validation>,
    source: Source,
    /// Most tokens the answer may have.
    tokens_limit: usize,
    text: String,
    /// Where each token's text ends.
    ends: Vec<usize>,
    /// Whether the tokens up to each have other bytes than text: see [`Checker::cut`].
    cut: Vec<bool>,
    ids: Vec<u32>,
    /// Scores of the first tokens; the last one's comes with the state after it.
    scores: Vec<f32>,
    features: FeatureReader,
    unscored: Option<[f32; SCALARS]>,
    /// Byte up to which words and numbers were judged.
    judged: usize,
    /// Byte from which each rule looks, and where its last match began.
    rules: Vec<(usize, usize)>,
    /// What of the source each rule allows, once it has been looked for.
    rule_spans: Vec<Option<Arc<[String]>>>,
    /// Tokens whose repetition was looked at.
    repeated: usize,
    rounds: HashMap<usize, usize>,
    redos: usize,
    notes: Vec<Note>,
}

impl Checker {
    /// A checker of an answer about a source.
    pub fn new(validation: Arc<Validation>, source: String) -> Self {
        Self {
            rules: vec![(0, 0); validation.rules.len()],
            rule_spans: vec![None; validation.rules.len()],
            validation,
            source: Source::new(source),
            tokens_limit: usize::MAX,
            text: String::new(),
            ends: Vec::new(),
            cut: Vec::new(),
            ids: Vec::new(),
            scores: Vec::new(),
            features: FeatureReader::default(),
            unscored: None,
            judged: 0,
            repeated: 0,
            rounds: HashMap::new(),
            redos: 0,
            notes: Vec::new(),
        }
    }

    /// An answer of at most so many tokens: no copy is begun that may not fit.
    #[must_use]
    pub fn within(mut self, tokens: usize) -> Self {
        self.tokens_limit = tokens;
        self
    }

    /// Whether states and row facts are wanted.
    pub fn has_head(&self) -> bool {
        self.validation.head.is_some()
    }

    /// Tokens that may still change.
    pub fn reach_tokens(&self) -> usize {
        self.validation.reach_tokens
    }

    /// The model's state after the last token read. O(weights of the head).
    pub fn state(&mut self, state: &[f32]) {
        if let (Some(head), Some(features)) = (&self.validation.head, self.unscored.take()) {
            self.scores.push(head.score(state, &features));
        }
    }

    /// The next token and its text; `row` where a head wants it.
    pub fn read(&mut self, token: u32, text: &str, row: Option<RowFacts>) {
        if let Some(row) = row {
            // Without a state in between, as for the first token of a step that failed, nothing is known.
            self.scores.resize(self.ids.len(), 0.0);
            self.unscored = Some(self.features.read(&self.source, token, text, row));
        }
        self.text.push_str(text);
        self.ends.push(self.text.len());
        self.cut.push(false);
        self.ids.push(token);
    }

    /// The last token read has bytes that are not text yet, or never will be: half a character, the beginning of a
    /// stop sequence, or one and what stands behind it. A copy cannot begin behind such a token.
    pub fn cut(&mut self) {
        if let Some(cut) = self.cut.last_mut() {
            *cut = true;
        }
    }

    /// No token follows, and this text was held back until now.
    pub fn finish(&mut self, rest: &str) {
        if let Some(end) = self.ends.last_mut() {
            self.text.push_str(rest);
            *end = self.text.len();
        }
    }

    /// Whether the answer should be decoded again. `oldest` is the first token that can still change, `finished`
    /// when the answer would end here. O(new text).
    pub fn judge(&mut self, finished: bool, oldest: usize) -> Option<Redo> {
        self.judge_rules(finished, oldest)
            .or_else(|| self.judge_atoms(finished, oldest))
            .or_else(|| self.judge_repetition(oldest))
    }

    /// Forgets all tokens from `start` on.
    pub fn rewind(&mut self, start: usize) {
        self.ends.truncate(start);
        self.cut.truncate(start);
        self.ids.truncate(start);
        self.scores.truncate(start);
        self.text.truncate(self.ends.last().copied().unwrap_or(0));
        self.unscored = None;
        self.features.rewind(start, &self.text);
        // What comes may grow together with a number that was judged already.
        self.judged = self.judged.min(self.text.trim_end_matches(|last: char| !last.is_whitespace()).len());
        self.repeated = self.repeated.min(start);
        for (from, begin) in &mut self.rules {
            if *from >= self.text.len() {
                *from = (*begin).min(self.text.len());
            }
        }
    }

    /// What was marked, and what became of it.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    fn judge_rules(&mut self, finished: bool, oldest: usize) -> Option<Redo> {
        let validation = Arc::clone(&self.validation);
        for (index, rule) in validation.rules.iter().enumerate() {
            loop {
                match rule.check(&self.text, self.rules[index].0, finished) {
                    Verdict::Absent | Verdict::Open => break,
                    Verdict::Kept(begin, end) => self.rules[index] = (end, begin),
                    Verdict::Broken(begin, end) => {
                        self.rules[index] = (end, begin);
                        let spans = self.rule_spans[index]
                            .get_or_insert_with(|| rule.spans(self.source.text(), RULE_SPANS_LIMIT).into());
                        let spans = Arc::clone(spans);
                        let marked: String = self.text[end..].chars().take(32).collect();
                        if let Some(redo) = self.mark(&rule.name, end, marked, &spans, None, oldest) {
                            return Some(redo);
                        }
                    }
                }
            }
        }
        None
    }

    fn judge_atoms(&mut self, finished: bool, oldest: usize) -> Option<Redo> {
        if !self.validation.numbers && self.validation.head.is_none() {
            return None;
        }
        while let Some(atom) = next_atom(&self.text, self.judged) {
            // Two more characters tell whether a number goes on behind a point.
            if !finished && atom.range.end + 2 > self.text.len() {
                break;
            }
            let first = self.token_at(atom.range.start);
            let behind = self.ends.partition_point(|&end| end < atom.range.end) + 1;
            let by_head = match &self.validation.head {
                Some(_) if !finished && self.scores.len() < behind => break,
                Some(head) => {
                    let scores = &self.scores[first.min(self.scores.len())..behind.min(self.scores.len())];
                    scores.iter().any(|&score| score >= head.threshold())
                }
                None => false,
            };
            self.judged = atom.range.end;
            if let Some(redo) = self.judge_atom(&atom, by_head, oldest) {
                return Some(redo);
            }
        }
        None
    }

    fn judge_atom(&mut self, atom: &Atom, by_head: bool, oldest: usize) -> Option<Redo> {
        let by_numbers = self.validation.numbers && atom.kind == AtomKind::Number;
        if (!by_head && !by_numbers) || self.source.is_empty() {
            return None;
        }
        let by = if by_head { "head" } else { "numbers" };
        let marked = self.text[atom.range.clone()].to_owned();
        if self.source.has(&marked) {
            if by_head {
                self.note(self.token_at(atom.range.start), by, marked, Outcome::InSource);
            }
            return None;
        }
        let spans = self.source.spans(atom.kind).to_vec();
        self.mark(by, atom.range.start, marked, &spans, None, oldest)
    }

    fn judge_repetition(&mut self, oldest: usize) -> Option<Redo> {
        if !self.validation.repetition || self.repeated == self.ids.len() {
            return None;
        }
        self.repeated = self.ids.len();
        let ids = &self.ids;
        let is_repeated = |run: usize| {
            ids.len() >= 3 * run && 3 * run >= REPEATED_TOKENS && {
                let last = &ids[ids.len() - run..];
                &ids[ids.len() - 2 * run..ids.len() - run] == last
                    && &ids[ids.len() - 3 * run..ids.len() - 2 * run] == last
            }
        };
        let run = (1..=REPEATED_RUN).find(|&run| is_repeated(run))?;
        let start = ids.len() - run;
        let at = start.checked_sub(1).map_or(0, |before| self.ends[before]);
        let banned = ids[start];
        self.mark("repetition", at, self.text[at..].to_owned(), &[], Some((start, banned)), oldest)
    }

    /// The token that byte `at` belongs to.
    fn token_at(&self, at: usize) -> usize {
        self.ends.partition_point(|&end| end <= at)
    }

    /// The token from which byte `at` is written anew: the one it belongs to or, at the end of the text, the one that
    /// would come next; and as far before it as bytes and text are not the same.
    fn copy_at(&self, at: usize) -> usize {
        let token = self.token_at(at);
        self.cut[..token].iter().rposition(|&is_cut| !is_cut).map_or(0, |whole| whole + 1)
    }

    /// Something at byte `at` is likely wrong: notes it, and says how to decode again if that is possible.
    fn mark(
        &mut self,
        by: &str,
        at: usize,
        marked: String,
        spans: &[String],
        banned: Option<(usize, u32)>,
        oldest: usize,
    ) -> Option<Redo> {
        let start = banned.map_or_else(|| self.copy_at(at), |(start, _)| start);
        let begin = start.checked_sub(1).map_or(0, |before| self.ends[before]);
        let before = &self.text[begin..at];
        let constraint = match banned {
            Some((_, token)) => Some(Constraint::Ban(token)),
            // Bytes that are no characters are not those of the text.
            None if before.contains(char::REPLACEMENT_CHARACTER) => None,
            None => {
                let others = spans.iter().filter(|span| **span != marked);
                let spans: Vec<Vec<u8>> =
                    others.map(|span| [before.as_bytes(), span.as_bytes()].concat()).collect();
                (!spans.is_empty()).then_some(Constraint::Copy { spans, written: Vec::new() })
            }
        };
        let has_any = constraint.is_some();
        let constraint =
            constraint.and_then(|constraint| constraint.within(self.tokens_limit.saturating_sub(start)));
        let rounds = self.rounds.get(&start).copied().unwrap_or(0);
        let outcome = if !has_any {
            Outcome::NothingToCopy
        } else if start < oldest {
            Outcome::BeyondRing
        } else if constraint.is_none() || rounds >= ROUNDS_LIMIT || self.redos >= REDOS_LIMIT {
            Outcome::Left
        } else {
            Outcome::Redone
        };
        self.note(start, by, marked, outcome);
        let constraint = constraint.filter(|_| outcome == Outcome::Redone)?;
        self.rounds.insert(start, rounds + 1);
        self.redos += 1;
        Some(Redo { start, constraint })
    }

    fn note(&mut self, index: usize, by: &str, text: String, outcome: Outcome) {
        let note = Note { index, by: by.to_owned(), text, outcome };
        // What is judged again says nothing new.
        let is_known = outcome != Outcome::Redone && self.notes.contains(&note);
        if !is_known && self.notes.len() < NOTES_LIMIT {
            self.notes.push(note);
        }
    }
}
