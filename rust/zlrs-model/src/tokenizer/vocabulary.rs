//! The tokens of a file: their bytes, their kinds, and the ids with a meaning of their own.

use crate::ModelError;
use crate::gguf::{Metadata, Strings};

use super::byte_level;
use super::sentence_piece::SPACE;

/// Most tokens.
const MAX_TOKENS: u64 = 1 << 22;

/// What a token is for, as the file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// Text that merging can make.
    Normal,
    /// Steers the model; never made from text.
    Control,
    /// Text with an id of its own, found before merging.
    UserDefined,
    /// One byte of a text that no other token covers.
    Byte,
    /// Never made and never sampled on purpose.
    Unused,
}

impl TokenKind {
    fn from_number(number: i64, spelling: Spelling) -> Option<Self> {
        Some(match number {
            1 => Self::Normal,
            // In a byte-level vocabulary a byte is plain text.
            6 if spelling == Spelling::ByteLevel => Self::Normal,
            6 => Self::Byte,
            // Kind 2 is the "unknown" token.
            2 | 3 => Self::Control,
            4 => Self::UserDefined,
            0 | 5 => Self::Unused,
            _ => return None,
        })
    }
}

/// How a vocabulary writes its tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling {
    /// Every byte as a character of its own.
    ByteLevel,
    /// As text with U+2581 for spaces, and bytes as `<0x00>`.
    SentencePiece,
}

impl Spelling {
    /// Appends the bytes that a token of text stands for.
    fn decode(self, kind: TokenKind, text: &str, bytes: &mut Vec<u8>) -> Result<(), ModelError> {
        match (self, kind) {
            (Self::ByteLevel, TokenKind::Normal) => match byte_level::decode(text) {
                Some(decoded) => bytes.extend(decoded),
                None => bytes.extend(text.as_bytes()),
            },
            (Self::SentencePiece, TokenKind::Byte) => {
                let hex = text.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
                let byte = hex.filter(|hex| hex.len() == 2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
                bytes.push(byte.ok_or_else(|| ModelError::Tokenizer {
                    what: format!("{text:?} is marked as a byte, which is written as <0x00> to <0xFF>"),
                })?);
            }
            (Self::SentencePiece, TokenKind::Normal | TokenKind::UserDefined | TokenKind::Unused) => {
                bytes.extend(text.replace(SPACE, " ").as_bytes());
            }
            _ => bytes.extend(text.as_bytes()),
        }
        Ok(())
    }
}

/// Texts that end a turn, in the families known so far. A control token of such a text ends a generation even
/// where the file names another as EOS.
const END_TEXTS: [&str; 17] = [
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|eot|>",
    "<|eom|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<end_of_turn>",
    "<eos>",
    "</s>",
    "<EOT>",
    "<|END_OF_TURN_TOKEN|>",
    "<｜end▁of▁sentence｜>",
    "[EOS]",
];

pub(super) struct Vocabulary {
    /// The tokens' bytes, one after another.
    bytes: Vec<u8>,
    /// Where each token ends in `bytes`.
    ends: Vec<u32>,
    kinds: Vec<TokenKind>,
    is_end: Vec<bool>,
    pub(super) bos: Option<u32>,
    pub(super) eos: Option<u32>,
}

impl Vocabulary {
    pub(super) fn read(metadata: &Metadata, spelling: Spelling) -> Result<Self, ModelError> {
        let tokens = metadata.strings("tokenizer.ggml.tokens")?;
        if tokens.len() as u64 > MAX_TOKENS {
            return Err(ModelError::limit("the number of tokens", tokens.len() as u64, MAX_TOKENS));
        }
        let id = |key: &str| token_id(metadata, key, tokens.len());
        let bos = id("tokenizer.ggml.bos_token_id")?;
        let eos = id("tokenizer.ggml.eos_token_id")?;
        let ends_named = [eos, id("tokenizer.ggml.eot_token_id")?, id("tokenizer.ggml.eom_token_id")?];
        let kinds = kinds(metadata, tokens, &[bos, ends_named[0], ends_named[1], ends_named[2]], spelling)?;
        let mut vocabulary = Self {
            bytes: Vec::new(),
            ends: Vec::with_capacity(tokens.len()),
            is_end: Vec::with_capacity(tokens.len()),
            kinds,
            bos,
            eos,
        };
        for (index, text) in tokens.iter().enumerate() {
            let kind = vocabulary.kinds[index];
            spelling.decode(kind, text, &mut vocabulary.bytes)?;
            vocabulary.ends.push(vocabulary.bytes.len() as u32);
            let known = kind == TokenKind::Control && END_TEXTS.contains(&text);
            vocabulary.is_end.push(known || ends_named.contains(&Some(index as u32)));
        }
        Ok(vocabulary)
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn bytes(&self, id: u32) -> Option<&[u8]> {
        let index = id as usize;
        let end = *self.ends.get(index)? as usize;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        self.bytes.get(start..end)
    }

    pub(super) fn kind(&self, id: u32) -> Option<TokenKind> {
        self.kinds.get(id as usize).copied()
    }

    pub(super) fn is_end(&self, id: u32) -> bool {
        self.is_end.get(id as usize).copied().unwrap_or(false)
    }
}

fn token_id(metadata: &Metadata, key: &str, tokens: usize) -> Result<Option<u32>, ModelError> {
    match metadata.optional_u32(key)? {
        // Written for "none" by some converters.
        None | Some(u32::MAX) => Ok(None),
        Some(id) if (id as usize) < tokens => Ok(Some(id)),
        Some(id) => Err(ModelError::bad_value(key, id, format!("the id of one of {tokens} tokens"))),
    }
}

/// The kind of each token. Without kinds in the file, the tokens it names as BOS and ends are control tokens.
fn kinds(
    metadata: &Metadata,
    tokens: &Strings,
    named: &[Option<u32>],
    spelling: Spelling,
) -> Result<Vec<TokenKind>, ModelError> {
    let key = "tokenizer.ggml.token_type";
    let Some(numbers) = metadata.optional_integers(key)? else {
        let kind = |index| if named.contains(&Some(index)) { TokenKind::Control } else { TokenKind::Normal };
        return Ok((0..tokens.len() as u32).map(kind).collect());
    };
    if numbers.len() != tokens.len() {
        let given = format!("an array of {}", numbers.len());
        return Err(ModelError::bad_value(
            key,
            given,
            format!("one element for each of {} tokens", tokens.len()),
        ));
    }
    numbers
        .iter()
        .map(|&number| {
            TokenKind::from_number(number, spelling)
                .ok_or_else(|| ModelError::bad_value(key, number, "elements of 0 to 6"))
        })
        .collect()
}
