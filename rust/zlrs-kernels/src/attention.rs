//! Attention over the KV arena: who computes which part, and where it is kept.
//!
//! The arithmetic is specified in [`naive::attention`](crate::naive::attention); nothing here changes a bit.
//! Work is shared out by (row, KV head), so that a KV head's keys and values are read once for all its query
//! heads. When that gives too few parts to keep the pool busy (a few rows far into a context), the splits of
//! the rows are shared out instead and merged afterwards in their order, as they would have been.
#![expect(unsafe_code, reason = "workers write disjoint parts of one output")]

mod parts;

use std::ops::Range;

use crate::dispatch::dispatch;
use crate::kv::{BLOCK_TOKENS, KvLayer};
use crate::naive::attention::{SPLIT, TILE};
use crate::output::Columns;
use crate::{Isa, KernelError, KvLayout, Pool, Scratch};
pub(crate) use parts::{Partial, Span};

/// Below this number of multiply-adds the calling thread does all by itself: waking others costs more.
const INLINE_WORK: usize = 1 << 16;

/// Parts per worker below which splits are shared out.
const PARTS_PER_WORKER: usize = 4;

/// One query row: where its sequence's keys and values are and which of them it sees.
#[derive(Debug, Clone, Copy)]
pub struct AttentionRow<'a> {
    /// The sequence's blocks in order: block `i` holds positions `16 i .. 16 i + 16`. At least
    /// `position / 16 + 1` of them; blocks wholly below the window are not looked at.
    pub blocks: &'a [u32],
    /// The row's own position. It sees positions up to and including this one.
    pub position: u32,
    /// `Some(w)`, `w >= 1`: it sees only the last `w` of them, its own included.
    pub window: Option<u32>,
}

impl AttentionRow<'_> {
    /// The visible positions.
    fn visible(&self) -> Range<usize> {
        let end = self.position as usize + 1;
        let start = self.window.map_or(0, |window| end.saturating_sub(window as usize));
        start..end
    }

    fn splits(&self) -> Range<usize> {
        let visible = self.visible();
        visible.start / SPLIT..visible.end.div_ceil(SPLIT)
    }
}

/// One call, checked.
struct Call<'a> {
    isa: Isa,
    arena: &'a [u16],
    block_len: usize,
    layer: KvLayer,
    group: usize,
    scale: f32,
    rows: &'a [AttentionRow<'a>],
    /// `[rows][kv_heads · group · head_dim]`
    q: &'a [f32],
}

/// One worker's memory.
struct Memory<'a> {
    /// Scaled queries, `[group][dim]`.
    queries: &'a mut [f32],
    /// Scores and weights, `[group][TILE]`.
    tile: &'a mut [f32],
    total: Partial<'a>,
    next: Partial<'a>,
}

