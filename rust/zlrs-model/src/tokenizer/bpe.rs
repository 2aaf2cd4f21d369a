//! Byte-pair merging, through the `tokenizers` crate.

use std::collections::HashMap;

use tokenizers::Model;
use tokenizers::models::bpe::{BPE, Merges, Vocab};

use super::byte_level;
use super::vocabulary::{TokenKind, Vocabulary};
use crate::ModelError;
use crate::gguf::{Metadata, Strings};

/// Longest piece that is merged as one. Longer pieces (a megabyte of one letter) are merged part by part, so
/// that memory stays bounded; no text that people write has such pieces.
const MAX_PIECE_BYTES: usize = 1 << 18;

pub(super) struct Merger {
    bpe: BPE,
    /// The token of each single byte, where the vocabulary has one.
    bytes: Vec<Option<u32>>,
}

impl Merger {
    pub(super) fn new(
        metadata: &Metadata,
        vocabulary: &Vocabulary,
        ignores_merges: bool,
    ) -> Result<Self, ModelError> {
        let tokens = metadata.strings("tokenizer.ggml.tokens")?;
        let merges = metadata.strings("tokenizer.ggml.merges")?;
        let ids = ids_by_text(tokens);
        let mut mergeable = Vocab::default();
        for (index, text) in tokens.iter().enumerate() {
            // Of two tokens with the same text, the first is the one that text becomes.
            if vocabulary.kind(index as u32) == Some(TokenKind::Normal) {
                mergeable.entry(text.to_owned()).or_insert(index as u32);
            }
        }
        let merges = read_merges(merges, vocabulary, &ids, &mut mergeable)?;
        let bytes = (0..=255_u8).map(|byte| mergeable.get(&byte_level::encode(&[byte])).copied()).collect();
        let bpe = BPE::builder()
            .vocab_and_merges(mergeable, merges)
            .ignore_merges(ignores_merges)
            .build()
            .map_err(|error| ModelError::Tokenizer { what: error.to_string() })?;
        Ok(Self { bpe, bytes })
    }

    /// Appends the ids of one piece of text. Bytes without a token are left out.
    pub(super) fn encode_into(&self, piece: &str, ids: &mut Vec<u32>) {
        for part in piece.as_bytes().chunks(MAX_PIECE_BYTES) {
            match self.bpe.tokenize(&byte_level::encode(part)) {
                Ok(tokens) => ids.extend(tokens.into_iter().map(|token| token.id)),
                // Not reachable without an "unknown" token, which is never set; bytes lose nothing.
                Err(_) => ids.extend(part.iter().filter_map(|&byte| self.bytes[usize::from(byte)])),
            }
        }
    }

    /// The token of a single byte.
    pub(super) fn byte(&self, byte: u8) -> Option<u32> {
        self.bytes[usize::from(byte)]
    }
}

/// The first id of every text.
fn ids_by_text(tokens: &Strings) -> HashMap<&str, u32> {
    let mut ids = HashMap::with_capacity(tokens.len());
    for (index, text) in tokens.iter().enumerate() {
        ids.entry(text).or_insert(index as u32);
    }
    ids
}

/// Checks every merge (both parts and the whole must be tokens, none of them a control token) and adds what
/// they name to `mergeable`.
fn read_merges(
    merges: &Strings,
    vocabulary: &Vocabulary,
    ids: &HashMap<&str, u32>,
    mergeable: &mut Vocab,
) -> Result<Merges, ModelError> {
    let mut whole = String::new();
    merges
        .iter()
        .enumerate()
        .map(|(rank, merge)| {
            let wrong =
                |what: &str| ModelError::Tokenizer { what: format!("merge {rank} ({merge:?}) {what}") };
            // A part may itself begin with a space only where tokens are not byte-level.
            let (left, right) = merge.split_once(' ').ok_or_else(|| wrong("is not two tokens"))?;
            whole.clear();
            whole.push_str(left);
            whole.push_str(right);
            for text in [left, right, whole.as_str()] {
                if mergeable.contains_key(text) {
                    continue;
                }
                let id = *ids.get(text).ok_or_else(|| wrong("names text that is not in the vocabulary"))?;
                if vocabulary.kind(id) == Some(TokenKind::Control) {
                    return Err(wrong("would make a control token from text"));
                }
                mergeable.insert(text.to_owned(), id);
            }
            Ok((left.to_owned(), right.to_owned()))
        })
        .collect()
}
