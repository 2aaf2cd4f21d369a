//! What a re-scoring head is told of a token beside the model's state.

use super::atoms::{AtomKind, atoms};
use super::source::Source;

/// Numbers beside the state; a change of their meaning is a new [`FORMAT`](super::FORMAT).
pub const SCALARS: usize = 12;
/// Tokens of the run whose repetition is looked for.
const REPEATED_TOKENS: usize = 4;
/// Logits and their logarithms are given in units of so many.
const UNIT: f32 = 10.0;

/// What the row before a token said of it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RowFacts {
    /// ln of the token's probability.
    pub log_probability: f32,
    /// Distance of its logit to the largest.
    pub distance: f32,
    /// Distance of the largest logit to the second.
    pub margin: f32,
    /// Entropy of the distribution, as a share of the most there can be.
    pub entropy: f32,
}

impl RowFacts {
    /// From the logits of a row, `[vocabulary]`, and the token that follows. O(vocabulary).
    pub fn new(logits: &[f32], token: u32) -> Self {
        let (mut first, mut second) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
        for &logit in logits {
            if logit > first {
                second = first;
                first = logit;
            } else if logit > second {
                second = logit;
            }
        }
        let (mut sum, mut weighted) = (0.0_f64, 0.0_f64);
        for &logit in logits {
            let below = logit - first;
            let weight = f64::from(below.exp());
            sum += weight;
            weighted += weight * f64::from(below);
        }
        let own = logits.get(token as usize).copied().unwrap_or(first);
        let log_sum = sum.ln();
        let entropy = (log_sum - weighted / sum) / (logits.len().max(2) as f64).ln();
        Self {
            log_probability: (f64::from(own - first) - log_sum) as f32,
            distance: first - own,
            margin: if second.is_finite() { first - second } else { 0.0 },
            entropy: entropy as f32,
        }
    }
}

/// Words that turn a statement round.
const NEGATIONS: [&str; 12] =
    ["not", "no", "never", "none", "nor", "without", "cannot", "nicht", "kein", "nie", "不", "没"];

/// Reads an answer token by token and makes the features of each. O(word + answer tokens) a token.
#[derive(Debug, Clone, Default)]
pub struct FeatureReader {
    /// The word that is being written.
    word: String,
    ids: Vec<u32>,
}

impl FeatureReader {
    /// The features of the next token, whose text is `text`.
    pub fn read(&mut self, source: &Source, token: u32, text: &str, row: RowFacts) -> [f32; SCALARS] {
        let begins_word = text.starts_with(|character: char| !character.is_alphanumeric());
        if begins_word {
            self.word.clear();
        }
        self.word.push_str(text);
        let last = atoms(&self.word).last();
        let word = last.as_ref().map_or("", |atom| &self.word[atom.range.clone()]).to_owned();
        if let Some(atom) = &last {
            self.word.drain(..atom.range.start);
        }
        let kind = last.map(|atom| atom.kind);
        self.ids.push(token);
        let is = |condition: bool| f32::from(u8::from(condition));
        let begins_in_source = !word.is_empty() && source.has_beginning(&word);
        [
            (row.log_probability / UNIT).max(-3.0),
            (row.distance / UNIT).min(3.0),
            (row.margin / UNIT).min(3.0),
            row.entropy,
            is(begins_in_source),
            is(!source.is_empty()),
            is(kind == Some(AtomKind::Number)),
            is(kind == Some(AtomKind::Name)),
            is(NEGATIONS.contains(&word.to_lowercase().as_str())),
            is(word.is_empty()),
            is(!begins_word),
            is(self.repeats()),
        ]
    }

    /// Whether the last tokens stand earlier in the answer already.
    fn repeats(&self) -> bool {
        let Some(before) = self.ids.len().checked_sub(REPEATED_TOKENS) else { return false };
        let (earlier, last) = self.ids.split_at(before);
        earlier.windows(REPEATED_TOKENS).any(|window| window == last)
    }

    /// Forgets all tokens but the first `tokens`; `text` is the answer's text up to there.
    pub fn rewind(&mut self, tokens: usize, text: &str) {
        self.ids.truncate(tokens);
        self.word.clear();
        if let Some(atom) = atoms(text).last().filter(|atom| atom.range.end == text.len()) {
            self.word.push_str(&text[atom.range]);
        }
    }
}