impl Call<'_> {
    /// Floats of a group's queries, and of its output.
    fn group_len(&self) -> usize {
        self.group * self.layer.head_dim
    }

    fn partial_len(&self) -> usize {
        Partial::len(self.group, self.layer.head_dim)
    }

    /// Floats a worker needs, in whole cache lines.
    fn memory_len(&self) -> usize {
        (self.group_len() + self.group * TILE + 2 * self.partial_len()).next_multiple_of(16)
    }

    fn memory<'m>(&self, memory: &'m mut [f32]) -> Memory<'m> {
        let (queries, rest) = memory.split_at_mut(self.group_len());
        let (tile, rest) = rest.split_at_mut(self.group * TILE);
        let (total, rest) = rest.split_at_mut(self.partial_len());
        let (next, _) = rest.split_at_mut(self.partial_len());
        let (total, next) = (Partial::new(total, self.group), Partial::new(next, self.group));
        Memory { queries, tile, total, next }
    }

    fn scale_queries(&self, row: usize, kv_head: usize, queries: &mut [f32]) {
        let start = (row * self.layer.kv_heads + kv_head) * self.group_len();
        for (scaled, q) in queries.iter_mut().zip(&self.q[start..]) {
            *scaled = q * self.scale;
        }
    }

    fn span(&self, row: usize, kv_head: usize, split: usize) -> Span<'_> {
        let visible = self.rows[row].visible();
        Span {
            arena: self.arena,
            block_len: self.block_len,
            blocks: self.rows[row].blocks,
            head_dim: self.layer.head_dim,
            keys: self.layer.keys(kv_head),
            values: self.layer.values(kv_head),
            positions: visible.start.max(split * SPLIT)..visible.end.min((split + 1) * SPLIT),
        }
    }

    /// A row and KV head from beginning to end.
    fn whole(&self, row: usize, kv_head: usize, memory: &mut Memory<'_>, out: &mut [f32]) {
        self.scale_queries(row, kv_head, memory.queries);
        let splits = self.rows[row].splits();
        let first = splits.start;
        for split in splits {
            let span = self.span(row, kv_head, split);
            if split == first {
                run_split(self.isa, &span, memory.queries, memory.tile, &mut memory.total);
            } else {
                run_split(self.isa, &span, memory.queries, memory.tile, &mut memory.next);
                run_merge(self.isa, &mut memory.total, &memory.next);
            }
        }
        memory.total.finish(out);
    }
}

fn run_split(isa: Isa, span: &Span<'_>, queries: &[f32], tile: &mut [f32], partial: &mut Partial<'_>) {
    dispatch!(isa, attention::split(span, queries, tile, partial));
}

fn run_merge(isa: Isa, total: &mut Partial<'_>, next: &Partial<'_>) {
    dispatch!(isa, attention::merge(total, next));
}

