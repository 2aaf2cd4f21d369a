//! The tokenizer of a file, from its own metadata: byte-level BPE, or SentencePiece's BPE by scores.
//!
//! Decoding the ids gives the text back, but for what a family does to every text as it was trained: Qwen
//! composes accents (NFC), SentencePiece reads U+2581 as a space and may put one in front, and a byte that a
//! byte-level vocabulary has no token for is left out (those of small models lack some control bytes).

mod bpe;
pub(crate) mod byte_level;
mod pre_tokenizer;
mod sentence_piece;
#[cfg(test)]
mod tests;
mod vocabulary;

use std::collections::HashMap;

use aho_corasick::{AhoCorasick, MatchKind};

use self::pre_tokenizer::PreTokenizer;
pub use self::vocabulary::TokenKind;
use self::vocabulary::{Spelling, Vocabulary};
use crate::ModelError;
use crate::gguf::Metadata;

/// A stretch of a prompt: text, or the text of one control token that the chat template wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Its text.
    pub text: String,
    /// Whether it stands for a control token. Text of a user never does.
    pub control: bool,
}

impl Segment {
    /// Plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), control: false }
    }
}

/// How text becomes tokens.
enum Method {
    /// Cut into pieces, then merge bytes by rank.
    ByteLevel { cutter: PreTokenizer, merger: Box<bpe::Merger> },
    /// Merge characters by score.
    SentencePiece(sentence_piece::Merger),
}

/// Turns text into token ids and back.
pub struct Tokenizer {
    vocabulary: Vocabulary,
    method: Method,
    /// Ids of control tokens by text.
    control: HashMap<String, u32>,
    /// Finds user-defined tokens in text, the longest of the leftmost; with their ids.
    user_defined: Option<(AhoCorasick, Vec<u32>)>,
    adds_bos: bool,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer")
            .field("vocabulary", &self.vocabulary.len())
            .field("control", &self.control.len())
            .field("adds_bos", &self.adds_bos)
            .finish_non_exhaustive()
    }
}

impl Tokenizer {
    /// Reads the tokenizer of a model file. About a second for each million tokens and merges.
    ///
    /// # Errors
    /// [`ModelError::UnsupportedTokenizer`] for other kinds than byte-level BPE and SentencePiece's BPE, and for
    /// unknown pre-tokenizers; [`ModelError::Tokenizer`] for merges that do not fit the vocabulary; errors of the
    /// metadata.
    pub fn from_metadata(metadata: &Metadata) -> Result<Self, ModelError> {
        let (vocabulary, method, adds_bos) = match metadata.str("tokenizer.ggml.model")? {
            "gpt2" => {
                let vocabulary = Vocabulary::read(metadata, Spelling::ByteLevel)?;
                let pre = metadata.optional_str("tokenizer.ggml.pre")?.unwrap_or("default");
                let cutter = PreTokenizer::new(pre)?;
                let merger = Box::new(bpe::Merger::new(metadata, &vocabulary, cutter.ignores_merges)?);
                let adds_bos = cutter.adds_bos;
                (vocabulary, Method::ByteLevel { cutter, merger }, adds_bos)
            }
            "llama" => {
                let vocabulary = Vocabulary::read(metadata, Spelling::SentencePiece)?;
                let merger = sentence_piece::Merger::new(metadata, &vocabulary)?;
                (vocabulary, Method::SentencePiece(merger), true)
            }
            other => {
                return Err(ModelError::UnsupportedTokenizer {
                    key: "tokenizer.ggml.model",
                    given: other.to_owned(),
                    supported: "gpt2 (byte-level BPE) and llama (SentencePiece's BPE)".into(),
                });
            }
        };
        let adds_bos = metadata.optional_bool("tokenizer.ggml.add_bos_token")?.unwrap_or(adds_bos);
        if adds_bos && vocabulary.bos.is_none() {
            return Err(ModelError::MissingKey { key: "tokenizer.ggml.bos_token_id".into() });
        }
        let of_kind = |wanted: TokenKind| {
            let vocabulary = &vocabulary;
            (0..vocabulary.len() as u32)
                .filter(move |&id| vocabulary.kind(id) == Some(wanted))
                .filter_map(|id| Some((std::str::from_utf8(vocabulary.bytes(id)?).ok()?, id)))
                .filter(|(text, _)| !text.is_empty())
        };
        let mut control = HashMap::new();
        for (text, id) in of_kind(TokenKind::Control) {
            control.entry(text.to_owned()).or_insert(id);
        }
        let (texts, ids): (Vec<_>, Vec<_>) = of_kind(TokenKind::UserDefined).unzip();
        let user_defined = if ids.is_empty() { None } else { Some((automaton(&texts)?, ids)) };
        Ok(Self { vocabulary, method, control, user_defined, adds_bos })
    }

