//! Byte-pair merging by scores, as SentencePiece does it: of all neighbours that together are a token, those of
//! the highest score are joined first, the leftmost among equals. Characters that no token covers become bytes.
//!
//! SentencePiece writes spaces as U+2581 and merges over those. The two spellings stand for one another exactly,
//! so here everything is kept with plain spaces and U+2581 in a text is read as a space, as the reference does.
//! Source of the method: Kudo and Richardson, "SentencePiece" (2018), and its published implementation.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use super::vocabulary::{TokenKind, Vocabulary};
use crate::ModelError;
use crate::gguf::Metadata;

/// How SentencePiece writes a space.
pub(super) const SPACE: char = '\u{2581}';
/// Longest stretch that is merged as one. Longer ones are merged part by part, so that memory stays bounded; no
/// text that people write has such words.
const MAX_WORD_BYTES: usize = 1 << 18;
/// Longest token that merging makes, in bytes: looking up every pair stays cheap whatever a file holds.
const MAX_TOKEN_BYTES: usize = 1024;
/// Nothing before or after.
const NONE: u32 = u32::MAX;

pub(super) struct Merger {
    scores: Vec<f32>,
    /// Ids of the tokens that merging may make, found by their bytes.
    by_bytes: HashTable<u32>,
    hasher: RandomState,
    /// The token of each single byte.
    bytes: Box<[u32; 256]>,
    /// Length of the longest token that merging may make.
    longest: usize,
    /// Whether no token goes on after a space that follows something else, so that words are merged apart.
    words_stand_alone: bool,
    /// Whether a text begins with a space that it does not show.
    pub(super) adds_space: bool,
}

/// A stretch of the word in work. Stretches form a list; joined ones are left in it with length 0.
#[derive(Clone, Copy)]
struct Symbol {
    start: u32,
    bytes: u32,
    before: u32,
    after: u32,
}

/// Two neighbours that together are a token.
struct Pair {
    score: f32,
    left: u32,
    right: u32,
    /// Bytes of both when the pair was found: another length now means that one of them has been joined since.
    bytes: u32,
    id: u32,
}

impl Ord for Pair {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then_with(|| other.left.cmp(&self.left))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pair {}

/// What one text needs while it is encoded.
#[derive(Default)]
pub(super) struct Work {
    symbols: Vec<Symbol>,
    pairs: BinaryHeap<Pair>,
    /// The parts that tokens nobody may use were made of, by what they cover.
    parts: HashMap<(u32, u32), u32>,
    pending: Vec<(u32, u32)>,
}

impl Merger {
    pub(super) fn new(metadata: &Metadata, vocabulary: &Vocabulary) -> Result<Self, ModelError> {
        let scores = read_scores(metadata, vocabulary.len())?;
        let hasher = RandomState::new();
        let mut by_bytes = HashTable::with_capacity(vocabulary.len());
        let mut bytes = [None; 256];
        let (mut longest, mut words_stand_alone) = (0, true);
        for id in 0..vocabulary.len() as u32 {
            let text = vocabulary.bytes(id).unwrap_or_default();
            match vocabulary.kind(id) {
                Some(TokenKind::Byte) => {
                    let token = &mut bytes[usize::from(text.first().copied().unwrap_or_default())];
                    *token = token.or(Some(id));
                }
                Some(TokenKind::Control) | None => {}
                Some(_) if text.is_empty() || text.len() > MAX_TOKEN_BYTES => {}
                Some(_) => {
                    longest = longest.max(text.len());
                    words_stand_alone &= !text.windows(2).any(|pair| pair[0] != b' ' && pair[1] == b' ');
                    let same = |other: &u32| vocabulary.bytes(*other) == Some(text);
                    let hash = |other: &u32| hasher.hash_one(vocabulary.bytes(*other).unwrap_or_default());
                    // Of two tokens with the same text, the first is the one that text becomes.
                    by_bytes.entry(hasher.hash_one(text), same, hash).or_insert(id);
                }
            }
        }
        let missing = bytes.iter().filter(|token| token.is_none()).count();
        if missing > 0 {
            let what = format!("{missing} of the 256 tokens for single bytes (<0x00> to <0xFF>) are missing");
            return Err(ModelError::Tokenizer { what });
        }
        if metadata.optional_bool("tokenizer.ggml.remove_extra_whitespaces")?.unwrap_or(false) {
            return Err(ModelError::Unsupported {
                what: "a tokenizer that removes spaces (tokenizer.ggml.remove_extra_whitespaces)".into(),
                supported: "those that keep them are".into(),
            });
        }
        let adds_space = metadata.optional_bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
        let bytes = Box::new(bytes.map(Option::unwrap_or_default));
        Ok(Self { scores, by_bytes, hasher, bytes, longest, words_stand_alone, adds_space })
    }

    /// The text as tokens are spelled: with plain spaces, and with the one in front that the file asks for.
    pub(super) fn spelled<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match (self.adds_space && !text.is_empty(), text.contains(SPACE)) {
            (false, false) => Cow::Borrowed(text),
            (false, true) => Cow::Owned(text.replace(SPACE, " ")),
            (true, _) => Cow::Owned(format!(" {}", text.replace(SPACE, " "))),
        }
    }

