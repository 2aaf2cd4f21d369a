//! What a store says about an entry: the part of its row that a decision depends on.

use serde::{Deserialize, Serialize};

use crate::{Digest, Versions};

/// Facts of a stored entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntryFacts {
    /// When the answer was complete, Unix milliseconds.
    pub created_ms: u64,
    /// When it stops being served, Unix milliseconds.
    pub expires_ms: u64,
    /// BLAKE3 of the stored body.
    pub answer_hash: Digest,
    /// Rules it was written under.
    pub versions: Versions,
}

/// The answer of a store to one lookup, without the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LookupFacts {
    /// An entry whose hash and signature hold.
    Found(EntryFacts),
    /// No such entry, or it is tombstoned.
    Absent,
    /// An entry was there and has passed its time.
    Expired,
    /// A row was there and failed its checks; it is not served.
    Corrupt,
    /// The store did not answer within its deadline.
    Slow,
    /// Other processes have written more than could be read in time.
    Behind,
    /// The store is broken or closed.
    Unavailable,
    /// Nothing was looked up, because the request is not eligible.
    NotAsked,
}
