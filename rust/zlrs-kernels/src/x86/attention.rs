//! A tile of attention over any vector set, by the one [`Product`].

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use std::ops::Range;

use super::floats::Floats;
use super::product::{Product, Stored, Stretch};
use crate::attention::{Partial, Room, Span};
use crate::kv::BLOCK_TOKENS;
use crate::naive::attention::TILE;

/// Blocks of a tile.
const TILE_BLOCKS: usize = TILE / BLOCK_TOKENS;

/// Queries from which on a tile is converted from f16 once for all passes.
const CONVERT_FROM: usize = 16;

/// Where each block of a tile starts, of this tile and of the one that comes next.
type Starts<T> = [[*const T; TILE_BLOCKS]; 2];

/// A tile and who sees what of it.
struct Seen<'a> {
    queries: &'a [f32],
    dim: usize,
    /// Queries of a row.
    group: usize,
    /// What each row sees, in absolute positions.
    rows: &'a [Range<usize>],
    /// Blocks of the tile that hold what any row sees.
    blocks: Range<usize>,
}

impl Seen<'_> {
    /// What a row sees, within the tile.
    #[inline(always)]
    fn row(&self, row: usize) -> Range<usize> {
        let start = self.rows[row].start % TILE;
        start..start + self.rows[row].len()
    }

    /// The end of the run of rows from `row` on that see the same.
    #[inline(always)]
    fn run(&self, row: usize) -> usize {
        row + self.rows[row..].iter().take_while(|seen| **seen == self.rows[row]).count()
    }
}

/// As [`naive`](crate::naive::attention::tile).
///
/// # Safety
/// Needs the features of `F`, whose lanes divide the head dimension and 16.
#[inline(always)]
pub(crate) unsafe fn tile<F: Floats>(
    span: &Span<'_>,
    rows: &[Range<usize>],
    queries: &[f32],
    room: &mut Room<'_>,
    partial: &mut Partial<'_>,
) {
    let (dim, count) = (span.head_dim(), partial.max.len());
    assert!(
        dim.is_multiple_of(F::LANES)
            && queries.len() == count * dim
            && partial.values.len() == count * dim
            && room.scores.len() == count * TILE
            && room.corrections.len() == count
            && rows.iter().all(|row| row.start / TILE == rows[0].start / TILE && row.start < row.end)
            && rows.iter().all(|row| (row.end - 1) / TILE == row.start / TILE)
    );
    let start = rows.iter().map(|row| row.start).min().unwrap_or(0);
    let end = rows.iter().map(|row| row.end).max().unwrap_or(0);
    let first = start / TILE * TILE_BLOCKS;
    let blocks = start / BLOCK_TOKENS - first..end.div_ceil(BLOCK_TOKENS) - first;
    // Blocks that hold nothing visible are not looked at: one that does stands in. What comes next need not exist.
    let places = [0, TILE_BLOCKS].map(|ahead| {
        std::array::from_fn::<_, TILE_BLOCKS, _>(|i| {
            let here = first + i.clamp(blocks.start, blocks.end - 1);
            let block = if span.has(here + ahead) { here + ahead } else { here };
            (span.keys(block), span.values(block))
        })
    });
    let len = dim * BLOCK_TOKENS;
    assert!(places.as_flattened().iter().all(|(keys, values)| keys.len() == len && values.len() == len));
    let keys = places.map(|tile| tile.map(|(keys, _)| keys.as_ptr()));
    let values = places.map(|tile| tile.map(|(_, values)| values.as_ptr()));
    let seen = Seen { queries, dim, group: count / rows.len(), rows, blocks };
    // SAFETY: the caller's promise; keys, values, queries, scores, corrections and sums have the sizes just asserted.
    unsafe {
        if count < CONVERT_FROM || room.converted.len() < 2 * TILE_BLOCKS * len {
            return attend::<F, u16>(&seen, keys, values, room, partial);
        }
        let mut to = room.converted.as_mut_ptr();
        let [keys, values] = [keys, values].map(|stored| {
            let start = to.cast_const();
            for (block, (&from, &ahead)) in stored[0].iter().zip(&stored[1]).enumerate() {
                if seen.blocks.contains(&block) {
                    convert::<F>(from, ahead, len, to);
                }
                to = to.add(len);
            }
            [std::array::from_fn(|block| start.add(block * len)); 2]
        });
        attend::<F, f32>(&seen, keys, values, room, partial);
    }
}

/// `len` values as f32; asks for the block that comes next meanwhile.
///
/// # Safety
/// Needs the features of `F`, whose lanes divide `len`; `to` has room for `len` floats.
#[inline(always)]
unsafe fn convert<F: Floats>(from: *const u16, ahead: *const u16, len: usize, to: *mut f32) {
    for i in (0..len).step_by(F::LANES) {
        // SAFETY: the caller's promise; asking ahead reads nothing.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add(i).cast());
            F::store(to.add(i), F::load_half(from.add(i)));
        }
    }
}

