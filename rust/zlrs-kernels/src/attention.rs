//! Attention over the KV arena: who computes which part, and where it is kept.
//!
//! The arithmetic is specified in [`naive::attention`](crate::naive::attention); nothing here changes a bit.
//! Work is shared out by (rows of a sequence, KV head), so that a tile of keys and values is read once for all
//! query heads of all those rows that see it whole. When that gives too few parts to keep the pool busy (a few rows far into a context), the splits of
//! the rows are shared out instead and merged afterwards in their order, as they would have been.
#![expect(unsafe_code, reason = "workers write disjoint parts of one output")]

mod parts;

use std::ops::Range;

use crate::dispatch::{dispatch, dispatch_wide};
use crate::kv::{BLOCK_TOKENS, KvLayer};
use crate::naive::attention::{SPLIT, TILE};
use crate::output::Columns;
use crate::{Isa, KernelError, KvLayout, Pool, Scratch};
pub(crate) use parts::{Partial, Room, Span};

/// Below this number of multiply-adds the calling thread does all by itself: waking others costs more.
const INLINE_WORK: usize = 1 << 16;

/// Parts per worker below which splits are shared out.
const PARTS_PER_WORKER: usize = 4;

/// Queries of one KV head that take a tile together, about: what they gather stays in a second-level cache.
const QUERIES_TOGETHER: usize = 64;

/// The most rows of a part.
const ROWS_TOGETHER: usize = 16;

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

/// One worker's memory, for the queries of a part.
struct Memory<'a> {
    /// Scaled queries, `[query][dim]`.
    queries: &'a mut [f32],
    room: Room<'a>,
    total: Partial<'a>,
    next: Partial<'a>,
}

impl Call<'_> {
    /// Floats of a row's queries of one KV head, and of their output.
    fn group_len(&self) -> usize {
        self.group * self.layer.head_dim
    }

    fn partial_len(&self, rows: usize) -> usize {
        Partial::len(rows * self.group, self.layer.head_dim)
    }

    /// Floats a worker needs for parts of `rows` rows, in whole cache lines.
    fn memory_len(&self, rows: usize) -> usize {
        let queries = rows * (self.group_len() + self.group * (TILE + 1));
        (queries + self.converted_len(rows) + 2 * self.partial_len(rows)).next_multiple_of(16)
    }

    /// Floats for a tile's keys and values where rows share them.
    fn converted_len(&self, rows: usize) -> usize {
        if rows > 1 { 2 * TILE * self.layer.head_dim } else { 0 }
    }

    fn memory<'m>(&self, rows: usize, memory: &'m mut [f32]) -> Memory<'m> {
        let (queries, rest) = memory.split_at_mut(rows * self.group_len());
        let (scores, rest) = rest.split_at_mut(rows * self.group * TILE);
        let (corrections, rest) = rest.split_at_mut(rows * self.group);
        let (converted, rest) = rest.split_at_mut(self.converted_len(rows));
        let (total, rest) = rest.split_at_mut(self.partial_len(rows));
        let (next, _) = rest.split_at_mut(self.partial_len(rows));
        let heads = rows * self.group;
        let room = Room { scores, corrections, converted };
        Memory { queries, room, total: Partial::new(total, heads), next: Partial::new(next, heads) }
    }

    fn scale_queries(&self, row: usize, kv_head: usize, queries: &mut [f32]) {
        let start = (row * self.layer.kv_heads + kv_head) * self.group_len();
        for (scaled, q) in queries.iter_mut().zip(&self.q[start..]) {
            *scaled = q * self.scale;
        }
    }

    fn span(&self, row: usize, kv_head: usize) -> Span<'_> {
        Span {
            arena: self.arena,
            block_len: self.block_len,
            blocks: self.rows[row].blocks,
            head_dim: self.layer.head_dim,
            keys: self.layer.keys(kv_head),
            values: self.layer.values(kv_head),
        }
    }

    /// What a row sees of the positions `among`.
    fn seen(&self, row: usize, among: &Range<usize>) -> Range<usize> {
        let visible = self.rows[row].visible();
        let start = visible.start.max(among.start);
        start..visible.end.min(among.end).max(start)
    }

    /// The state of one split for rows of one sequence; a row that sees nothing of it keeps an empty one.
    fn split(
        &self,
        rows: &Range<usize>,
        kv_head: usize,
        split: usize,
        queries: &[f32],
        room: &mut Room<'_>,
        state: &mut Partial<'_>,
    ) {
        state.clear();
        let span = self.span(rows.start, kv_head);
        let positions = split * SPLIT..(split + 1) * SPLIT;
        let seen = rows.clone().map(|row| self.seen(row, &positions)).filter(|seen| !seen.is_empty());
        let Some(all) = seen.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)) else { return };
        for index in all.start / TILE..all.end.div_ceil(TILE) {
            // Rows side by side take the tile together, each what it sees of it.
            let positions = index * TILE..(index + 1) * TILE;
            let seen: [_; ROWS_TOGETHER] = std::array::from_fn(|i| match rows.start + i {
                row if row < rows.end => self.seen(row, &positions),
                _ => 0..0,
            });
            let mut rest = 0;
            while let Some(start) = (rest..rows.len()).find(|&row| !seen[row].is_empty()) {
                let end = (start..rows.len()).find(|&row| seen[row].is_empty()).unwrap_or(rows.len());
                let heads = start * self.group..end * self.group;
                let queries = &queries[heads.start * self.layer.head_dim..heads.end * self.layer.head_dim];
                let room = &mut room.heads(heads.clone());
                run_tile(self.isa, &span, &seen[start..end], queries, room, &mut state.heads(heads));
                rest = end;
            }
        }
    }

    /// Rows of one sequence and a KV head from beginning to end. The rows' first splits are the same.
    fn whole(&self, rows: &Range<usize>, kv_head: usize, memory: &mut Memory<'_>, out: &Columns<'_>) {
        for (row, queries) in rows.clone().zip(memory.queries.chunks_exact_mut(self.group_len())) {
            self.scale_queries(row, kv_head, queries);
        }
        let first = self.rows[rows.start].splits().start;
        let end = rows.clone().map(|row| self.rows[row].splits().end).max().unwrap_or(first);
        self.split(rows, kv_head, first, memory.queries, &mut memory.room, &mut memory.total);
        for split in first + 1..end {
            self.split(rows, kv_head, split, memory.queries, &mut memory.room, &mut memory.next);
            for row in rows.clone().filter(|&row| self.rows[row].splits().contains(&split)) {
                let heads = (row - rows.start) * self.group..(row - rows.start + 1) * self.group;
                run_merge(self.isa, &mut memory.total.heads(heads.clone()), &memory.next.heads(heads));
            }
        }
        for row in rows.clone() {
            let heads = (row - rows.start) * self.group..(row - rows.start + 1) * self.group;
            // SAFETY: each row of each KV head belongs to one part, each part to one worker.
            let out = unsafe { out.segment(row * self.layer.kv_heads + kv_head, 0..self.group_len()) };
            memory.total.heads(heads).finish(out);
        }
    }

    /// The end of the part that begins with row `start`: rows of one sequence with the same window whose first
    /// split is the same, at most `limit`.
    fn part_end(&self, start: usize, limit: usize) -> usize {
        let first = &self.rows[start];
        let alike = |row: &AttentionRow<'_>| {
            std::ptr::eq(row.blocks, first.blocks)
                && row.window == first.window
                && row.splits().start == first.splits().start
        };
        let more = self.rows[start + 1..].iter().take(limit - 1).take_while(|row| alike(row)).count();
        start + 1 + more
    }
}

