//! The attention part of a layer.

use zlrs_kernels::{
    AttentionRow, Isa, KernelError, Pool, Product, RopeLayout, RopeTable, attention, for_rows, matmul_many,
    rms_norm_in_place, rope, store_kv,
};
use zlrs_model::weights::Projection;

use super::CpuBackend;
use super::buffers::parts;
use super::draft::described;
use super::memory::KvMemory;
use super::rows::{add_branch, add_constant, norm_rows, silence};
use crate::kv::BLOCK_TOKENS;
use crate::plan::{CHUNK_ROWS, Plan, Row};

impl CpuBackend {
    /// `hidden += attention(norm(hidden))` for the plan's rows that have not left, storing their keys and values on the way.
    ///
    /// With `last`, what nobody asks for ends here: only the rows that want logits go on, moved to the front of
    /// `hidden`. Returns the number of rows that go on.
    pub(super) fn attend(&mut self, plan: &Plan, layer: usize, last: bool) -> Result<usize, KernelError> {
        let Self { decoder, draft, weights, ropes, memory, buffers, machine, observer, .. } = self;
        let decoder = described(decoder, draft.as_ref(), plan.layers);
        let (Some(part), Some(weights)) =
            (&decoder.layers[layer].attention, &weights.layers[layer].attention)
        else {
            let rows = buffers.rows.len();
            buffers.live.clone_from(&buffers.rows);
            let hidden = &mut buffers.hidden[..rows * decoder.width];
            add_constant(machine, decoder.layers[layer].attention_constant.as_deref(), hidden)?;
            return Ok(rows);
        };
        let (isa, pool, width, epsilon) = (machine.isa, &machine.pool, decoder.width, decoder.norm_epsilon);
        let all = &buffers.rows[..];
        let rows = all.len();
        buffers.live.clear();
        buffers.live.extend(all.iter().filter(|row| !last || row.wants_logits));
        let live = &buffers.live[..];
        let (query_width, kv_width, head_dim) = (part.query_width(), part.kv_width(), part.head_dim);
        let hidden = &mut buffers.hidden[..rows * width];
        let branch = &mut buffers.branch[..rows * width];
        let (queries, keys) = (live.len() * query_width, rows * kv_width);
        let [query, key, value, attended] = parts(&mut buffers.between, [queries, keys, keys, queries]);
        let scratch = &mut buffers.scratch;

        norm_rows(machine, hidden, &weights.norm, epsilon, branch)?;
        let (map_query, map_key) = (product(&weights.query, query), product(&weights.key, key));
        let map_value = product(&weights.value, value);
        if live.len() == rows {
            matmul_many(pool, &mut [map_query, map_key, map_value], branch, rows, scratch)?;
        } else {
            matmul_many(pool, &mut [map_key, map_value], branch, rows, scratch)?;
            let wanted = all.iter().enumerate().filter(|(_, row)| row.wants_logits);
            for (to, (from, _)) in wanted.enumerate() {
                hidden.copy_within(from * width..(from + 1) * width, to * width);
                branch.copy_within(from * width..(from + 1) * width, to * width);
            }
            matmul_many(pool, &mut [map_query], &branch[..live.len() * width], live.len(), scratch)?;
        }

        let (layout, table) = (decoder.rope_layout, &ropes[part.rope]);
        let turn = Turn { isa, layout, table, head_dim, epsilon };
        turn.run(pool, query, weights.query_norm.as_deref(), live)?;
        turn.run(pool, key, weights.key_norm.as_deref(), all)?;
        store(isa, memory, plan, layer, all, key, value)?;

        let mut table = [AttentionRow { blocks: &[], position: 0, window: None }; CHUNK_ROWS];
        for (entry, row) in table.iter_mut().zip(live) {
            let blocks = plan.blocks_of(row.sequence);
            *entry = AttentionRow { blocks, position: row.position, window: part.window };
        }
        let (values, layout) = (&memory.values, &memory.layout);
        let table = &table[..live.len()];
        attention(pool, isa, values, layout, layer, part.heads, part.scale, table, query, attended, scratch)?;
        if let Some(cut) = &part.cut {
            silence(attended, query_width, head_dim, &cut.silent);
        }
        if let Some(observer) = observer {
            observer.heads(layer, head_dim, attended);
        }
        let (hidden, branch) = (&mut hidden[..live.len() * width], &mut branch[..live.len() * width]);
        matmul_many(pool, &mut [product(&weights.output, branch)], attended, live.len(), scratch)?;
        add_branch(
            machine,
            branch,
            weights.post_norm.as_deref(),
            epsilon,
            hidden,
            width,
            |hidden, branch| {
                if let Some(observer) = observer {
                    observer.attention(layer, hidden, branch);
                }
            },
        )?;
        Ok(live.len())
    }
}

/// Norms and rotates heads by the positions of their rows.
pub(super) struct Turn<'a> {
    pub isa: Isa,
    pub layout: RopeLayout,
    pub table: &'a RopeTable,
    pub head_dim: usize,
    pub epsilon: f32,
}

impl Turn<'_> {
    /// `heads` is `[rows][heads of a row]`; `norm` is that of a head.
    pub fn run(
        &self,
        pool: &Pool,
        heads: &mut [f32],
        norm: Option<&[f32]>,
        rows: &[Row],
    ) -> Result<(), KernelError> {
        // Without rows there are no heads; a width of 0 has no chunks.
        let width = (heads.len() / rows.len().max(1)).max(1);
        for_rows(pool, width, heads, &|first, heads| {
            for (heads, row) in heads.chunks_exact_mut(width).zip(&rows[first..]) {
                for head in heads.chunks_exact_mut(self.head_dim) {
                    if let Some(norm) = norm {
                        rms_norm_in_place(self.isa, head, norm, self.epsilon);
                    }
                    rope(self.isa, self.layout, self.table, row.position, head);
                }
            }
        })
    }
}

/// Puts the keys and values of rows, `[rows][width of a row]` each, where their blocks are.
pub(super) fn store(
    isa: Isa,
    memory: &mut KvMemory,
    plan: &Plan,
    layer: usize,
    rows: &[Row],
    keys: &[f32],
    values: &[f32],
) -> Result<(), KernelError> {
    let width = keys.len() / rows.len().max(1);
    for (index, row) in rows.iter().enumerate() {
        let position = row.position as usize;
        let block = plan.blocks_of(row.sequence)[position / BLOCK_TOKENS];
        let (key, value) = (&keys[index * width..][..width], &values[index * width..][..width]);
        let slot = position % BLOCK_TOKENS;
        store_kv(isa, &mut memory.values, &memory.layout, layer, block, slot, key, value)?;
    }
    Ok(())
}

pub(super) fn product<'a>(map: &'a Projection, out: &'a mut [f32]) -> Product<'a> {
    Product { weights: &map.matrix, bias: map.bias.as_deref(), out }
}