/// The tile's scores, weights and weighted values.
///
/// # Safety
/// Needs the features of `F`. Keys are `[dim][16]` a block, values `[16][dim]`; queries, room and partial fit.
#[inline(always)]
unsafe fn attend<F: Floats, T: Stored>(
    seen: &Seen<'_>,
    keys: Starts<T>,
    values: Starts<T>,
    room: &mut Room<'_>,
    partial: &mut Partial<'_>,
) {
    let (dim, count) = (seen.dim, partial.max.len());
    // SAFETY: the caller's promise; vectors end where the blocks or the dimensions end.
    unsafe {
        let (mut lane, end) = (seen.blocks.start * BLOCK_TOKENS, seen.blocks.end * BLOCK_TOKENS);
        while lane < end {
            let vectors = shape::<F>(count, (end - lane) / F::LANES);
            match vectors {
                8 => score::<F, T, 8>(seen, keys, lane, room.scores, count),
                4 => score::<F, T, 4>(seen, keys, lane, room.scores, count),
                2 => score::<F, T, 2>(seen, keys, lane, room.scores, count),
                _ => score::<F, T, 1>(seen, keys, lane, room.scores, count),
            }
            lane += vectors * F::LANES;
        }
        for (query, weights) in room.scores.as_chunks_mut().0.iter_mut().enumerate() {
            let visible = seen.row(query / seen.group);
            weights[..visible.start].fill(f32::NEG_INFINITY);
            weights[visible.end..].fill(f32::NEG_INFINITY);
            room.corrections[query] = F::weigh(weights, &mut partial.max[query], &mut partial.sum[query]);
        }
        let mut row = 0;
        while row < seen.rows.len() {
            let end = seen.run(row);
            let (visible, heads) = (&seen.row(row), &(row * seen.group..end * seen.group));
            let mut lane = 0;
            while lane < dim {
                let vectors = shape::<F>(heads.len(), (dim - lane) / F::LANES);
                match vectors {
                    8 => accumulate::<F, T, 8>(dim, visible, heads, values, lane, room, partial),
                    4 => accumulate::<F, T, 4>(dim, visible, heads, values, lane, room, partial),
                    2 => accumulate::<F, T, 2>(dim, visible, heads, values, lane, room, partial),
                    _ => accumulate::<F, T, 1>(dim, visible, heads, values, lane, room, partial),
                }
                lane += vectors * F::LANES;
            }
            row = end;
        }
    }
}

/// Vectors side by side where `left` are left to do: with few queries more of them, so that as many sums do not
/// wait for each other.
#[inline(always)]
fn shape<F: Floats>(queries: usize, left: usize) -> usize {
    match left {
        8.. if queries == 1 => 8,
        4.. if queries <= F::FOUR_VECTORS_UP_TO => 4,
        2.. => 2,
        _ => 1,
    }
}

/// Scores of the positions from `lane` of the tile on.
///
/// # Safety
/// As [`attend`]; the vectors end within the visible blocks.
#[inline(always)]
unsafe fn score<F: Floats, T: Stored, const VECTORS: usize>(
    seen: &Seen<'_>,
    keys: Starts<T>,
    lane: usize,
    scores: &mut [f32],
    queries: usize,
) {
    // SAFETY: each lane's block has its keys, `[dim][16]`; scores are `[queries][64]`.
    unsafe {
        let [rows, ahead] = keys.map(|blocks| {
            std::array::from_fn(|vector| {
                let lane = lane + vector * F::LANES;
                blocks[lane / BLOCK_TOKENS].wrapping_add(lane % BLOCK_TOKENS)
            })
        });
        let product = Product::<'_, T, VECTORS> {
            weights: seen.queries.as_ptr(),
            weights_stride: seen.dim,
            stretches: &[Stretch { rows, ahead, first: 0, steps: seen.dim }],
            stride: BLOCK_TOKENS,
            factors: None,
            out: scores.as_mut_ptr().add(lane),
            out_stride: TILE,
            ask_ahead: true,
        };
        product.add::<F>(queries);
    }
}

/// Corrects the sums of some queries from dimension `lane` on and adds the weighted values of the visible positions.
///
/// # Safety
/// As [`attend`]; the vectors end within the head dimension.
#[inline(always)]
unsafe fn accumulate<F: Floats, T: Stored, const VECTORS: usize>(
    dim: usize,
    visible: &Range<usize>,
    queries: &Range<usize>,
    values: Starts<T>,
    lane: usize,
    room: &Room<'_>,
    partial: &mut Partial<'_>,
) {
    let stretches: [_; TILE_BLOCKS] = std::array::from_fn(|block| {
        let start = visible.start.max(block * BLOCK_TOKENS);
        let end = visible.end.min((block + 1) * BLOCK_TOKENS);
        let [rows, ahead] = values.map(|blocks| {
            let first = start % BLOCK_TOKENS * dim + lane;
            std::array::from_fn(|vector| blocks[block].wrapping_add(first + vector * F::LANES))
        });
        Stretch { rows, ahead, first: start, steps: end.saturating_sub(start) }
    });
    // SAFETY: each stretch's rows are visible positions of its block, `[16][dim]`; weights are `[queries][64]`, sums
    // `[queries][dim]`.
    unsafe {
        let product = Product::<'_, T, VECTORS> {
            weights: room.scores.as_ptr().add(queries.start * TILE),
            weights_stride: TILE,
            stretches: &stretches[visible.start / BLOCK_TOKENS..visible.end.div_ceil(BLOCK_TOKENS)],
            stride: dim,
            factors: Some(room.corrections.as_ptr().add(queries.start)),
            out: partial.values.as_mut_ptr().add(queries.start * dim + lane),
            out_stride: dim,
            ask_ahead: true,
        };
        product.add::<F>(queries.len());
    }
}
