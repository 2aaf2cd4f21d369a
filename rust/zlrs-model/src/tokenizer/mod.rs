//! Byte-level BPE from a file's own metadata.
//!
//! Text is taken as it is: no normalisation, so decoding the ids gives the text back. A byte that the
//! vocabulary has no token for is left out, as the reference tokenizers do (vocabularies of small models lack
//! some control bytes).

mod bpe;
pub(crate) mod byte_level;
mod pre_tokenizer;
#[cfg(test)]
mod tests;
mod vocabulary;

use std::collections::HashMap;

use aho_corasick::{AhoCorasick, MatchKind};

use self::bpe::Merger;
use self::pre_tokenizer::PreTokenizer;
pub use self::vocabulary::TokenKind;
use self::vocabulary::Vocabulary;
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

/// Turns text into token ids and back.
pub struct Tokenizer {
    vocabulary: Vocabulary,
    cutter: PreTokenizer,
    merger: Merger,
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
    /// [`ModelError::UnsupportedTokenizer`] for other kinds than byte-level BPE and unknown pre-tokenizers;
    /// [`ModelError::Tokenizer`] for merges that do not fit the vocabulary; errors of the metadata.
    pub fn from_metadata(metadata: &Metadata) -> Result<Self, ModelError> {
        let model = metadata.str("tokenizer.ggml.model")?;
        if model != "gpt2" {
            return Err(ModelError::UnsupportedTokenizer {
                key: "tokenizer.ggml.model",
                given: model.to_owned(),
                supported: "gpt2 (byte-level BPE)".into(),
            });
        }
        let vocabulary = Vocabulary::read(metadata)?;
        let pre = metadata.optional_str("tokenizer.ggml.pre")?.unwrap_or("default");
        let cutter = PreTokenizer::new(pre)?;
        let merger = Merger::new(metadata, &vocabulary, cutter.ignores_merges)?;
        let adds_bos = metadata.optional_bool("tokenizer.ggml.add_bos_token")?.unwrap_or(cutter.adds_bos);
        if adds_bos && vocabulary.bos.is_none() {
            return Err(ModelError::MissingKey { key: "tokenizer.ggml.bos_token_id".into() });
        }
        let of_kind = |wanted: TokenKind| {
            let tokens = metadata.strings("tokenizer.ggml.tokens")?;
            let vocabulary = &vocabulary;
            Ok::<_, ModelError>(
                tokens
                    .iter()
                    .zip(0_u32..)
                    .filter(move |&(text, id)| !text.is_empty() && vocabulary.kind(id) == Some(wanted)),
            )
        };
        let mut control = HashMap::new();
        for (text, id) in of_kind(TokenKind::Control)? {
            control.entry(text.to_owned()).or_insert(id);
        }
        let (texts, ids): (Vec<_>, Vec<_>) = of_kind(TokenKind::UserDefined)?.unzip();
        let user_defined = if ids.is_empty() { None } else { Some((automaton(&texts)?, ids)) };
        Ok(Self { vocabulary, cutter, merger, control, user_defined, adds_bos })
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
        self.merger.byte(byte)
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
        let mut position = 0;
        if let Some((automaton, tokens)) = &self.user_defined {
            for found in automaton.find_iter(text) {
                self.encode_plain(&text[position..found.start()], ids);
                ids.push(tokens[found.pattern().as_usize()]);
                position = found.end();
            }
        }
        self.encode_plain(&text[position..], ids);
    }

    fn encode_plain(&self, text: &str, ids: &mut Vec<u32>) {
        for piece in self.cutter.split(text) {
            self.merger.encode_into(piece, ids);
        }
    }
}

/// Finds any of `texts`, the longest of the leftmost.
pub(crate) fn automaton<T: AsRef<[u8]>>(texts: &[T]) -> Result<AhoCorasick, ModelError> {
    AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostLongest)
        .build(texts)
        .map_err(|error| ModelError::Tokenizer { what: error.to_string() })
}