/// Causal attention of `rows`, each over its own sequence, for one layer.
///
/// `q` is `[rows][heads · head_dim]`, already rotated; `out` has the same shape. Query head `h` uses KV head
/// `h / (heads / kv_heads)`. Keys and values of every visible position, the row's own included, must have been
/// stored. O(visible positions · heads · head_dim) for each row; allocates only when `scratch` must grow.
///
/// The bits of a row do not depend on the other rows, on the pool's size, on the block numbers, or on how
/// much of the sequence was stored by the same call.
///
/// # Errors
/// [`KernelError::OutOfRange`] for a layer that has no attention, `heads` that is no positive multiple of the
/// layer's KV heads, a window of 0, too few blocks or one outside the arena; [`KernelError::Length`] for `q` or
/// `out` of another shape; [`KernelError::OutOfMemory`]; and those of [`Pool::run`].
#[expect(clippy::too_many_arguments, reason = "the machine (two), the memory (three), the call (six)")]
pub fn attention(
    pool: &Pool,
    isa: Isa,
    arena: &[u16],
    layout: &KvLayout,
    layer: usize,
    heads: usize,
    scale: f32,
    rows: &[AttentionRow<'_>],
    q: &[f32],
    out: &mut [f32],
    scratch: &mut Scratch,
) -> Result<(), KernelError> {
    let layer = *layout.attending(layer)?;
    let kv_heads = layer.kv_heads;
    if heads == 0 || !heads.is_multiple_of(kv_heads) {
        let what = "number of query heads (a positive multiple of the KV heads, which are the limit given)";
        return Err(KernelError::OutOfRange { what, given: heads, limit: kv_heads });
    }
    let expected = heads.saturating_mul(layer.head_dim).saturating_mul(rows.len());
    for (what, given) in [("attention queries", q.len()), ("attention output", out.len())] {
        if given != expected {
            return Err(KernelError::Length { what, expected, given });
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    let mut work = 0_usize;
    let mut max_splits = 0;
    for row in rows {
        check_row(row, arena.len(), layout)?;
        work = work.saturating_add(row.visible().len());
        max_splits = max_splits.max(row.splits().len());
    }
    let group = heads / kv_heads;
    let call = Call { isa, arena, block_len: layout.block_len, layer, group, scale, rows, q };
    let parts = rows.len() * kv_heads;
    let inline = work.saturating_mul(heads * layer.head_dim * 2) < INLINE_WORK;
    let share_splits =
        !inline && max_splits > 1 && pool.threads() > 1 && parts < PARTS_PER_WORKER * pool.threads();

    let workers = if inline { 1 } else { pool.threads() };
    let worker_len = workers * call.memory_len();
    let partial_len = call.partial_len();
    let partials_len = if share_splits { parts * max_splits * partial_len } else { 0 };
    reserve(&mut scratch.attention, worker_len + partials_len)?;
    let (memory, partials) = scratch.attention.split_at_mut(worker_len);
    let out = Columns::new(out, call.group_len());
    let memory = Columns::new(memory, call.memory_len());

    if !share_splits {
        let job = |worker: usize, part: usize| {
            // SAFETY: each worker has one job at a time and its own row of memory, each part its own row of
            // the output; both exist.
            let (memory, out) = unsafe {
                (memory.segment(worker, 0..call.memory_len()), out.segment(part, 0..call.group_len()))
            };
            call.whole(part / kv_heads, part % kv_heads, &mut call.memory(memory), out);
        };
        if inline {
            return pool.run_alone(&|| (0..parts).for_each(|part| job(0, part)));
        }
        return pool.run_units(parts, &job);
    }

    let partials_columns = Columns::new(&mut partials[..partials_len], partial_len);
    pool.run_units(parts * max_splits, &|worker, unit| {
        let (part, index) = (unit / max_splits, unit % max_splits);
        let (row, kv_head) = (part / kv_heads, part % kv_heads);
        let splits = rows[row].splits();
        if index >= splits.len() {
            return;
        }
        // SAFETY: as above; each unit has its own row of the partials.
        let (memory, partial) = unsafe {
            (memory.segment(worker, 0..call.memory_len()), partials_columns.segment(unit, 0..partial_len))
        };
        let Memory { queries, tile, .. } = call.memory(memory);
        call.scale_queries(row, kv_head, queries);
        let span = call.span(row, kv_head, splits.start + index);
        run_split(isa, &span, queries, tile, &mut Partial::new(partial, group));
    })?;
    for (part, partials) in partials.chunks_exact_mut(max_splits * partial_len).enumerate().take(parts) {
        let (total, rest) = partials.split_at_mut(partial_len);
        let mut total = Partial::new(total, group);
        let further = rows[part / kv_heads].splits().len() - 1;
        for next in rest.chunks_exact_mut(partial_len).take(further) {
            run_merge(isa, &mut total, &Partial::new(next, group));
        }
        // SAFETY: the workers are done; this thread alone writes now.
        total.finish(unsafe { out.segment(part, 0..call.group_len()) });
    }
    Ok(())
}

fn check_row(row: &AttentionRow<'_>, arena_len: usize, layout: &KvLayout) -> Result<(), KernelError> {
    let visible = row.visible();
    if visible.is_empty() {
        return Err(KernelError::OutOfRange { what: "attention window (at least 1)", given: 0, limit: 1 });
    }
    let blocks = visible.start / BLOCK_TOKENS..visible.end.div_ceil(BLOCK_TOKENS);
    let Some(blocks) = row.blocks.get(blocks) else {
        let (what, given) = ("attention position", row.position as usize);
        return Err(KernelError::OutOfRange { what, given, limit: row.blocks.len() * BLOCK_TOKENS });
    };
    for &block in blocks {
        layout.block(arena_len, block)?;
    }
    Ok(())
}

/// Makes `memory` hold at least `len` floats.
fn reserve(memory: &mut Vec<f32>, len: usize) -> Result<(), KernelError> {
    if memory.len() < len {
        let what = "attention's working memory";
        memory
            .try_reserve(len - memory.len())
            .map_err(|_| KernelError::OutOfMemory { what, bytes: len.saturating_mul(size_of::<f32>()) })?;
        memory.resize(len, 0.0);
    }
    Ok(())
}
