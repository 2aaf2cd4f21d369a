//! Attention of the self-test: two rows of a sequence that reach into a second split, together and with splits apart,
//! over f16 blocks and over blocks of every form.

use zlrs_kernels::KvLayout;
use zlrs_kernels::naive::attend::{Sources, attend};
use zlrs_kernels::naive::kv::{from_half, to_half};
use zlrs_kernels::naive::sealed::{CodeBits, key_at, seal_keys, seal_values, value_at};

use super::Test;
use crate::queue::{Attend, KvPlace, Mixed, Parts, RowPlaces};
use crate::{Address, CudaError, Device, attention_shared_bytes};

/// Positions of the two rows, in the block that is being filled.
const POSITIONS: [i32; 2] = [520, 521];
/// Blocks that hold them and what they see.
const BLOCKS: usize = 33;
/// Shared memory of a block of attention.
const SHARED_BYTES: usize = 48 << 10;

/// One kind of attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Heads {
    pub head_dim: usize,
    /// Query heads of a KV head.
    pub group: usize,
    pub window: Option<u32>,
}

/// Keys and values of all positions, `[position][dim]`.
struct Numbers {
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl Numbers {
    /// As a row of the last block reads them. Block i has the form i mod 3 (f16, 8, 4 bits), unless all are f16.
    fn new(arena: &[u16], dim: usize, mixed: bool) -> Self {
        let len = 16 * dim;
        let mut numbers = Self { keys: vec![0.0; BLOCKS * len], values: vec![0.0; BLOCKS * len] };
        for (index, block) in arena.chunks_exact(2 * len).rev().enumerate() {
            let (keys, values) = block.split_at(len);
            let bits = form(index, mixed).map(|bytes| if bytes { CodeBits::Eight } else { CodeBits::Four });
            let (mut of_keys, mut of_values) = (vec![0; 2 * len], vec![0; 2 * len]);
            if let Some(bits) = bits {
                seal_keys(bits, keys, &mut of_keys);
                seal_values(bits, values, &mut of_values);
            }
            for position in 0..16 {
                for d in 0..dim {
                    let at = index * len + position * dim + d;
                    (numbers.keys[at], numbers.values[at]) = match bits {
                        None => (from_half(keys[d * 16 + position]), from_half(values[position * dim + d])),
                        Some(bits) => (
                            key_at(bits, &of_keys, dim, position, d),
                            value_at(bits, &of_values, dim, position, d),
                        ),
                    };
                }
            }
        }
        numbers
    }
}

/// Whether a block is sealed, and in bytes. The last one never is.
fn form(index: usize, mixed: bool) -> Option<bool> {
    if mixed && index + 1 < BLOCKS && !index.is_multiple_of(3) { Some(index % 3 == 1) } else { None }
}

impl<D: Device> Test<D> {
    pub(super) fn attention(&mut self, heads: Heads) -> Result<(), CudaError> {
        self.attention_over(heads, false)?;
        if heads.head_dim.is_multiple_of(8) {
            self.attention_over(heads, true)?;
        }
        Ok(())
    }

    fn attention_over(&mut self, heads: Heads, mixed: bool) -> Result<(), CudaError> {
        let Heads { head_dim, group, window } = heads;
        let failed = |error: zlrs_kernels::KernelError| CudaError::Driver {
            call: "the reference of the self-test",
            what: error.to_string(),
        };
        let layout = KvLayout::new(&[(1, head_dim)]).map_err(failed)?;
        let arena: Vec<u16> =
            (0..BLOCKS * layout.block_len).map(|_| to_half(self.uniform() * 4.0 - 2.0)).collect();
        let query = self.floats(2 * group * head_dim);
        let scale = 0.125;
        let numbers = Numbers::new(&arena, head_dim, mixed);
        let sources = Sources {
            key: &|position, d| numbers.keys[position * head_dim + d],
            value: &|position, d| numbers.values[position * head_dim + d],
        };
        let mut expected = vec![0.0; query.len()];
        let rows = query.chunks_exact(head_dim).zip(expected.chunks_exact_mut(head_dim)).enumerate();
        for (index, (query, out)) in rows {
            let end = POSITIONS[index / group] as usize + 1;
            let begin = window.map_or(0, |window| end.saturating_sub(window as usize));
            attend(query, scale, None, begin..end, &sources, out);
        }

        let arena = self.put(&arena.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())?;
        let table: Vec<i32> = (0..BLOCKS as i32).rev().collect();
        let places = RowPlaces {
            positions: self.put_numbers(&POSITIONS)?,
            tables: self.put_numbers(&[0, 0])?,
            block_table: self.put_numbers(&table)?,
        };
        let place = KvPlace {
            arena,
            block_len: layout.block_len,
            key_offset: layout.layers[0].key_offset,
            value_offset: layout.layers[0].value_offset,
            kv_heads: 1,
            head_dim,
        };
        let mixed = if mixed { Some(self.seal(&place, &table)?) } else { None };
        let slopes = Address::default();
        let attend = Attend { place, mixed, slopes, group, window: window.unwrap_or(0) as usize, scale };
        let most = (SHARED_BYTES / attention_shared_bytes(1, head_dim)).max(1);
        let heads_at_once = group.min(most);
        let rows_together = (most / heads_at_once).clamp(1, 2);
        let partials = self.put_floats(&vec![f32::NAN; 2 * group * 2 * (head_dim + 2)])?;
        let query = self.put_floats(&query)?;
        let name = if attend.mixed.is_some() { "attention_mixed" } else { "attention" };
        for (rows, splits) in [(rows_together, 1), (1, 2)] {
            let mut parts: Vec<i32> = Vec::new();
            for row in (0..2).step_by(rows) {
                for head in (0..group).step_by(heads_at_once) {
                    let heads = heads_at_once.min(group - head);
                    parts.extend([row, rows, head, heads].map(|number| number as i32));
                }
            }
            let (count, queries) = (parts.len() / 4, rows * heads_at_once);
            let memory = self.put_numbers(&parts)?;
            let out = self.put_floats(&vec![f32::NAN; expected.len()])?;
            let parts = Parts { memory, count, queries, splits, partials };
            self.queue.attention(query, out, &attend, &parts, &places, 2)?;
            self.expect(name, out, &expected)?;
        }
        Ok(())
    }

    /// Seals blocks on the device, as the forms say.
    fn seal(&mut self, place: &KvPlace, table: &[i32]) -> Result<Mixed, CudaError> {
        let forms: Vec<i32> =
            (0..BLOCKS).map(|index| form(index, true).map_or(0, |bytes| 2 - i32::from(bytes))).collect();
        let sealed: Vec<usize> = (0..BLOCKS).filter(|&index| forms[index] != 0).collect();
        let blocks = self.put_numbers(&sealed.iter().map(|&index| table[index]).collect::<Vec<_>>())?;
        let kinds = self.put_numbers(&sealed.iter().map(|&index| forms[index]).collect::<Vec<_>>())?;
        self.queue.seal_blocks(place, Address::default(), [blocks, kinds], sealed.len())?;
        Ok(Mixed { forms: self.put_numbers(&forms)?, copies: Address::default() })
    }
}
