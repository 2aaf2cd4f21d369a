//! Stop sequences, found across token borders.

/// Most stop sequences one request may give.
pub const STOP_LIMIT: usize = 64;
/// Longest stop sequence in bytes.
pub const STOP_BYTES_LIMIT: usize = 1024;

/// Why stop sequences were refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StopError {
    /// Too many of them.
    #[error("{given} stop sequences; the limit is {STOP_LIMIT}")]
    TooMany {
        /// Number given.
        given: usize,
    },
    /// One is empty: it would stop before the first token.
    #[error("stop sequence {index} is empty; leave it out")]
    Empty {
        /// Its index.
        index: usize,
    },
    /// One is too long.
    #[error("stop sequence {index} has {given} bytes; the limit is {STOP_BYTES_LIMIT}")]
    TooLong {
        /// Its index.
        index: usize,
        /// Its length.
        given: usize,
    },
}

/// Finds the first place where the text so far ends with a stop sequence; of several that end there, the
/// longest. How the text is cut into pieces makes no difference.
///
/// Text that may be the beginning of a stop sequence is held back until the match fails or the sequence ends.
/// One Knuth-Morris-Pratt automaton a sequence: O(bytes × sequences).
#[derive(Debug, Clone)]
pub struct StopMatcher {
    automata: Vec<Automaton>,
    held: String,
}

#[derive(Debug, Clone)]
struct Automaton {
    pattern: Vec<u8>,
    /// `borders[n]`: length of the longest proper border of the first n + 1 bytes.
    borders: Vec<usize>,
    matched: usize,
}

impl Automaton {
    fn new(pattern: &str) -> Self {
        let pattern = pattern.as_bytes().to_vec();
        let mut borders = vec![0; pattern.len()];
        let mut length = 0;
        for index in 1..pattern.len() {
            while length > 0 && pattern[index] != pattern[length] {
                length = borders[length - 1];
            }
            length += usize::from(pattern[index] == pattern[length]);
            borders[index] = length;
        }
        Self { pattern, borders, matched: 0 }
    }

    /// Reads one byte; true when the pattern is complete.
    fn advance(&mut self, byte: u8) -> bool {
        while self.matched > 0 && self.pattern[self.matched] != byte {
            self.matched = self.borders[self.matched - 1];
        }
        self.matched += usize::from(self.pattern[self.matched] == byte);
        self.matched == self.pattern.len()
    }
}

impl StopMatcher {
    /// A matcher for these sequences, possibly none.
    ///
    /// # Errors
    /// [`StopError`] when there are too many, or one is empty or too long.
    pub fn new(stops: &[String]) -> Result<Self, StopError> {
        if stops.len() > STOP_LIMIT {
            return Err(StopError::TooMany { given: stops.len() });
        }
        for (index, stop) in stops.iter().enumerate() {
            match stop.len() {
                0 => return Err(StopError::Empty { index }),
                given if given > STOP_BYTES_LIMIT => return Err(StopError::TooLong { index, given }),
                _ => {}
            }
        }
        Ok(Self { automata: stops.iter().map(|stop| Automaton::new(stop)).collect(), held: String::new() })
    }

    /// Reads `text`, appends to `out` what can no longer belong to a stop sequence. Returns the index of the
    /// sequence that was completed: `out` then ends where it begins, and the rest of `text` is dropped.
    pub fn push(&mut self, text: &str, out: &mut String) -> Option<usize> {
        if self.automata.is_empty() {
            out.push_str(text);
            return None;
        }
        let before = self.held.len();
        self.held.push_str(text);
        for (offset, &byte) in text.as_bytes().iter().enumerate() {
            let mut found: Option<usize> = None;
            for index in 0..self.automata.len() {
                if self.automata[index].advance(byte)
                    && found.is_none_or(|best| {
                        self.automata[best].pattern.len() < self.automata[index].pattern.len()
                    })
                {
                    found = Some(index);
                }
            }
            if let Some(index) = found {
                // A match begins inside the held text: held is the longest partial match before this text.
                let end = before + offset + 1;
                out.push_str(&self.held[..end - self.automata[index].pattern.len()]);
                self.held.clear();
                self.automata.iter_mut().for_each(|automaton| automaton.matched = 0);
                return Some(index);
            }
        }
        let keep = self.automata.iter().map(|automaton| automaton.matched).max().unwrap_or(0);
        // Sequences are whole characters and so is the text, hence partial matches begin at characters.
        let release = self.held.len() - keep;
        out.push_str(&self.held[..release]);
        self.held.drain(..release);
        None
    }

    /// Whether the text ends like a stop sequence begins.
    pub fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// The sequence has ended without a match: releases what was held back.
    pub fn finish(&mut self, out: &mut String) {
        out.push_str(&self.held);
        self.held.clear();
    }
}
