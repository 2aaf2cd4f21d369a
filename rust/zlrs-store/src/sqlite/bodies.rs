//! The most recently used entries with their bodies, bounded by bytes.

use std::sync::Arc;

use hashlink::LruCache;

use crate::Entry;

/// Bodies in memory, by row.
pub struct Bodies {
    entries: LruCache<u64, Arc<Entry>>,
    bytes: u64,
    limit_bytes: u64,
}

impl Bodies {
    /// An empty cache of at most `limit_bytes`, counted as [`Entry::stored_bytes`].
    pub fn new(limit_bytes: u64) -> Self {
        Self { entries: LruCache::new_unbounded(), bytes: 0, limit_bytes }
    }

    /// The entry of a row, which becomes the most recently used.
    pub fn get(&mut self, row: u64) -> Option<Arc<Entry>> {
        self.entries.get(&row).cloned()
    }

    /// Keeps an entry, giving up the least recently used ones; one larger than the limit is not kept.
    pub fn insert(&mut self, row: u64, entry: &Arc<Entry>) {
        self.remove(row);
        if entry.stored_bytes() > self.limit_bytes {
            return;
        }
        self.bytes += entry.stored_bytes();
        self.entries.insert(row, Arc::clone(entry));
        while self.bytes > self.limit_bytes {
            let Some((_, gone)) = self.entries.remove_lru() else { break };
            self.bytes -= gone.stored_bytes();
        }
    }

    /// Forgets a row.
    pub fn remove(&mut self, row: u64) {
        if let Some(gone) = self.entries.remove(&row) {
            self.bytes -= gone.stored_bytes();
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }

    /// Number of bodies and their bytes.
    pub fn size(&self) -> (usize, u64) {
        (self.entries.len(), self.bytes)
    }
}
