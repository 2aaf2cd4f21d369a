//! A store that lives and dies with the process.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashlink::LinkedHashMap;
use zlrs_graph::{Digest, LookupFacts};

use crate::{Entry, Lookup, Purge, Stats, Store, StoreError, Written};

/// Tombstones remembered. Past it the oldest go; what they forbade is long out of memory by then.
const TOMBSTONES_MAX: usize = 65_536;
/// Purges remembered, likewise.
const PURGES_MAX: usize = 4096;

#[derive(Default)]
struct Content {
    /// In the order of writing.
    entries: LinkedHashMap<Digest, Arc<Entry>>,
    tombstones: LinkedHashMap<Digest, u64>,
    /// What was purged, and until when.
    purges: VecDeque<(Purge, u64)>,
    stats: Stats,
    closed: bool,
}

impl Content {
    fn remove(&mut self, key: &Digest) -> bool {
        let Some(entry) = self.entries.remove(key) else { return false };
        self.stats.entries -= 1;
        self.stats.bytes -= entry.stored_bytes();
        true
    }

    fn remove_where(&mut self, gone: impl Fn(&Entry) -> bool) -> u64 {
        let keys: Vec<Digest> =
            self.entries.values().filter(|entry| gone(entry)).map(|entry| entry.key).collect();
        keys.iter().filter(|key| self.remove(key)).count() as u64
    }

    fn refuses(&self, entry: &Entry) -> bool {
        let newer = self.entries.get(&entry.key).is_some_and(|old| old.created_ms > entry.created_ms);
        newer
            || self.tombstones.get(&entry.key).is_some_and(|&at_ms| at_ms >= entry.created_ms)
            || self.purges.iter().any(|&(what, at_ms)| at_ms >= entry.created_ms && what.names(entry))
    }

    fn mark(&mut self, what: Purge, at_ms: u64) {
        if !what.leaves_mark() {
            return;
        }
        let earlier = self.marked_ms(what).unwrap_or(0);
        self.purges.retain(|(other, until_ms)| {
            *other != what && (what != Purge::All || *until_ms > at_ms.max(earlier))
        });
        self.purges.push_back((what, at_ms.max(earlier)));
        if self.purges.len() > PURGES_MAX {
            self.purges.pop_front();
        }
    }

    fn marked_ms(&self, what: Purge) -> Option<u64> {
        self.purges.iter().find(|(other, _)| *other == what).map(|(_, until_ms)| *until_ms)
    }
}

/// Entries in memory only, bounded; the oldest go first.
pub struct MemoryStore {
    content: Mutex<Content>,
    max_entries: u64,
    max_bytes: u64,
}

impl MemoryStore {
    /// An empty store of at most so many entries and bytes.
    pub fn new(max_entries: u64, max_bytes: u64) -> Self {
        Self { content: Mutex::default(), max_entries, max_bytes }
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn get(&self, key: &Digest, now_ms: u64) -> Lookup {
        let mut content = self.content();
        if content.closed {
            return Lookup::Nothing(LookupFacts::Unavailable);
        }
        let found = content.entries.get(key).cloned();
        let facts = match found {
            None => LookupFacts::Absent,
            Some(entry) if entry.expires_ms <= now_ms => LookupFacts::Expired,
            Some(entry) if entry.body_holds() => {
                content.stats.found += 1;
                return Lookup::Found(entry);
            }
            Some(_) => {
                content.stats.corrupt += 1;
                content.remove(key);
                LookupFacts::Corrupt
            }
        };
        content.stats.absent += 1;
        Lookup::Nothing(facts)
    }

    fn get_now(&self, key: &Digest, now_ms: u64) -> Option<Lookup> {
        Some(self.get(key, now_ms))
    }

    fn put(&self, entry: Entry, _wait: Duration) -> Result<Written, StoreError> {
        let mut content = self.content();
        if content.closed {
            return Err(StoreError::Closed);
        }
        if content.refuses(&entry) {
            return Ok(Written::Superseded);
        }
        content.remove(&entry.key);
        content.stats.entries += 1;
        content.stats.bytes += entry.stored_bytes();
        content.stats.committed += 1;
        content.entries.insert(entry.key, Arc::new(entry));
        while content.stats.entries > self.max_entries || content.stats.bytes > self.max_bytes {
            let Some(oldest) = content.entries.front().map(|(key, _)| *key) else { break };
            content.remove(&oldest);
            content.stats.evicted += 1;
        }
        Ok(Written::Committed)
    }

    fn refuses(&self, entry: &Arc<Entry>) -> bool {
        let content = self.content();
        content.closed || content.refuses(entry)
    }

    fn tombstone(&self, key: &Digest, at_ms: u64, _reason: &str) -> Result<(), StoreError> {
        let mut content = self.content();
        if content.entries.get(key).is_some_and(|entry| entry.created_ms <= at_ms) {
            content.remove(key);
        }
        let latest = content.tombstones.get(key).map_or(at_ms, |&earlier| earlier.max(at_ms));
        content.tombstones.insert(*key, latest);
        if content.tombstones.len() > TOMBSTONES_MAX {
            content.tombstones.pop_front();
        }
        content.stats.tombstones += 1;
        Ok(())
    }

    fn purge(&self, what: Purge, at_ms: u64) -> Result<u64, StoreError> {
        let mut content = self.content();
        content.mark(what, at_ms);
        Ok(content.remove_where(|entry| what.names(entry)))
    }

    fn purge_until(&self, what: Purge, at_ms: u64) -> Result<u64, StoreError> {
        let mut content = self.content();
        if content.marked_ms(what).is_some_and(|until_ms| until_ms >= at_ms) {
            return Ok(0);
        }
        content.mark(what, at_ms);
        Ok(content.remove_where(|entry| entry.created_ms <= at_ms && what.names(entry)))
    }

    fn tags_of(&self, what: Purge) -> Result<BTreeSet<u64>, StoreError> {
        let content = self.content();
        let named = content.entries.values().filter(|entry| what.names(entry));
        Ok(named.flat_map(|entry| entry.tags.iter().copied()).collect())
    }

    fn flush(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn stats(&self) -> Stats {
        let content = self.content();
        let mut stats = content.stats;
        stats.cached_bodies = stats.entries;
        stats.cached_bytes = stats.bytes;
        stats
    }

    fn broken(&self) -> Option<String> {
        None
    }

    fn close(&self) {
        let mut content = self.content();
        content.entries.clear();
        content.closed = true;
    }
}
