//! The head of a saved state: what it is made for, and what is in it.
//!
//! ```text
//! magic 7 · version u8 · key's name 32 · head length u64 · tenant 32 · weights 32 · tokenizer 32 · numerics_version u32 · block tokens u32
//! · block bytes u64 · tokens u64 · blocks u64 · note length u64 · ids [tokens] u32 · note · seal of all before 32
//! ```
//! then the blocks one after the other, and a seal of everything before it. Numbers are little-endian.

use super::Identity;
use crate::kv::BLOCK_TOKENS;
use crate::prefix::Tenant;

const MAGIC: [u8; 7] = *b"zlrskv\x00";

/// Of the format, the arrangement of keys and values inside a block included.
const VERSION: u8 = 2;

/// Bytes of a seal.
pub(super) const SEAL_BYTES: usize = 32;

/// Bytes of the head before ids and note.
pub(super) const FIXED_BYTES: usize = 8 + 32 + 8 + 32 * 3 + 4 + 4 + 8 * 4;

/// Most bytes of a note.
pub(super) const NOTE_LIMIT_BYTES: usize = 16 << 20;

/// Most tokens: no model has a longer window.
const TOKEN_LIMIT: u64 = 1 << 28;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Tells the key that seals the file from others.
    pub key_name: [u8; 32],
    pub tenant: Tenant,
    pub identity: Identity,
    pub ids: Vec<u32>,
    pub note: Vec<u8>,
    /// Blocks that follow: those of the first `blocks · 16` tokens.
    pub blocks: usize,
}

/// Lengths in a head whose seal has not been seen yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lengths {
    /// The whole head, its seal included.
    pub head: usize,
    /// The whole file.
    pub file: u64,
}

impl Header {
    /// The head without its seal.
    pub fn encode(&self) -> Vec<u8> {
        let length = FIXED_BYTES + self.ids.len() * 4 + self.note.len();
        let mut bytes = Vec::with_capacity(length + SEAL_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.key_name);
        bytes.extend_from_slice(&((length + SEAL_BYTES) as u64).to_le_bytes());
        bytes.extend_from_slice(&self.tenant.0);
        bytes.extend_from_slice(&self.identity.weights);
        bytes.extend_from_slice(&self.identity.tokenizer);
        bytes.extend_from_slice(&self.identity.numerics_version.to_le_bytes());
        bytes.extend_from_slice(&(BLOCK_TOKENS as u32).to_le_bytes());
        let counts =
            [self.identity.block_bytes, self.ids.len() as u64, self.blocks as u64, self.note.len() as u64];
        bytes.extend(counts.iter().flat_map(|count| count.to_le_bytes()));
        bytes.extend(self.ids.iter().flat_map(|id| id.to_le_bytes()));
        bytes.extend_from_slice(&self.note);
        bytes
    }

    /// Why the first [`FIXED_BYTES`] bytes of a file are of a state that cannot be checked here, if they are: there
    /// may be nothing wrong with it.
    pub fn stranger(fixed: &[u8], key_name: &[u8; 32]) -> Option<&'static str> {
        let mut reader = Reader(fixed);
        let (magic, version, name) = (reader.array(), reader.array(), reader.array::<32>());
        match (magic, version, name) {
            (Ok(MAGIC), Ok([VERSION]), Ok(name)) if name != *key_name => Some("was sealed with another key"),
            (Ok(MAGIC), Ok([version]), Ok(_)) if version != VERSION => Some("is of another version of zlrs"),
            _ => None,
        }
    }

    /// The lengths that the first [`FIXED_BYTES`] bytes of a file state, if they fit together.
    pub fn lengths(fixed: &[u8]) -> Result<Lengths, &'static str> {
        let mut reader = Reader(fixed);
        if reader.array()? != MAGIC || reader.array()? != [VERSION] {
            return Err("is not a saved state");
        }
        reader.array::<32>()?;
        let head = reader.u64()?;
        reader.array::<96>()?;
        let (_, block_tokens) = (reader.u32()?, reader.u32()?);
        let (block_bytes, tokens, blocks, note) =
            (reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?);
        // Before any sum: these numbers are whatever somebody wrote.
        let fits = tokens <= TOKEN_LIMIT
            && note <= NOTE_LIMIT_BYTES as u64
            && block_tokens as usize == BLOCK_TOKENS
            && blocks <= tokens / BLOCK_TOKENS as u64
            && head == (FIXED_BYTES + SEAL_BYTES) as u64 + tokens * 4 + note;
        let file = blocks
            .checked_mul(block_bytes)
            .and_then(|bytes| bytes.checked_add(head)?.checked_add(SEAL_BYTES as u64));
        match file {
            Some(file) if fits => Ok(Lengths { head: head as usize, file }),
            _ => Err("has a head whose numbers do not fit together"),
        }
    }

    /// Reads a head, without its seal, whose [`Header::lengths`] were good.
    pub fn decode(head: &[u8]) -> Result<Self, &'static str> {
        Self::lengths(head)?;
        let mut reader = Reader(head);
        reader.array::<8>()?;
        let key_name = reader.array()?;
        reader.u64()?;
        let tenant = Tenant(reader.array()?);
        let (weights, tokenizer) = (reader.array()?, reader.array()?);
        let numerics_version = reader.u32()?;
        reader.u32()?;
        let (block_bytes, tokens, blocks, note) =
            (reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?);
        let ids = (0..tokens).map(|_| reader.u32()).collect::<Result<_, _>>()?;
        let note = reader.take(note as usize)?.to_vec();
        let identity = Identity { weights, tokenizer, numerics_version, block_bytes };
        Ok(Self { key_name, tenant, identity, ids, note, blocks: blocks as usize })
    }
}

/// What is left to read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or("ends inside its head")?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        self.take(N)?.try_into().map_err(|_| "ends inside its head")
    }

    fn u32(&mut self) -> Result<u32, &'static str> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, &'static str> {
        self.array().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(tokens: usize, note: usize) -> Header {
        let identity =
            Identity { weights: [1; 32], tokenizer: [2; 32], numerics_version: 1, block_bytes: 4096 };
        Header {
            key_name: [4; 32],
            tenant: Tenant([3; 32]),
            identity,
            ids: (0..tokens as u32).collect(),
            note: vec![7; note],
            blocks: tokens / BLOCK_TOKENS,
        }
    }

    proptest! {
        #[test]
        fn a_head_comes_back_as_it_was(tokens in 0_usize..200, note in 0_usize..100) {
            let header = header(tokens, note);
            let bytes = header.encode();
            let lengths = Header::lengths(&bytes[..FIXED_BYTES]).unwrap();
            prop_assert_eq!(lengths.head, bytes.len() + SEAL_BYTES);
            prop_assert_eq!(lengths.file, (lengths.head + header.blocks * 4096 + SEAL_BYTES) as u64);
            prop_assert_eq!(Header::decode(&bytes).unwrap(), header);
            prop_assert_eq!(Header::stranger(&bytes, &[4; 32]), None);
            prop_assert!(Header::stranger(&bytes, &[5; 32]).is_some());
        }

        #[test]
        fn no_bytes_make_reading_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = Header::stranger(&bytes, &[4; 32]);
            let _ = Header::lengths(&bytes);
            let _ = Header::decode(&bytes);
            let mut head = header(20, 5).encode();
            for (to, from) in head[8..].iter_mut().zip(&bytes) {
                *to ^= from;
            }
            if let Ok(lengths) = Header::lengths(&head) {
                prop_assert!(lengths.file >= lengths.head as u64);
                let _ = Header::decode(&head);
            }
        }
    }
}
