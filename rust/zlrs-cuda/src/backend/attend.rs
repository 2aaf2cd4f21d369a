//! The attention part of a layer.

use zlrs_engine::plan::Plan;
use zlrs_kernels::RopeLayout;

use super::CudaBackend;
use super::tables::Changes;
use crate::queue::{Attend, Mixed, RowPlaces};
use crate::{Address, CudaError, Device};

impl<D: Device> CudaBackend<D> {
    /// `hidden += attention(norm(hidden))` for the plan's rows, storing their keys and values on the way.
    ///
    /// With `last`, what nobody asks for ends here: only the rows that want logits go on, in memory of their own.
    /// Returns where the rows that go on are, and their number.
    pub(super) fn attend(
        &mut self,
        plan: &Plan,
        layer: usize,
        last: bool,
    ) -> Result<(Address, usize), CudaError> {
        let rows = plan.rows().len();
        let mut hidden = self.buffers.hidden;
        let places = *self.tables.places();
        let (Some(part), Some(all), Some(live_places)) =
            (self.decoder.layers[layer].attention.clone(), places.all, places.live)
        else {
            return Ok((hidden, rows));
        };
        let Some(weights) = &self.weights.layers[layer].0 else { return Ok((hidden, rows)) };
        let (width, epsilon) = (self.decoder.width, self.decoder.norm_epsilon);
        let (query, key, value) = (weights.query, weights.key, weights.value);
        let (output, post_norm) = (weights.output, weights.post_norm);
        let (norm, query_norm, key_norm) = (weights.norm, weights.query_norm, weights.key_norm);
        let live = if last { self.tables.live().len() } else { rows };
        let live_places = if last { live_places } else { all };
        let buffers = &self.buffers;
        let (query_out, key_out, value_out) = (buffers.query, buffers.key, buffers.value);
        let (normed, attended, branch) = (buffers.normed, buffers.attended, buffers.branch);

        self.queue.rms_norm(hidden, norm, normed, rows, width, epsilon)?;
        let keys_and_values = [(key.matrix, key.bias, key_out), (value.matrix, value.bias, value_out)];
        let queries = (query.matrix, query.bias, query_out);
        if live == rows {
            let [keys, values] = keys_and_values;
            self.products(normed, rows, &[queries, keys, values])?;
        } else {
            self.products(normed, rows, &keys_and_values)?;
            let (kept, kept_normed) = (self.buffers.kept, self.buffers.kept_normed);
            self.queue.gather(hidden, places.live_rows, kept, live, width)?;
            self.queue.gather(normed, places.live_rows, kept_normed, live, width)?;
            hidden = kept;
            self.products(kept_normed, live, &[queries])?;
        }

        let heads = [part.heads, part.kv_heads];
        self.turn(query_out, query_norm, &live_places, [live, heads[0], part.head_dim], part.rope)?;
        self.turn(key_out, key_norm, &all, [rows, heads[1], part.head_dim], part.rope)?;
        let place = self.place(layer);
        self.queue.store_kv(key_out, value_out, &place, &all, rows)?;

        let mixed = self.seal_copies(layer)?;
        let attend = Attend {
            place,
            mixed,
            slopes: Address::default(),
            group: part.heads / part.kv_heads,
            window: part.window.map_or(0, |window| window as usize),
            scale: part.scale,
        };
        let parts = self.tables.parts(&part, last);
        self.queue.attention(query_out, attended, &attend, &parts, &live_places, live)?;
        self.products(attended, live, &[(output.matrix, output.bias, branch)])?;
        self.add_branch(post_norm, hidden, live)?;
        Ok((hidden, live))
    }

    /// Changes the forms of blocks for the step, in all layers at once: what is interrupted later leaves no block
    /// half changed.
    pub(super) fn change_forms(&mut self) -> Result<(), CudaError> {
        let places = *self.tables.places();
        for layer in 0..self.decoder.layers.len() {
            if self.decoder.layers[layer].attention.is_none() {
                continue;
            }
            let (place, edge) = (self.place(layer), usize::from(self.is_edge(layer)));
            let lists = |changes: &Changes| ([changes.blocks, changes.forms[edge]], changes.count);
            let (opened, count) = lists(&places.opened);
            self.queue.open_blocks(&place, opened, count)?;
            let (sealed, count) = lists(&places.sealed);
            self.queue.seal_blocks(&place, Address::default(), sealed, count)?;
        }
        Ok(())
    }

    /// Seals copies of the blocks that the step completes and reads behind; what attention reads then.
    fn seal_copies(&mut self, layer: usize) -> Result<Option<Mixed>, CudaError> {
        let (places, edge) = (*self.tables.places(), usize::from(self.is_edge(layer)));
        let (forms, copied) = (places.forms[edge], places.copied);
        if forms == Address::default() {
            return Ok(None);
        }
        let place = self.place(layer);
        let lists = [copied.blocks, copied.forms[edge]];
        self.queue.seal_blocks(&place, self.buffers.copies, lists, copied.count)?;
        Ok(Some(Mixed { forms, copies: self.buffers.copies }))
    }

    /// Whether a layer is the first or the last with attention.
    pub(super) fn is_edge(&self, layer: usize) -> bool {
        let mut with =
            (0..self.decoder.layers.len()).filter(|&index| self.decoder.layers[index].attention.is_some());
        with.next() == Some(layer) || with.next_back() == Some(layer)
    }

    /// The norm of each head, where there is one, and its rotation.
    fn turn(
        &mut self,
        x: Address,
        norm: Address,
        places: &RowPlaces,
        [rows, heads, head_dim]: [usize; 3],
        rope: usize,
    ) -> Result<(), CudaError> {
        if norm != Address::default() {
            self.queue.rms_norm(x, norm, x, rows * heads, head_dim, self.decoder.norm_epsilon)?;
        }
        let rope = self.ropes[rope];
        let adjacent = self.decoder.rope_layout == RopeLayout::Adjacent;
        self.queue.rope(x, rope.table, places.positions, [rows, heads, head_dim], rope.half, adjacent)
    }
}
