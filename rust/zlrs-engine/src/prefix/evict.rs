//! Giving blocks back.

use super::PrefixCache;
use crate::kv::{BLOCK_TOKENS, Block};

impl PrefixCache {
    /// Gives up the least recently used leaves, each from its end, until `count` blocks are free that were not.
    /// Leaves whose blocks others refer to are passed over as long as they can be: giving them up frees nothing
    /// by itself. Returns the number of blocks freed: `count`, or all that nobody else refers to.
    pub fn evict(&mut self, count: usize) -> usize {
        let mut freed = 0;
        while freed < count {
            let leaf = self.oldest(|block| block.references() == 1).or_else(|| self.oldest_in_the_way());
            let Some(leaf) = leaf else { break };
            freed += self.trim(leaf, count - freed);
        }
        freed
    }

    /// The least recently used leaf with a block like that.
    fn oldest(&self, like: impl Fn(&Block) -> bool) -> Option<usize> {
        let has = |leaf: usize| self.node(leaf).is_some_and(|node| node.blocks.iter().any(&like));
        self.leaves.iter().map(|&(_, leaf)| leaf).find(|&leaf| has(leaf))
    }

    /// When blocks that nobody else refers to are held by inner nodes: the least recently used leaf that shares
    /// such a block, or else the least recently used of all.
    fn oldest_in_the_way(&self) -> Option<usize> {
        let own = self.own_references();
        let is_own = |block: &Block| own.get(&block.index()) == Some(&block.references());
        let leaf = self.oldest(is_own).or_else(|| self.oldest(|_| true));
        leaf.filter(|_| self.blocks().any(is_own))
    }

    /// Cuts blocks off the end of a leaf until `count` are free, or the leaf is gone.
    fn trim(&mut self, leaf: usize, count: usize) -> usize {
        let mut freed = 0;
        let Some(node) = self.node_mut(leaf) else { return 0 };
        while freed < count
            && let Some(block) = node.blocks.pop()
        {
            freed += usize::from(block.references() == 1);
        }
        let end = (node.first_block() + node.blocks.len()) * BLOCK_TOKENS;
        let kept = end.saturating_sub(node.start);
        if kept == 0 {
            self.remove(leaf);
        } else {
            node.tokens.truncate(kept);
        }
        freed
    }
}
