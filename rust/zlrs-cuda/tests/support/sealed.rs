//! Sequences whose blocks are kept in several forms, and the numbers that the naive references read in them.

use std::ops::Range;

use zlrs_kernels::naive::kv::{from_half, to_half};
use zlrs_kernels::naive::sealed::{CodeBits, key_at, seal_keys, seal_values, value_at};
use zlrs_kernels::{KvLayer, KvLayout};

use super::Random;

/// How a block is stored for the rows of later blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Half,
    /// In its own place.
    Sealed(CodeBits),
    /// Beside its f16.
    Copied(CodeBits),
}

impl Form {
    pub fn bits(self) -> Option<CodeBits> {
        match self {
            Self::Half => None,
            Self::Sealed(bits) | Self::Copied(bits) => Some(bits),
        }
    }

    pub fn word(self, copies: &mut i32) -> i32 {
        let kind = |bits| if bits == CodeBits::Eight { 1 } else { 2 };
        match self {
            Self::Half => 0,
            Self::Sealed(bits) => kind(bits),
            Self::Copied(bits) => {
                *copies += 1;
                kind(bits) | *copies << 2
            }
        }
    }
}

/// What a step computes.
#[derive(Debug)]
pub struct Case {
    pub kv_heads: usize,
    pub group: usize,
    pub head_dim: usize,
    pub window: Option<u32>,
    /// First position and rows of each sequence.
    pub sequences: Vec<(u32, usize)>,
    pub alibi: bool,
    /// Whether blocks are anything but f16.
    pub sealed: bool,
}

/// Blocks that were there before the step have any form; those the step completes are copied.
pub fn forms(case: &Case, random: &mut Random) -> Vec<Form> {
    let mut forms = Vec::new();
    if !case.sealed {
        let blocks = case.sequences.iter().map(|&(first, rows)| (first as usize + rows).div_ceil(16));
        return vec![Form::Half; blocks.sum()];
    }
    for &(first, rows) in &case.sequences {
        let bits = if random.next().is_multiple_of(2) { CodeBits::Eight } else { CodeBits::Four };
        let (first_block, last_block) = (first as usize / 16, (first as usize + rows - 1) / 16);
        forms.extend((0..first_block).map(|_| match random.next() % 5 {
            0 => Form::Half,
            1 | 2 => Form::Sealed(CodeBits::Eight),
            _ => Form::Sealed(CodeBits::Four),
        }));
        forms.extend((first_block..last_block).map(|_| Form::Copied(bits)));
        forms.push(Form::Half);
    }
    forms
}

/// Blocks of f16 numbers, and where sequences have them.
pub struct Memory {
    pub layout: KvLayout,
    pub arena: Vec<u16>,
    /// Where each sequence's blocks begin in the table, and the table.
    pub starts: Vec<usize>,
    pub table: Vec<u32>,
}

impl Memory {
    pub fn new(case: &Case, random: &mut Random) -> Self {
        let layout = KvLayout::new(&[(1, 8), (case.kv_heads, case.head_dim)]).unwrap();
        let blocks = case.sequences.iter().map(|&(first, rows)| (first as usize + rows).div_ceil(16));
        let starts: Vec<usize> =
            blocks.clone().scan(0, |at, count| Some(std::mem::replace(at, *at + count))).collect();
        let total: usize = blocks.sum();
        // A channel in eight is far from zero, like keys of models with large biases.
        let arena = (0..total * layout.block_len)
            .map(|index| to_half(random.float() + if index / 16 % 8 == 3 { 100.0 } else { 0.0 }))
            .collect();
        Self { layout, arena, starts, table: (0..total as u32).rev().collect() }
    }

    pub fn layer(&self) -> KvLayer {
        self.layout.layers[1]
    }

    pub fn head(&self, block: usize, head: usize, offset: usize) -> Range<usize> {
        let len = 16 * self.layer().head_dim;
        let start = self.table[block] as usize * self.layout.block_len + offset + head * len;
        start..start + len
    }

    pub fn keys(&self, block: usize, head: usize) -> &[u16] {
        &self.arena[self.head(block, head, self.layer().key_offset)]
    }

    pub fn values(&self, block: usize, head: usize) -> &[u16] {
        &self.arena[self.head(block, head, self.layer().value_offset)]
    }
}

/// Keys and values of every block and KV head as numbers, `[16][dim]`: as f16, and as later blocks read them.
pub struct Numbers {
    pub dim: usize,
    pub kv_heads: usize,
    pub half: Vec<[Vec<f32>; 2]>,
    pub sealed: Vec<Option<[Vec<f32>; 2]>>,
}

impl Numbers {
    pub fn new(memory: &Memory, forms: &[Form]) -> Self {
        let (dim, kv_heads) = (memory.layer().head_dim, memory.layer().kv_heads);
        let each = |number: &dyn Fn(usize, usize) -> f32| -> Vec<f32> {
            (0..16 * dim).map(|at| number(at / dim, at % dim)).collect()
        };
        let mut numbers = Self { dim, kv_heads, half: Vec::new(), sealed: Vec::new() };
        for (block, form) in forms.iter().enumerate() {
            for head in 0..kv_heads {
                let (keys, values) = (memory.keys(block, head), memory.values(block, head));
                let half = |stored: u16| from_half(stored);
                numbers.half.push([
                    each(&|position, d| half(keys[d * 16 + position])),
                    each(&|position, d| half(values[position * dim + d])),
                ]);
                numbers.sealed.push(form.bits().map(|bits| {
                    let (mut of_keys, mut of_values) = (vec![0; 32 * dim], vec![0; 32 * dim]);
                    seal_keys(bits, keys, &mut of_keys);
                    seal_values(bits, values, &mut of_values);
                    [
                        each(&|position, d| key_at(bits, &of_keys, dim, position, d)),
                        each(&|position, d| value_at(bits, &of_values, dim, position, d)),
                    ]
                }));
            }
        }
        numbers
    }

    /// What a row at `own` reads of a position: the key (0) or the value (1) in a dimension.
    pub fn at(&self, start: usize, head: usize, own: usize, position: usize, d: usize, which: usize) -> f32 {
        let index = (start + position / 16) * self.kv_heads + head;
        let sealed = self.sealed[index].as_ref().filter(|_| position / 16 < own / 16);
        sealed.unwrap_or(&self.half[index])[which][position % 16 * self.dim + d]
    }
}
