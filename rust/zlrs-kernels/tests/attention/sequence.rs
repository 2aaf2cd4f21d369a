//! A sequence of tokens for one attention layer: stored, asked, and computed in f64.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use zlrs_kernels::naive::kv::{from_half, to_half};
use zlrs_kernels::{AttentionRow, BLOCK_TOKENS, Isa, KvLayout, Pool, Scratch, attention, store_kv};

/// Values of a fixed pseudo-random sequence, roughly normal.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f32 {
        (0..4).map(|_| self.uniform()).sum::<f32>() * 1.7
    }

    fn uniform(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1 << 24) as f32 - 0.5
    }

    fn take(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.next()).collect()
    }
}

/// A sequence of `len` tokens for one layer: what is to be stored and asked.
pub struct Sequence {
    pub layout: KvLayout,
    pub heads: usize,
    pub len: usize,
    pub keys: Vec<f32>,
    pub values: Vec<f32>,
    pub q: Vec<f32>,
    pub window: Option<u32>,
}

impl Sequence {
    pub fn new(kv_heads: usize, group: usize, head_dim: usize, len: usize) -> Self {
        // A layer before it, so that offsets matter.
        let layout = KvLayout::new(&[(1, 8), (kv_heads, head_dim)]).unwrap();
        let mut noise = Noise(len as u64 * 31 + head_dim as u64);
        let width = kv_heads * head_dim;
        Self {
            layout,
            heads: kv_heads * group,
            len,
            keys: noise.take(len * width),
            values: noise.take(len * width),
            q: noise.take(len * width * group),
            window: None,
        }
    }

    pub fn width(&self) -> usize {
        self.layout.layers[1].kv_heads * self.head_dim()
    }

    pub fn head_dim(&self) -> usize {
        self.layout.layers[1].head_dim
    }

    pub fn q_width(&self) -> usize {
        self.heads * self.head_dim()
    }

    pub fn scale(&self) -> f32 {
        1.0 / (self.head_dim() as f32).sqrt()
    }

    /// An arena that holds NaN wherever nothing is stored, and a block table through it in the given order.
    pub fn arena(&self, order: impl Fn(u32) -> u32) -> (Vec<u16>, Vec<u32>) {
        let count = self.len.div_ceil(BLOCK_TOKENS) as u32;
        let blocks: Vec<u32> = (0..count).map(order).collect();
        let total = blocks.iter().max().map_or(0, |&last| last as usize + 1);
        (vec![0xffff; total * self.layout.block_len], blocks)
    }

    pub fn store(&self, isa: Isa, arena: &mut [u16], blocks: &[u32], positions: std::ops::Range<usize>) {
        let width = self.width();
        for position in positions {
            let token = position * width..(position + 1) * width;
            let (block, slot) = (blocks[position / BLOCK_TOKENS], position % BLOCK_TOKENS);
            let (key, value) = (&self.keys[token.clone()], &self.values[token]);
            store_kv(isa, arena, &self.layout, 1, block, slot, key, value).unwrap();
        }
    }

    /// Attention of the rows at `positions`.
    pub fn attend(
        &self,
        pool: &Pool,
        isa: Isa,
        arena: &[u16],
        blocks: &[u32],
        positions: &[usize],
        scratch: &mut Scratch,
    ) -> Vec<f32> {
        let width = self.q_width();
        let q: Vec<f32> =
            positions.iter().flat_map(|&p| &self.q[p * width..(p + 1) * width]).copied().collect();
        let rows: Vec<AttentionRow<'_>> = positions
            .iter()
            .map(|&p| AttentionRow { blocks, position: p as u32, window: self.window })
            .collect();
        let mut out = vec![f32::NAN; q.len()];
        let (layout, heads, scale) = (&self.layout, self.heads, self.scale());
        attention(pool, isa, arena, layout, 1, heads, scale, &rows, &q, &mut out, scratch).unwrap();
        out
    }

    /// The whole sequence, stored and asked in chunks.
    pub fn chunked(&self, pool: &Pool, isa: Isa, chunk: usize, order: impl Fn(u32) -> u32) -> Vec<f32> {
        let (mut arena, blocks) = self.arena(order);
        let mut scratch = Scratch::new();
        let mut out = Vec::new();
        for start in (0..self.len).step_by(chunk) {
            let positions: Vec<usize> = (start..self.len.min(start + chunk)).collect();
            self.store(isa, &mut arena, &blocks, start..start + positions.len());
            out.extend(self.attend(pool, isa, &arena, &blocks, &positions, &mut scratch));
        }
        out
    }

    /// Textbook softmax attention in f64 over keys and values rounded to f16.
    pub fn truth(&self, position: usize) -> Vec<f64> {
        let (dim, width) = (self.head_dim(), self.width());
        let group = self.heads / self.layout.layers[1].kv_heads;
        let stored = |values: &[f32], p: usize, head: usize, d: usize| {
            f64::from(from_half(to_half(values[p * width + head * dim + d])))
        };
        let first = self.window.map_or(0, |window| (position + 1).saturating_sub(window as usize));
        let mut out = Vec::new();
        for head in 0..self.heads {
            let q = &self.q[position * self.q_width() + head * dim..][..dim];
            let scores: Vec<f64> = (first..=position)
                .map(|p| {
                    let products = q
                        .iter()
                        .enumerate()
                        .map(|(d, &q)| f64::from(q) * stored(&self.keys, p, head / group, d));
                    products.sum::<f64>() / (dim as f64).sqrt()
                })
                .collect();
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
            let sum: f64 = weights.iter().sum();
            out.extend((0..dim).map(|d| {
                let products = weights
                    .iter()
                    .enumerate()
                    .map(|(i, weight)| weight * stored(&self.values, first + i, head / group, d));
                products.sum::<f64>() / sum
            }));
        }
        out
    }
}
