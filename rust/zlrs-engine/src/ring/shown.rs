//! What the reader of a stream has seen of guesses that are not verified yet.

use std::collections::VecDeque;

/// Most tokens that are shown and not verified.
pub const RING_DEPTH: usize = 5;

/// One event about one token of an answer.
///
/// A reader that keeps the latest text of every index has the answer: the texts in the order of their indices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenEvent {
    /// A token's text is there. Empty where a character or a stop sequence may go on in the next token, whose text
    /// then begins with what was held back; what is left of that at the end has the index after the last token.
    Token {
        /// Its place in the answer, from 0.
        index: usize,
        /// Whole characters.
        text: String,
        /// Whether it may still change. The first certain token makes all before it certain. In an answer that is
        /// followed by a [`Checker`](super::Checker) all tokens may; what [`Event::Delta`](crate::Event::Delta)
        /// brings is certain.
        provisional: bool,
    },
    /// The text of a token that was shown is another; an empty one takes it back.
    Correction {
        /// Its place in the answer.
        index: usize,
        /// What was shown.
        original: String,
        /// What it is.
        corrected: String,
    },
}

/// The guesses that a reader has seen: at most [`RING_DEPTH`], from the first token that is not certain on.
#[derive(Debug, Default)]
pub struct Shown {
    /// Index of the first token that is not certain.
    index: usize,
    open: VecDeque<(u32, String)>,
}

impl Shown {
    /// Shows guesses, token and text, of the tokens from the first uncertain one on. Those that are shown already are
    /// not repeated, and wrong ones give way. O(guesses).
    pub fn guess(
        &mut self,
        guesses: impl IntoIterator<Item = (u32, String)>,
        mut tell: impl FnMut(TokenEvent),
    ) {
        let mut same = true;
        let mut count = 0;
        for (offset, guess) in guesses.into_iter().take(RING_DEPTH).enumerate() {
            let index = self.index + offset;
            count = offset + 1;
            match self.open.get_mut(offset) {
                Some(open) if *open == guess => {}
                Some(open) => {
                    same = false;
                    let original = std::mem::replace(open, guess).1;
                    correct(index, original, open.1.clone(), &mut tell);
                }
                None => {
                    tell(TokenEvent::Token { index, text: guess.1.clone(), provisional: true });
                    self.open.push_back(guess);
                }
            }
        }
        if !same {
            self.withdraw(count, tell);
        }
    }

    /// The next token is verified, and certain unless it may be taken back by [`Shown::reopen`] (`provisional`). What
    /// was shown of others behind it stays if it was guessed.
    pub fn accept(&mut self, token: u32, text: &str, provisional: bool, mut tell: impl FnMut(TokenEvent)) {
        let index = self.index;
        match self.open.pop_front() {
            None => tell(TokenEvent::Token { index, text: text.to_owned(), provisional }),
            Some((guess, shown)) => {
                correct(index, shown, text.to_owned(), &mut tell);
                if guess != token {
                    // Counted as if it were still there, so that the indices behind it hold.
                    self.index += 1;
                    self.withdraw(0, tell);
                    return;
                }
            }
        }
        self.index += 1;
    }

    /// The verified tokens from `index` on, with their texts, are decoded again.
    pub fn reopen(&mut self, index: usize, tokens: Vec<(u32, String)>) {
        self.index = index;
        // Guesses behind them are still there.
        tokens.into_iter().rev().for_each(|token| self.open.push_front(token));
    }

    /// No token follows; `rest` is text that was held back until now.
    pub fn end(&mut self, rest: &str, mut tell: impl FnMut(TokenEvent)) {
        self.withdraw(0, &mut tell);
        if !rest.is_empty() {
            tell(TokenEvent::Token { index: self.index, text: rest.to_owned(), provisional: false });
        }
    }

    /// Takes back all but the first `keep` guesses.
    fn withdraw(&mut self, keep: usize, mut tell: impl FnMut(TokenEvent)) {
        for (offset, (_, shown)) in self.open.drain(keep.min(self.open.len())..).enumerate() {
            correct(self.index + keep + offset, shown, String::new(), &mut tell);
        }
    }
}

/// Tells a correction, if there is anything to correct.
fn correct(index: usize, original: String, corrected: String, tell: &mut impl FnMut(TokenEvent)) {
    if original != corrected {
        tell(TokenEvent::Correction { index, original, corrected });
    }
}
