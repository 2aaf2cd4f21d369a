//! An answer that is followed by a checker: what is held back of it, and how it goes back.

use std::collections::VecDeque;

use crate::ring::features::RowFacts;
use crate::ring::{Checker, Constraint, Note};
use crate::text::TextStream;
use crate::vocabulary::Vocabulary;

/// A token that can still change.
#[derive(Debug)]
struct Held {
    token: u32,
    text: String,
    /// The stream of text before it.
    before: TextStream,
}

/// Where an answer goes back to.
#[derive(Debug)]
pub(super) struct Return {
    /// Index of the first token that is decoded again.
    pub start: usize,
    /// The tokens from there on, with their texts.
    pub taken: Vec<(u32, String)>,
    /// The stream of text before them; `None` where nothing is taken and the answer only goes on.
    pub before: Option<TextStream>,
}

/// What a checked answer has beside any other.
#[derive(Debug)]
pub(super) struct Checked {
    checker: Checker,
    held: VecDeque<Held>,
    constraint: Option<Constraint>,
    /// Of the chosen tokens of the step, where a head wants them: the model's state before each, and its row.
    states: Vec<f32>,
    rows: VecDeque<RowFacts>,
}

impl Checked {
    pub fn new(checker: Checker) -> Self {
        Self { checker, held: VecDeque::new(), constraint: None, states: Vec::new(), rows: VecDeque::new() }
    }

    /// Whether the next token is bound, so that nothing is guessed.
    pub fn is_bound(&self) -> bool {
        self.constraint.is_some()
    }

    pub fn has_head(&self) -> bool {
        self.checker.has_head()
    }

    /// A step's rows come.
    pub fn begin_step(&mut self) {
        self.states.clear();
        self.rows.clear();
    }

    /// What a bound answer goes on with; `None` for an answer that is free.
    pub fn bound_choice(&self, logits: &[f32], vocabulary: &dyn Vocabulary) -> Option<u32> {
        self.constraint.as_ref().and_then(|constraint| constraint.choose(logits, vocabulary))
    }

    /// A token was chosen at a row; `state` is the model's after the token before it.
    pub fn chose(&mut self, token: u32, logits: &[f32], state: Option<&[f32]>) {
        if let Some(state) = state {
            self.states.extend_from_slice(state);
            self.rows.push_back(RowFacts::new(logits, token));
        }
    }

    /// The state after the token before the next one is known, whether that one is text or the end.
    pub fn take_state(&mut self) -> Option<RowFacts> {
        let row = self.rows.pop_front()?;
        let width = self.states.len() / (self.rows.len() + 1);
        self.checker.state(&self.states[..width]);
        self.states.drain(..width);
        Some(row)
    }

    /// Takes a token and its text; hands over what cannot change any more.
    pub fn push(
        &mut self,
        token: u32,
        text: String,
        before: TextStream,
        row: Option<RowFacts>,
        vocabulary: &dyn Vocabulary,
        mut release: impl FnMut(u32, &str),
    ) {
        if let Some(constraint) = &mut self.constraint {
            let bytes = if vocabulary.is_control(token) { &[] } else { vocabulary.token_bytes(token) };
            if !constraint.advance(bytes) {
                self.constraint = None;
            }
        }
        self.checker.read(token, &text, row);
        self.held.push_back(Held { token, text, before });
        while self.held.len() > self.checker.reach_tokens() {
            let Some(held) = self.held.pop_front() else { break };
            release(held.token, &held.text);
        }
    }

    /// The last token has bytes that are not text yet, or never will be.
    pub fn cut(&mut self) {
        self.checker.cut();
    }

    /// Nothing changes any more.
    pub fn release_all(&mut self, mut release: impl FnMut(u32, &str)) {
        for held in self.held.drain(..) {
            release(held.token, &held.text);
        }
    }

    /// Where to go back to, if the answer is to be decoded again. `tokens` is how many it has; `ended` is its stream of
    /// text where it would end here.
    pub fn judge(&mut self, ended: Option<&TextStream>, tokens: usize) -> Option<Return> {
        if let Some(text) = ended {
            let mut rest = String::new();
            text.clone().finish(&mut rest);
            self.checker.finish(&rest);
        } else if self.constraint.is_some() {
            // A bound answer is judged when it is free again.
            return None;
        }
        let oldest = tokens - self.held.len();
        let redo = self.checker.judge(ended.is_some(), oldest)?;
        let taken: Vec<Held> = self.held.drain(redo.start.checked_sub(oldest)?..).collect();
        let before = taken.first().map(|first| first.before.clone());
        self.checker.rewind(redo.start);
        self.constraint = Some(redo.constraint);
        let taken = taken.into_iter().map(|held| (held.token, held.text)).collect();
        Some(Return { start: redo.start, taken, before })
    }

    pub fn notes(&self) -> &[Note] {
        self.checker.notes()
    }
}
