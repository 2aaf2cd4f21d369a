//! Nodes of the tree, and the ways to change it that keep every path readable.

use std::collections::HashMap;

use super::{PartitionKey, PrefixCache};
use crate::kv::{BLOCK_TOKENS, Block};

/// Some tokens on the path from a root.
#[derive(Debug)]
pub(super) struct Node {
    /// `Err` in a root: the partition it is the root of.
    pub parent: Result<usize, PartitionKey>,
    /// Position of the first token.
    pub start: usize,
    pub tokens: Vec<u32>,
    /// From the block with position `start` to the block with the last token, without gaps. The first also
    /// holds the tokens before `start`.
    pub blocks: Vec<Block>,
    /// By first token.
    pub children: HashMap<u32, usize>,
    pub last_used: u64,
}

impl Node {
    pub fn root(key: PartitionKey) -> Self {
        Self {
            parent: Err(key),
            start: 0,
            tokens: Vec::new(),
            blocks: Vec::new(),
            children: HashMap::new(),
            last_used: 0,
        }
    }

    pub fn is_root(&self) -> bool {
        self.parent.is_err()
    }

    /// Whether the node may be given up next.
    pub fn is_leaf(&self) -> bool {
        self.children.is_empty() && !self.is_root()
    }

    pub fn first_block(&self) -> usize {
        self.start / BLOCK_TOKENS
    }
}

/// Length of the common beginning.
pub(super) fn common(left: &[u32], right: &[u32]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

impl PrefixCache {
    pub(super) fn node(&self, index: usize) -> Option<&Node> {
        self.nodes.get(index)?.as_ref()
    }

    pub(super) fn node_mut(&mut self, index: usize) -> Option<&mut Node> {
        self.nodes.get_mut(index)?.as_mut()
    }

    pub(super) fn child(&self, of: usize, first_token: Option<&u32>) -> Option<usize> {
        self.node(of)?.children.get(first_token?).copied()
    }

    pub(super) fn add(&mut self, node: Node) -> usize {
        let leaf = node.is_leaf().then_some(node.last_used);
        let index = self.unused.pop().unwrap_or(self.nodes.len());
        if index == self.nodes.len() {
            self.nodes.push(None);
        }
        self.nodes[index] = Some(node);
        if let Some(last_used) = leaf {
            self.leaves.insert((last_used, index));
        }
        index
    }

    /// The partition's root, made if need be.
    pub(super) fn root(&mut self, key: &PartitionKey) -> usize {
        if let Some(&root) = self.roots.get(key) {
            return root;
        }
        let root = self.add(Node::root(key.clone()));
        self.roots.insert(key.clone(), root);
        root
    }

    /// Notes a use.
    pub(super) fn touch(&mut self, index: usize) {
        let now = self.clock;
        let Some(node) = self.node_mut(index) else { return };
        let before = std::mem::replace(&mut node.last_used, now);
        if node.is_leaf() {
            self.leaves.remove(&(before, index));
            self.leaves.insert((now, index));
        }
    }

    /// Puts `ids[known..]` below `at`, whose path is `ids[..known]` and which has no child with the next token.
    pub(super) fn append(&mut self, at: usize, known: usize, ids: &[u32], blocks: &[Block]) {
        let now = self.clock;
        let Some(node) = self.node_mut(at) else { return };
        let first = known / BLOCK_TOKENS;
        if node.is_leaf() {
            // A conversation goes on: its node grows, and its last block is the one that was written on.
            node.blocks.truncate(first - node.first_block());
            node.blocks.extend_from_slice(&blocks[first..]);
            node.tokens.extend_from_slice(&ids[known..]);
            return;
        }
        let leaf = Node {
            parent: Ok(at),
            start: known,
            tokens: ids[known..].to_vec(),
            blocks: blocks[first..].to_vec(),
            children: HashMap::new(),
            last_used: now,
        };
        let index = self.add(leaf);
        if let Some(node) = self.node_mut(at) {
            node.children.insert(ids[known], index);
        }
    }

    /// Cuts a node after `count` of its tokens, at least one and not all; returns the new node above it.
    pub(super) fn split(&mut self, lower: usize, count: usize) -> usize {
        let Some(node) = self.node_mut(lower) else { return lower };
        let (start, first) = (node.start, node.first_block());
        let middle = start + count;
        let lower_tokens = node.tokens.split_off(count);
        let upper = Node {
            parent: node.parent.clone(),
            start,
            blocks: node.blocks[..middle.div_ceil(BLOCK_TOKENS) - first].to_vec(),
            tokens: std::mem::replace(&mut node.tokens, lower_tokens),
            children: HashMap::from([(node.tokens[0], lower)]),
            last_used: node.last_used,
        };
        // A block that the cut goes through belongs to both.
        node.blocks.drain(..middle / BLOCK_TOKENS - first);
        node.start = middle;
        let (parent, first_token) = (node.parent.clone(), upper.tokens[0]);
        let index = self.add(upper);
        if let Some(node) = self.node_mut(lower) {
            node.parent = Ok(index);
        }
        if let Ok(parent) = parent
            && let Some(parent) = self.node_mut(parent)
        {
            parent.children.insert(first_token, index);
        }
        index
    }

    /// Takes a leaf out; its parent may become one.
    pub(super) fn remove(&mut self, leaf: usize) {
        let Some(node) = self.nodes.get_mut(leaf).and_then(Option::take) else { return };
        self.leaves.remove(&(node.last_used, leaf));
        self.unused.push(leaf);
        let Ok(parent) = node.parent else { return };
        let Some(above) = self.node_mut(parent) else { return };
        if let Some(first) = node.tokens.first() {
            above.children.remove(first);
        }
        if !above.children.is_empty() {
            return;
        }
        if let Err(key) = &above.parent {
            let key = key.clone();
            self.roots.remove(&key);
            self.nodes[parent] = None;
            self.unused.push(parent);
        } else {
            let last_used = above.last_used;
            self.leaves.insert((last_used, parent));
        }
    }
}
