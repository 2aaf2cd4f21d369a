//! The attention part of a layer.

use zlrs_kernels::{
    AttentionRow, KernelError, Pool, Scratch, add, attention, matmul, rms_norm_in_place, rope, store_kv,
};
use zlrs_model::weights::Projection;

use super::CpuBackend;
use super::feed::norm_rows;
use crate::kv::BLOCK_TOKENS;
use crate::plan::{CHUNK_ROWS, Plan};

impl CpuBackend {
    /// `hidden += attention(norm(hidden))` for the plan's rows, storing their keys and values on the way.
    pub(super) fn attend(&mut self, plan: &Plan, layer: usize) -> Result<(), KernelError> {
        let Self { decoder, weights, ropes, memory, buffers, machine, .. } = self;
        let (Some(part), Some(weights)) =
            (&decoder.layers[layer].attention, &weights.layers[layer].attention)
        else {
            return Ok(());
        };
        let (isa, pool, width, epsilon) = (machine.isa, &machine.pool, decoder.width, decoder.norm_epsilon);
        let rows = plan.rows().len();
        let (query_width, kv_width, head_dim) = (part.query_width(), part.kv_width(), part.head_dim);
        let hidden = &mut buffers.hidden[..rows * width];
        let normed = &mut buffers.normed[..rows * width];
        let branch = &mut buffers.branch[..rows * width];
        let query = &mut buffers.query[..rows * query_width];
        let key = &mut buffers.key[..rows * kv_width];
        let value = &mut buffers.value[..rows * kv_width];
        let attended = &mut buffers.attended[..rows * query_width];
        let scratch = &mut buffers.scratch;

        norm_rows(isa, hidden, &weights.norm, epsilon, normed);
        project(pool, &weights.query, normed, rows, query, scratch)?;
        project(pool, &weights.key, normed, rows, key, scratch)?;
        project(pool, &weights.value, normed, rows, value, scratch)?;

        let table = &ropes[part.rope];
        for (index, row) in plan.rows().iter().enumerate() {
            let query = &mut query[index * query_width..][..query_width];
            let key = &mut key[index * kv_width..][..kv_width];
            for (heads, norm) in [(query, &weights.query_norm), (&mut *key, &weights.key_norm)] {
                for head in heads.chunks_exact_mut(head_dim) {
                    if let Some(norm) = norm {
                        rms_norm_in_place(isa, head, norm, epsilon);
                    }
                    rope(isa, decoder.rope_layout, table, row.position, head);
                }
            }
            let position = row.position as usize;
            let block = plan.blocks_of(row.sequence)[position / BLOCK_TOKENS];
            let value = &value[index * kv_width..][..kv_width];
            let slot = position % BLOCK_TOKENS;
            store_kv(isa, &mut memory.values, &memory.layout, layer, block, slot, key, value)?;
        }

        let mut table = [AttentionRow { blocks: &[], position: 0, window: None }; CHUNK_ROWS];
        for (entry, row) in table.iter_mut().zip(plan.rows()) {
            let blocks = plan.blocks_of(row.sequence);
            *entry = AttentionRow { blocks, position: row.position, window: part.window };
        }
        let (values, layout) = (&memory.values, &memory.layout);
        let table = &table[..rows];
        attention(pool, isa, values, layout, layer, part.heads, part.scale, table, query, attended, scratch)?;
        project(pool, &weights.output, attended, rows, branch, scratch)?;
        if let Some(norm) = &weights.post_norm {
            for row in branch.chunks_exact_mut(width) {
                rms_norm_in_place(isa, row, norm, epsilon);
            }
        }
        add(isa, branch, hidden);
        Ok(())
    }
}

fn project(
    pool: &Pool,
    map: &Projection,
    x: &[f32],
    rows: usize,
    out: &mut [f32],
    scratch: &mut Scratch,
) -> Result<(), KernelError> {
    matmul(pool, &map.matrix, x, rows, map.bias.as_deref(), out, scratch)
}
