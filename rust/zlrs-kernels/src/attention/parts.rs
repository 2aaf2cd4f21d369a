//! What one call of the arithmetic sees: a span of positions, and the state it gathers.

use crate::naive::attention::TILE;
use std::ops::Range;

/// Where one KV head of a sequence has its keys and values.
pub(crate) struct Span<'a> {
    pub(super) arena: &'a [u16],
    pub(super) block_len: usize,
    pub(super) blocks: &'a [u32],
    pub(super) head_dim: usize,
    pub(super) keys: Range<usize>,
    pub(super) values: Range<usize>,
}

impl Span<'_> {
    pub(crate) fn head_dim(&self) -> usize {
        self.head_dim
    }

    /// Keys of the sequence's block `index`, `[dim][position]`.
    pub(crate) fn keys(&self, index: usize) -> &[u16] {
        &self.block(index)[self.keys.clone()]
    }

    /// Values of the sequence's block `index`, `[position][dim]`.
    pub(crate) fn values(&self, index: usize) -> &[u16] {
        &self.block(index)[self.values.clone()]
    }

    /// Whether the sequence has a block `index`, visible or not.
    pub(crate) fn has(&self, index: usize) -> bool {
        self.blocks.get(index).is_some_and(|&block| (block as usize + 1) * self.block_len <= self.arena.len())
    }

    fn block(&self, index: usize) -> &[u16] {
        &self.arena[self.blocks[index] as usize * self.block_len..][..self.block_len]
    }
}

/// Working space of the queries of one tile.
pub(crate) struct Room<'a> {
    /// Scores, then weights, `[queries][TILE]`.
    pub(crate) scores: &'a mut [f32],
    /// What the values so far are multiplied by, `[queries]`.
    pub(crate) corrections: &'a mut [f32],
    /// For the tile's keys and values as f32, `2 · TILE · dim`, or empty.
    pub(crate) converted: &'a mut [f32],
}

impl Room<'_> {
    /// The room of some of the queries.
    pub(super) fn heads(&mut self, heads: Range<usize>) -> Room<'_> {
        Room {
            scores: &mut self.scores[heads.start * TILE..heads.end * TILE],
            corrections: &mut self.corrections[heads],
            converted: self.converted,
        }
    }
}

/// What a group of query heads has gathered from some splits.
pub(crate) struct Partial<'a> {
    /// `[group]`
    pub(crate) max: &'a mut [f32],
    /// `[group]`
    pub(crate) sum: &'a mut [f32],
    /// `[group][dim]`
    pub(crate) values: &'a mut [f32],
}

impl Partial<'_> {
    /// Floats of a partial.
    pub(super) const fn len(group: usize, head_dim: usize) -> usize {
        group * (2 + head_dim)
    }

    /// Takes `group · (2 + dim)` floats apart.
    pub(super) fn new(memory: &mut [f32], group: usize) -> Partial<'_> {
        let (max, rest) = memory.split_at_mut(group);
        let (sum, values) = rest.split_at_mut(group);
        Partial { max, sum, values }
    }

    pub(crate) fn clear(&mut self) {
        self.max.fill(f32::NEG_INFINITY);
        self.sum.fill(0.0);
        self.values.fill(0.0);
    }

    /// The part of some of the heads.
    pub(super) fn heads(&mut self, heads: Range<usize>) -> Partial<'_> {
        let dim = self.values.len() / self.sum.len();
        Partial {
            max: &mut self.max[heads.clone()],
            sum: &mut self.sum[heads.clone()],
            values: &mut self.values[heads.start * dim..heads.end * dim],
        }
    }

    /// Values over sums.
    pub(super) fn finish(&self, out: &mut [f32]) {
        let dim = self.values.len() / self.sum.len();
        for ((out, values), &sum) in
            out.chunks_exact_mut(dim).zip(self.values.chunks_exact(dim)).zip(&*self.sum)
        {
            for (out, value) in out.iter_mut().zip(values) {
                *out = value / sum;
            }
        }
    }
}