    /// Appends the ids of a spelled text. O(n log n) for n bytes.
    pub(super) fn encode_into(
        &self,
        vocabulary: &Vocabulary,
        text: &str,
        work: &mut Work,
        ids: &mut Vec<u32>,
    ) {
        let mut rest = text;
        while !rest.is_empty() {
            let (word, others) = rest.split_at(self.word_end(rest));
            self.merge(vocabulary, word, work, ids);
            rest = others;
        }
    }

    /// The token of a single byte.
    pub(super) fn byte(&self, byte: u8) -> u32 {
        self.bytes[usize::from(byte)]
    }

    /// Where the first stretch ends that is merged apart from what follows: leading spaces and a word.
    fn word_end(&self, text: &str) -> usize {
        let bytes = text.as_bytes();
        let border = || bytes.windows(2).position(|pair| pair[0] != b' ' && pair[1] == b' ');
        let end = if self.words_stand_alone { border().map_or(text.len(), |at| at + 1) } else { text.len() };
        if end <= MAX_WORD_BYTES { end } else { floor_char_boundary(text, MAX_WORD_BYTES) }
    }

    fn merge(&self, vocabulary: &Vocabulary, word: &str, work: &mut Work, ids: &mut Vec<u32>) {
        work.symbols.clear();
        work.pairs.clear();
        work.parts.clear();
        for (start, character) in word.char_indices() {
            let index = work.symbols.len() as u32;
            let (start, bytes) = (start as u32, character.len_utf8() as u32);
            work.symbols.push(Symbol { start, bytes, before: index.wrapping_sub(1), after: index + 1 });
        }
        if let Some(last) = work.symbols.last_mut() {
            last.after = NONE;
        }
        for right in 1..work.symbols.len() as u32 {
            self.consider(vocabulary, word, work, right - 1, right);
        }
        while let Some(pair) = work.pairs.pop() {
            let (left, right) = (work.symbols[pair.left as usize], work.symbols[pair.right as usize]);
            if left.bytes == 0 || right.bytes == 0 || left.bytes + right.bytes != pair.bytes {
                continue;
            }
            if vocabulary.kind(pair.id) == Some(TokenKind::Unused) {
                work.parts.insert((left.start, pair.bytes), left.bytes);
            }
            work.symbols[pair.right as usize].bytes = 0;
            let joined = &mut work.symbols[pair.left as usize];
            joined.bytes = pair.bytes;
            joined.after = right.after;
            if right.after != NONE {
                work.symbols[right.after as usize].before = pair.left;
                self.consider(vocabulary, word, work, pair.left, right.after);
            }
            if left.before != NONE {
                self.consider(vocabulary, word, work, left.before, pair.left);
            }
        }
        let mut index = 0;
        while index != NONE {
            let symbol = work.symbols[index as usize];
            self.emit(vocabulary, word, symbol, work, ids);
            index = symbol.after;
        }
    }

    /// Notes the two neighbours if together they are a token.
    fn consider(&self, vocabulary: &Vocabulary, word: &str, work: &mut Work, left: u32, right: u32) {
        let (first, second) = (work.symbols[left as usize], work.symbols[right as usize]);
        let bytes = first.bytes + second.bytes;
        if bytes as usize > self.longest {
            return;
        }
        let text = &word.as_bytes()[first.start as usize..][..bytes as usize];
        if let Some(id) = self.find(vocabulary, text) {
            work.pairs.push(Pair { score: self.scores[id as usize], left, right, bytes, id });
        }
    }

    /// Appends the tokens of one stretch that nothing joins any more.
    fn emit(&self, vocabulary: &Vocabulary, word: &str, symbol: Symbol, work: &mut Work, ids: &mut Vec<u32>) {
        work.pending.push((symbol.start, symbol.bytes));
        while let Some((start, bytes)) = work.pending.pop() {
            let text = &word.as_bytes()[start as usize..][..bytes as usize];
            let found = self.find(vocabulary, text);
            match (found, work.parts.get(&(start, bytes))) {
                // A token that nobody may use is taken apart into what it was made of.
                (Some(id), Some(&left)) if vocabulary.kind(id) == Some(TokenKind::Unused) => {
                    work.pending.push((start + left, bytes - left));
                    work.pending.push((start, left));
                }
                (Some(id), _) => ids.push(id),
                (None, _) => ids.extend(text.iter().map(|&byte| self.byte(byte))),
            }
        }
    }

    fn find(&self, vocabulary: &Vocabulary, text: &[u8]) -> Option<u32> {
        let same = |id: &u32| vocabulary.bytes(*id) == Some(text);
        self.by_bytes.find(self.hasher.hash_one(text), same).copied()
    }
}

fn floor_char_boundary(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

fn read_scores(metadata: &Metadata, tokens: usize) -> Result<Vec<f32>, ModelError> {
    let key = "tokenizer.ggml.scores";
    let scores = metadata.floats(key)?;
    if scores.len() != tokens {
        let given = format!("an array of {}", scores.len());
        return Err(ModelError::bad_value(key, given, format!("one element for each of {tokens} tokens")));
    }
    match scores.iter().find(|score| score.is_nan()) {
        Some(_) => Err(ModelError::bad_value(key, f32::NAN, "numbers")),
        // Of one zero, so that scores that are equal as numbers are equal in order.
        None => Ok(scores.iter().map(|score| score + 0.0).collect()),
    }
}
