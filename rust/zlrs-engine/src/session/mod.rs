//! A conversation's computed state outside the engine: saved to a file, and taken back.
//!
//! A saved state names the tokens, holds their keys and values in whole blocks, and carries a note of its owner,
//! which may be the conversation's text. It is bound to a tenant, to the weights and to `numerics_version`, and
//! sealed with a key: what was changed, cut or made by somebody else is refused before a block of it can be
//! reused. Keys and values are the bits that were computed, so a conversation goes on exactly as it would have.
//!
//! Only whole blocks are saved: the rest of a block's memory may be what another request left there.

mod file;
mod header;
mod restore;
mod save;

pub(crate) use self::restore::restore;
pub use self::restore::{Fit, Restored};
pub use self::save::Saved;
pub(crate) use self::save::save;

use crate::prefix::Tenant;

/// Bytes of keys and values that are moved at a time: no step waits longer than copying them takes.
const PIECE_BYTES: usize = 4 << 20;

/// The secret that seals saved states. Whoever has it can make states that are accepted.
#[derive(Clone)]
pub struct StateKey([u8; 32]);

impl StateKey {
    /// A key of 32 random bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Tells files of other keys apart, and says nothing about the key.
    fn name(&self) -> [u8; 32] {
        *blake3::keyed_hash(&self.0, b"the name of a key that seals saved states").as_bytes()
    }

    /// A message authentication code in the making: BLAKE3 in its keyed mode.
    fn seal(&self) -> blake3::Hasher {
        blake3::Hasher::new_keyed(&self.0)
    }
}

impl std::fmt::Debug for StateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StateKey(…)")
    }
}

/// What a state is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    /// SHA-256 of the model file.
    pub weights: [u8; 32],
    /// Sum of everything in the file that makes tokens of text.
    pub tokenizer: [u8; 32],
    pub numerics_version: u32,
    pub block_bytes: u64,
}

/// What to save.
#[derive(Debug, Clone, Copy)]
pub struct State<'a> {
    /// Whose it is; nobody else gets it back.
    pub tenant: Tenant,
    /// The conversation's tokens.
    pub ids: &'a [u32],
    /// Kept beside them, up to 16 MiB.
    pub note: &'a [u8],
}