    /// The ids of a text. Never a control token: their texts are taken as plain text. Tokens that the file
    /// calls user-defined are found anywhere. No BOS is added. Time O(n log n).
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::with_capacity(text.len() / 3);
        self.encode_into(text, &mut ids);
        ids
    }

    /// The ids of a prompt: text as by [`encode`](Self::encode), control segments as the tokens they name. If
    /// the file asks for a BOS, the prompt begins with exactly one.
    pub fn encode_prompt(&self, segments: &[Segment]) -> Vec<u32> {
        let mut ids = Vec::new();
        let mut text = String::new();
        for segment in segments {
            match self.control.get(&segment.text).filter(|_| segment.control) {
                Some(&id) => {
                    self.encode_into(&text, &mut ids);
                    text.clear();
                    ids.push(id);
                }
                // Neighbouring texts are one text: their border is no border of tokens.
                None => text.push_str(&segment.text),
            }
        }
        self.encode_into(&text, &mut ids);
        if let Some(bos) = self.vocabulary.bos.filter(|_| self.adds_bos) {
            let present = ids.iter().take_while(|&&id| id == bos).count();
            ids.splice(..present, [bos]);
        }
        ids
    }

    /// The bytes of a token: for text exactly the bytes it stands for (not always whole characters), for
    /// others the token's own text.
    ///
    /// # Errors
    /// [`ModelError::TokenOutOfRange`].
    pub fn token_bytes(&self, id: u32) -> Result<&[u8], ModelError> {
        self.vocabulary.bytes(id).ok_or(ModelError::TokenOutOfRange { id, vocabulary: self.vocabulary.len() })
    }

    /// What a token is for; `None` outside the vocabulary.
    pub fn kind(&self, id: u32) -> Option<TokenKind> {
        self.vocabulary.kind(id)
    }

    /// Whether a token ends a generation: the file's EOS, end of turn or end of message, or a control token
    /// that is known to end turns.
    pub fn is_end(&self, id: u32) -> bool {
        self.vocabulary.is_end(id)
    }

    /// Whether it is a control token.
    pub fn is_control(&self, id: u32) -> bool {
        self.kind(id) == Some(TokenKind::Control)
    }

    /// Number of tokens. The model's logits may have more rows; those have no token.
    pub fn vocabulary_len(&self) -> usize {
        self.vocabulary.len()
    }

    /// The token at the beginning of a text.
    pub fn bos(&self) -> Option<u32> {
        self.vocabulary.bos
    }

    /// The token at the end of a text.
    pub fn eos(&self) -> Option<u32> {
        self.vocabulary.eos
    }

    /// Whether prompts begin with BOS.
    pub fn adds_bos(&self) -> bool {
        self.adds_bos
    }

    /// The token of a single byte, if the vocabulary has one.
    pub fn byte_token(&self, byte: u8) -> Option<u32> {
        match &self.method {
            Method::ByteLevel { merger, .. } => merger.byte(byte),
            Method::SentencePiece(merger) => Some(merger.byte(byte)),
        }
    }

    /// The id of the control token with that text.
    pub fn control_token(&self, text: &str) -> Option<u32> {
        self.control.get(text).copied()
    }

    /// The texts of all control tokens.
    pub fn control_texts(&self) -> impl Iterator<Item = &str> {
        self.control.keys().map(String::as_str)
    }

    fn encode_into(&self, text: &str, ids: &mut Vec<u32>) {
        match &self.method {
            Method::ByteLevel { cutter, merger } => self.each_stretch(text, ids, |stretch, ids| {
                for piece in cutter.split(&cutter.composed(stretch)) {
                    merger.encode_into(piece, ids);
                }
            }),
            Method::SentencePiece(merger) => {
                let mut work = sentence_piece::Work::default();
                self.each_stretch(&merger.spelled(text), ids, |stretch, ids| {
                    merger.encode_into(&self.vocabulary, stretch, &mut work, ids);
                });
            }
        }
    }

    /// Appends user-defined tokens where they stand; `encode` appends the stretches between them.
    fn each_stretch(&self, text: &str, ids: &mut Vec<u32>, mut encode: impl FnMut(&str, &mut Vec<u32>)) {
        let mut position = 0;
        if let Some((automaton, tokens)) = &self.user_defined {
            for found in automaton.find_iter(text) {
                encode(&text[position..found.start()], ids);
                ids.push(tokens[found.pattern().as_usize()]);
                position = found.end();
            }
        }
        encode(&text[position..], ids);
    }
}

/// Finds any of `texts`, the longest of the leftmost.
pub(crate) fn automaton<T: AsRef<[u8]>>(texts: &[T]) -> Result<AhoCorasick, ModelError> {
    AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostLongest)
        .build(texts)
        .map_err(|error| ModelError::Tokenizer { what: error.to_string() })
}
