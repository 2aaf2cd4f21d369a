//! The attention part of a layer.

use zlrs_kernels::{
    AttentionRow, KernelError, Product, attention, for_rows, matmul_many, rms_norm_in_place, rope, store_kv,
};
use zlrs_model::weights::Projection;

use super::CpuBackend;
use super::buffers::parts;
use super::draft::described;
use super::rows::{add_branch, add_constant, norm_rows, silence};
use crate::kv::BLOCK_TOKENS;
use crate::plan::{CHUNK_ROWS, Plan, Row};

impl CpuBackend {
    /// `hidden += attention(norm(hidden))` for the plan's rows, storing their keys and values on the way.
    ///
    /// With `last`, what nobody asks for ends here: only the rows that want logits go on, moved to the front of
    /// `hidden`. Returns the number of rows that go on.
    pub(super) fn attend(&mut self, plan: &Plan, layer: usize, last: bool) -> Result<usize, KernelError> {
        let Self { decoder, draft, weights, ropes, memory, buffers, machine, observer, .. } = self;
        let decoder = described(decoder, draft.as_ref(), plan.layers);
        let (Some(part), Some(weights)) =
            (&decoder.layers[layer].attention, &weights.layers[layer].attention)
        else {
            let rows = plan.rows().len();
            let hidden = &mut buffers.hidden[..rows * decoder.width];
            add_constant(machine, decoder.layers[layer].attention_constant.as_deref(), hidden)?;
            return Ok(rows);
        };
        let (isa, pool, width, epsilon) = (machine.isa, &machine.pool, decoder.width, decoder.norm_epsilon);
        let rows = plan.rows().len();
        buffers.live.clear();
        buffers.live.extend(plan.rows().iter().filter(|row| !last || row.wants_logits));
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
            let wanted = plan.rows().iter().enumerate().filter(|(_, row)| row.wants_logits);
            for (to, (from, _)) in wanted.enumerate() {
                hidden.copy_within(from * width..(from + 1) * width, to * width);
                branch.copy_within(from * width..(from + 1) * width, to * width);
            }
            matmul_many(pool, &mut [map_query], &branch[..live.len() * width], live.len(), scratch)?;
        }

        let table = &ropes[part.rope];
        let turn = |heads: &mut [f32], norm: Option<&[f32]>, rows: &[Row], width: usize| {
            for (heads, row) in heads.chunks_exact_mut(width).zip(rows) {
                for head in heads.chunks_exact_mut(head_dim) {
                    if let Some(norm) = norm {
                        rms_norm_in_place(isa, head, norm, epsilon);
                    }
                    rope(isa, decoder.rope_layout, table, row.position, head);
                }
            }
        };
        let (query_norm, key_norm) = (weights.query_norm.as_deref(), weights.key_norm.as_deref());
        for_rows(pool, query_width, query, &|first, query| {
            turn(query, query_norm, &live[first..], query_width);
        })?;
        for_rows(pool, kv_width, key, &|first, key| turn(key, key_norm, &plan.rows()[first..], kv_width))?;
        for (index, row) in plan.rows().iter().enumerate() {
            let position = row.position as usize;
            let block = plan.blocks_of(row.sequence)[position / BLOCK_TOKENS];
            let (key, value) = (&key[index * kv_width..][..kv_width], &value[index * kv_width..][..kv_width]);
            let slot = position % BLOCK_TOKENS;
            store_kv(isa, &mut memory.values, &memory.layout, layer, block, slot, key, value)?;
        }

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

fn product<'a>(map: &'a Projection, out: &'a mut [f32]) -> Product<'a> {
    Product { weights: &map.matrix, bias: map.bias.as_deref(), out }
}
