//! Prefixes that are kept whatever the tree gives up.

use std::sync::{Arc, Mutex, PoisonError};

use super::{PartitionKey, Prefix, PrefixCache, tree};
use crate::kv::{BLOCK_TOKENS, Block};

/// What a pin holds.
#[derive(Debug)]
pub(super) struct Pinned {
    number: u64,
    key: PartitionKey,
    ids: Vec<u32>,
    blocks: Vec<Block>,
    last_used: u64,
}

impl PrefixCache {
    /// Pins what is known of `ids`; returns the pin's number and its tokens.
    pub(super) fn pin(&mut self, key: &PartitionKey, ids: &[u32]) -> (u64, usize) {
        let Prefix { tokens, blocks } = self.lookup(key, ids, ids.len());
        // The clock has moved on since the last pin.
        let number = self.clock;
        let (key, ids) = (key.clone(), ids[..tokens].to_vec());
        self.pins.push(Pinned { number, key, ids, blocks, last_used: number });
        (number, tokens)
    }

    pub(super) fn unpin(&mut self, number: u64) {
        self.pins.retain(|pinned| pinned.number != number);
    }

    /// Lets go of the least recently used pin; false if there is none.
    pub fn unpin_oldest(&mut self) -> bool {
        let oldest = self.pins.iter().min_by_key(|pinned| pinned.last_used).map(|pinned| pinned.number);
        oldest.inspect(|&number| self.unpin(number)).is_some()
    }

    /// Takes the longest pinned prefix of `ids`, if it is longer than what the tree has.
    pub(super) fn lookup_pinned(&mut self, key: &PartitionKey, ids: &[u32], found: &mut Prefix) {
        let now = self.clock;
        for pinned in self.pins.iter_mut().filter(|pinned| pinned.key == *key) {
            let tokens = tree::common(&pinned.ids, ids);
            if tokens == pinned.ids.len() {
                pinned.last_used = now;
            }
            if tokens > found.tokens {
                let blocks = pinned.blocks[..tokens.div_ceil(BLOCK_TOKENS)].to_vec();
                *found = Prefix { tokens, blocks };
            }
        }
    }
}

/// Keeps the computed state of some tokens, for a conversation that is expected to go on. Dropping it lets go.
///
/// A pin is a wish: it is given up, the least recently used first, when a request that runs alone would not fit
/// otherwise, and when the engine is reset or closed. The tokens are then computed again; answers are the same.
#[derive(Debug)]
pub struct Pin {
    prefixes: Arc<Mutex<PrefixCache>>,
    number: u64,
    tokens: usize,
}

impl Pin {
    /// Pins what is known of `ids` in the partition.
    pub(crate) fn new(prefixes: &Arc<Mutex<PrefixCache>>, key: &PartitionKey, ids: &[u32]) -> Self {
        let (number, tokens) = prefixes.lock().unwrap_or_else(PoisonError::into_inner).pin(key, ids);
        Self { prefixes: Arc::clone(prefixes), number, tokens }
    }

    /// Tokens it was made for.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// Whether it still holds them.
    pub fn is_held(&self) -> bool {
        let prefixes = self.prefixes.lock().unwrap_or_else(PoisonError::into_inner);
        prefixes.pins.iter().any(|pinned| pinned.number == self.number)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.prefixes.lock().unwrap_or_else(PoisonError::into_inner).unpin(self.number);
    }
}
