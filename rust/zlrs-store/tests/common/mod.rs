//! Entries and stores for tests. An entry is made from a number, so that whoever reads it back can tell whether it
//! is the one that was written.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test stops at what is wrong")]
#![allow(dead_code, reason = "every test file uses its own part")]

use std::path::Path;

use zlrs_graph::{Digest, Route};
use zlrs_store::{Directory, Draft, Entry, Limits, Lookup, Notices, Secrets, SqliteStore, StoreError};

/// An arbitrary present.
pub const NOW_MS: u64 = 1_800_000_000_000;
/// What entries live for here.
pub const TTL_MS: u64 = 86_400_000;

/// The digest of a number under a name.
pub fn digest(name: &str, id: u64) -> Digest {
    Digest::of(format!("{name} {id}").as_bytes())
}

/// The body of entry `id`: between 1 and 8192 bytes, different for each.
pub fn body(id: u64) -> Vec<u8> {
    let seed = digest("body", id);
    let length = 1 + usize::from(u16::from_le_bytes([seed.0[0], seed.0[1]])) % 8192;
    let mut bytes = vec![0; length];
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.0);
    hasher.finalize_xof().fill(&mut bytes);
    bytes
}

/// Entry `id`, written at `created_ms`.
pub fn entry_at(id: u64, created_ms: u64, secrets: &Secrets) -> Entry {
    let draft = Draft {
        key: digest("key", id),
        scope: digest("scope", id % 7),
        node: digest("node", id),
        tenant: digest("tenant", id % 3),
        route: Route::Same,
        created_ms,
        expires_ms: created_ms + TTL_MS,
        body: body(id),
    };
    Entry::seal(draft, secrets)
}

/// Entry `id`, written now.
pub fn entry(id: u64, secrets: &Secrets) -> Entry {
    entry_at(id, NOW_MS, secrets)
}

/// Opens the store of a directory as the graph does.
pub fn open(path: &Path) -> Result<(SqliteStore, Secrets, Notices), StoreError> {
    open_with(path, Limits { read_deadline: std::time::Duration::from_secs(20), ..Limits::default() })
}

/// The same with other sizes.
pub fn open_with(path: &Path, limits: Limits) -> Result<(SqliteStore, Secrets, Notices), StoreError> {
    let directory = Directory::open(path)?;
    let secrets = Secrets::open(&directory.key())?;
    let notices = Notices::default();
    let store = SqliteStore::open(&directory.database(), &secrets, limits, notices.clone(), NOW_MS)?;
    Ok((store, secrets, notices))
}

/// The body of what was found.
pub fn found(lookup: &Lookup) -> Option<&[u8]> {
    match lookup {
        Lookup::Found(entry) => Some(&entry.body),
        Lookup::Nothing(_) => None,
    }
}
