//! Reuse of keys and values between requests: a radix tree over tokens whose nodes hold KV blocks.
//!
//! The tree belongs to one loaded model, so what is fixed for a loaded model (its file, RoPE configuration and
//! `numerics_version`) need not be part of the key; what may differ between requests is: [`PartitionKey`]. Keys
//! and values are functions of the tokens before them alone, so a reused block holds the bits that computing it
//! again would give.
//!
//! The idea is that of RadixAttention (Zheng et al., "SGLang: Efficient Execution of Structured Language Model
//! Programs", 2024), here token by token over blocks of 16: a node that begins inside a block holds its own
//! copy of that block, which also has the tokens before it.

mod evict;
mod pins;
#[cfg(test)]
mod tests;
mod tree;

use std::collections::{BTreeSet, HashMap};

pub use self::pins::Pin;
use self::pins::Pinned;
use self::tree::Node;
use crate::Compute;
use crate::kv::{BLOCK_TOKENS, Block};
use crate::plan::{Blocks, Heads, KvPrecision, Layers};

/// Whose request it is: an opaque value that the caller makes, such as a keyed hash of a credential. Requests of
/// different tenants share no computed state, and compete fairly.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tenant(pub [u8; 32]);

impl std::fmt::Debug for Tenant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Enough to tell tenants apart in a log.
        write!(f, "Tenant({:02x}{:02x}{:02x}{:02x}…)", self.0[0], self.0[1], self.0[2], self.0[3])
    }
}

/// What must be equal, besides the tokens, for keys and values to be shared.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct PartitionKey {
    /// Tenants never share.
    pub tenant: Tenant,
    /// What could be left out for the rows. Keys and values of aggressive rows are approximate and stay among them;
    /// aggressive requests may read what exact ones have computed.
    pub compute: Compute,
    /// Layers that were computed.
    pub layers: Layers,
    /// Heads that were computed.
    pub heads: Heads,
    /// Blocks that were attended to.
    pub blocks: Blocks,
    /// How keys and values are stored.
    pub kv_precision: KvPrecision,
}

/// What the tree holds at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PrefixStatistics {
    /// Blocks that nobody else refers to: they are given up when memory is needed.
    pub blocks_reclaimable: usize,
    /// Different blocks in the tree.
    pub blocks: usize,
    /// Tokens in the tree.
    pub tokens: usize,
    /// Tenants and kinds of plan with an entry.
    pub partitions: usize,
}

/// The longest known beginning of some tokens.
#[derive(Debug, Default)]
pub struct Prefix {
    /// Its length.
    pub tokens: usize,
    /// Blocks that hold it, by position; the last may hold more.
    pub blocks: Vec<Block>,
}

/// The tree. Holds references to blocks and nothing else; what it holds is given up leaf by leaf, the least
/// recently used first.
#[derive(Debug, Default)]
pub struct PrefixCache {
    nodes: Vec<Option<Node>>,
    unused: Vec<usize>,
    roots: HashMap<PartitionKey, usize>,
    /// Leaves that are no roots, by last use.
    leaves: BTreeSet<(u64, usize)>,
    pins: Vec<Pinned>,
    /// Counts lookups and insertions, as the time of last use.
    clock: u64,
}

impl PartitionKey {
    /// The key of exact plans.
    pub fn exact(tenant: Tenant) -> Self {
        Self { tenant, ..Self::default() }
    }

    /// The key of plans in which so much may be left out.
    pub fn of(tenant: Tenant, compute: Compute) -> Self {
        Self { compute, ..Self::exact(tenant) }
    }

    /// Another partition whose contents serve this one as well.
    fn also_reads(&self) -> Option<Self> {
        (self.compute != Compute::Exact).then(|| Self { compute: Compute::Exact, ..self.clone() })
    }
}

impl PrefixCache {
    /// The longest prefix of `ids` with at most `limit` tokens that the partition may read: its own, or for
    /// aggressive plans that of exact ones if it is longer. O(tokens).
    pub fn lookup(&mut self, key: &PartitionKey, ids: &[u32], limit: usize) -> Prefix {
        self.clock += 1;
        let ids = &ids[..limit.min(ids.len())];
        let mut found = self.lookup_one(key, ids);
        if let Some(exact) = key.also_reads() {
            let other = self.lookup_one(&exact, ids);
            if other.tokens > found.tokens {
                found = other;
            }
        }
        found
    }

    fn lookup_one(&mut self, key: &PartitionKey, ids: &[u32]) -> Prefix {
        let mut found = self.lookup_tree(key, ids);
        self.lookup_pinned(key, ids, &mut found);
        found
    }

    fn lookup_tree(&mut self, key: &PartitionKey, ids: &[u32]) -> Prefix {
        let mut found = Prefix::default();
        let Some(&root) = self.roots.get(key) else { return found };
        let mut at = root;
        while let Some(child) = self.child(at, ids.get(found.tokens)) {
            self.touch(child);
            let Some(node) = self.node(child) else { break };
            let common = tree::common(&node.tokens, &ids[found.tokens..]);
            // From its own first block on, a node's blocks say more than those of the nodes above.
            let first = found.tokens / BLOCK_TOKENS;
            let end = (found.tokens + common).div_ceil(BLOCK_TOKENS);
            found.blocks.truncate(first);
            found.blocks.extend_from_slice(&node.blocks[..end - first]);
            found.tokens += common;
            if common < node.tokens.len() {
                break;
            }
            at = child;
        }
        found
    }

    /// Remembers that `blocks` hold `ids`, block by block. What is known already keeps its own blocks. O(tokens).
    pub fn insert(&mut self, key: &PartitionKey, ids: &[u32], blocks: &[Block]) {
        let ids = &ids[..ids.len().min(blocks.len() * BLOCK_TOKENS)];
        if ids.is_empty() {
            return;
        }
        self.clock += 1;
        let root = self.root(key);
        let blocks = &blocks[..ids.len().div_ceil(BLOCK_TOKENS)];
        let (mut at, mut known) = (root, 0);
        while known < ids.len() {
            let Some(child) = self.child(at, ids.get(known)) else {
                self.append(at, known, ids, blocks);
                return;
            };
            let Some(node) = self.node(child) else { return };
            let (common, length) = (tree::common(&node.tokens, &ids[known..]), node.tokens.len());
            known += common;
            self.touch(child);
            at = child;
            if common < length && known < ids.len() {
                at = self.split(child, common);
            } else if common < length {
                return;
            }
        }
    }

    /// Forgets everything, pins included.
    pub fn clear(&mut self) {
        *self = Self { clock: self.clock, ..Self::default() };
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty() && self.pins.is_empty()
    }

    /// Counts. O(blocks in the tree).
    pub fn statistics(&self) -> PrefixStatistics {
        let mut others = self.own_references();
        let blocks = others.len();
        for block in self.blocks() {
            if others.get(&block.index()) == Some(&block.references()) {
                others.remove(&block.index());
            }
        }
        PrefixStatistics {
            blocks_reclaimable: blocks - others.len(),
            blocks,
            tokens: self.nodes.iter().flatten().map(|node| node.tokens.len()).sum(),
            partitions: self.roots.len(),
        }
    }

    fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.nodes.iter().flatten().flat_map(|node| &node.blocks)
    }

    /// References of the tree itself, by block.
    fn own_references(&self) -> HashMap<u32, u32> {
        let mut own = HashMap::new();
        self.blocks().for_each(|block| *own.entry(block.index()).or_insert(0) += 1);
        own
    }
}