fn run_tile(
    isa: Isa,
    span: &Span<'_>,
    seen: &[Range<usize>],
    queries: &[f32],
    room: &mut Room<'_>,
    partial: &mut Partial<'_>,
) {
    dispatch_wide!(isa, attention::tile(span, seen, queries, room, partial));
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

    // Rows of a part; alone where splits are shared out, and where they are of different sequences anyway.
    let limit = if share_splits { 1 } else { (QUERIES_TOGETHER / group).clamp(1, ROWS_TOGETHER) };
    let Scratch { attention: floats, attention_parts: row_parts, .. } = scratch;
    row_parts.clear();
    let mut longest = 1;
    let mut start = 0;
    while start < rows.len() {
        let end = call.part_end(start, limit);
        row_parts.push(start..end);
        longest = longest.max(end - start);
        start = end;
    }

    let workers = if inline { 1 } else { pool.threads() };
    let memory_len = call.memory_len(longest);
    let worker_len = workers * memory_len;
    let partial_len = call.partial_len(1);
    let partials_len = if share_splits { parts * max_splits * partial_len } else { 0 };
    reserve(floats, worker_len + partials_len)?;
    let (memory, partials) = floats.split_at_mut(worker_len);
    let out = Columns::new(out, call.group_len());
    let memory = Columns::new(memory, memory_len);

    if !share_splits {
        let units = row_parts.len() * kv_heads;
        let job = |worker: usize, unit: usize| {
            // The last rows see the most: they come first, so that no worker is left with a long part at the end.
            let unit = units - 1 - unit;
            let rows = &row_parts[unit / kv_heads];
            // SAFETY: each worker has one job at a time and its own row of memory.
            let memory = unsafe { memory.segment(worker, 0..memory_len) };
            call.whole(rows, unit % kv_heads, &mut call.memory(longest, memory), &out);
        };
        if inline {
            return pool.run_alone(&|| (0..units).for_each(|unit| job(0, unit)));
        }
        return pool.run_units(units, &job);
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
            (memory.segment(worker, 0..memory_len), partials_columns.segment(unit, 0..partial_len))
        };
        let Memory { queries, mut room, .. } = call.memory(1, memory);
        call.scale_queries(row, kv_head, queries);
        let partial = &mut Partial::new(partial, group);
        call.split(&(row..row + 1), kv_head, splits.start + index, queries, &mut room, partial);
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
