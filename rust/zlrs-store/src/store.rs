//! The one interface of every store.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use zlrs_graph::{Digest, LookupFacts};

use crate::{Entry, StoreError};

/// What a lookup found.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// An entry whose full key, hash and signature hold. Whether it may be served is not decided here.
    Found(Arc<Entry>),
    /// Nothing usable; the facts say why.
    Nothing(LookupFacts),
}

impl Lookup {
    /// The part a decision depends on.
    pub fn facts(&self) -> LookupFacts {
        match self {
            Self::Found(entry) => LookupFacts::Found(entry.facts()),
            Self::Nothing(facts) => *facts,
        }
    }
}

/// How far a write has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Committed: a killed process does not lose it.
    Committed,
    /// Waiting in the writer's queue.
    Queued,
    /// Refused by the store: a withdrawal or a purge that came after it was asked for, or a newer entry.
    Superseded,
}

/// What to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purge {
    /// Everything.
    All,
    /// One tenant's entries.
    Tenant(Digest),
    /// All entries of a scope.
    Scope(Digest),
    /// All entries of a node.
    Node(Digest),
    /// The entry of a key.
    Entry(Digest),
    /// Entries with a tag.
    Tag(u64),
    /// Entries written before this Unix millisecond.
    WrittenBefore(u64),
    /// Entries that had expired by this Unix millisecond.
    Expired(u64),
}

impl Purge {
    /// Whether it names an entry.
    pub fn names(self, entry: &Entry) -> bool {
        match self {
            Self::All => true,
            Self::Tenant(tenant) => entry.tenant == tenant,
            Self::Scope(scope) => entry.scope == scope,
            Self::Node(node) => entry.node == node,
            Self::Entry(key) => entry.key == key,
            Self::Tag(tag) => entry.tags.contains(&tag),
            Self::WrittenBefore(ms) => entry.created_ms < ms,
            Self::Expired(ms) => entry.expires_ms <= ms,
        }
    }

    /// Whether answers that were asked for before it, and come after it, are refused. Clearing away what has expired
    /// says nothing about any answer.
    pub const fn leaves_mark(self) -> bool {
        !matches!(self, Self::Expired(_))
    }

    /// Its kind, and what it names: empty, 64 hexadecimal digits, or a number.
    pub fn parts(self) -> (&'static str, String) {
        match self {
            Self::All => ("all", String::new()),
            Self::Tenant(tenant) => ("tenant", tenant.to_hex()),
            Self::Scope(scope) => ("scope", scope.to_hex()),
            Self::Node(node) => ("node", node.to_hex()),
            Self::Entry(key) => ("entry", key.to_hex()),
            Self::Tag(tag) => ("tag", tag.to_string()),
            Self::WrittenBefore(ms) => ("written_before", ms.to_string()),
            Self::Expired(ms) => ("expired", ms.to_string()),
        }
    }

    /// Reads [`Purge::parts`]; none where they are of another form.
    pub fn of_parts(kind: &str, which: &str) -> Option<Self> {
        let digest = || Digest::from_hex(which);
        Some(match kind {
            "all" => Self::All,
            "tenant" => Self::Tenant(digest()?),
            "scope" => Self::Scope(digest()?),
            "node" => Self::Node(digest()?),
            "entry" => Self::Entry(digest()?),
            "tag" => Self::Tag(which.parse().ok()?),
            "written_before" => Self::WrittenBefore(which.parse().ok()?),
            "expired" => Self::Expired(which.parse().ok()?),
            _ => return None,
        })
    }
}

/// Counters since opening, and the present size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Entries in the store.
    pub entries: u64,
    /// Bytes they count for.
    pub bytes: u64,
    /// Bodies in memory.
    pub cached_bodies: u64,
    /// Bytes of bodies in memory.
    pub cached_bytes: u64,
    /// Lookups that found an entry.
    pub found: u64,
    /// Lookups that found none.
    pub absent: u64,
    /// Lookups that ran past the deadline or met a full queue.
    pub slow: u64,
    /// Lookups given up because other processes' writes could not be read in time.
    pub behind: u64,
    /// Rows that failed hash, signature or key.
    pub corrupt: u64,
    /// Entries committed.
    pub committed: u64,
    /// Entries dropped: queue full, or the database stayed locked.
    pub dropped: u64,
    /// Entries removed by the limits or their age.
    pub evicted: u64,
    /// Tombstones written.
    pub tombstones: u64,
    /// Withdrawals and purges that other machines have not been told of yet.
    pub untold: u64,
}

/// A place for entries. All methods may be called from any thread.
pub trait Store: Send + Sync {
    /// The entry of a key that had not expired by `now_ms`. Never blocks longer than the store's read deadline, never fails: a store that cannot
    /// answer says so in the facts.
    fn get(&self, key: &Digest, now_ms: u64) -> Lookup;

    /// [`Store::get`] where that waits for no disk and no other thread; none where it would have to. A store that has
    /// everything in memory always answers.
    fn get_now(&self, key: &Digest, now_ms: u64) -> Option<Lookup>;

    /// Stores an entry, waiting at most `wait` for it to be committed.
    ///
    /// # Errors
    /// [`StoreError::QueueFull`], [`StoreError::Broken`], [`StoreError::Closed`]; the entry is then not stored.
    fn put(&self, entry: Entry, wait: Duration) -> Result<Written, StoreError>;

    /// Whether [`Store::put`] would refuse an entry: a withdrawal, a purge or a newer entry stands against it. Takes as
    /// long as [`Store::get`] at most; what cannot be said in that time is refused.
    fn refuses(&self, entry: &Arc<Entry>) -> bool;

    /// Makes sure that what was asked for at `at_ms` or earlier under `key` is never served again, also where it is
    /// stored later.
    /// Returns once that is durable. A store that cannot write a tombstone stops serving.
    ///
    /// # Errors
    /// When it could not be made durable; the store is then broken.
    fn tombstone(&self, key: &Digest, at_ms: u64, reason: &str) -> Result<(), StoreError>;

    /// Removes entries, whenever they were asked for; returns how many. What it names and was asked for at `at_ms` or
    /// earlier is refused from now on: an upstream may still be answering. Durable on return.
    ///
    /// # Errors
    /// As for [`Store::tombstone`].
    fn purge(&self, what: Purge, at_ms: u64) -> Result<u64, StoreError>;

    /// A purge of another time or place: [`Store::purge`] of those entries that were asked for at `at_ms` or earlier.
    /// Nothing is done where it was done before.
    ///
    /// # Errors
    /// As for [`Store::tombstone`].
    fn purge_until(&self, what: Purge, at_ms: u64) -> Result<u64, StoreError>;

    /// The tags of the entries that a purge names.
    ///
    /// # Errors
    /// As for [`Store::tombstone`].
    fn tags_of(&self, what: Purge) -> Result<BTreeSet<u64>, StoreError>;

    /// Waits until everything put before is committed.
    ///
    /// # Errors
    /// When something could not be committed.
    fn flush(&self) -> Result<(), StoreError>;

    /// Counters and size.
    fn stats(&self) -> Stats;

    /// Why the store is out of service, if it is.
    fn broken(&self) -> Option<String>;

    /// Commits what waits and stops the threads. Later calls give [`StoreError::Closed`].
    fn close(&self);
}
