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

/// What the queries see of a tile.
struct Seen<'a> {
    queries: &'a [f32],
    dim: usize,
    /// The visible positions within the tile, and the blocks that hold them.
    visible: Range<usize>,
    blocks: Range<usize>,
}

/// As [`naive`](crate::naive::attention::tile).
///
/// # Safety
/// Needs the features of `F`, whose lanes divide the head dimension and 16.
#[inline(always)]
pub(crate) unsafe fn tile<F: Floats>(
    span: &Span<'_>,
    positions: Range<usize>,
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
    );
    let first = positions.start / TILE * TILE_BLOCKS;
    let visible = positions.start % TILE..positions.start % TILE + positions.len();
    let blocks = visible.start / BLOCK_TOKENS..visible.end.div_ceil(BLOCK_TOKENS);
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
    let seen = Seen { queries, dim, visible, blocks };
    // SAFETY: the caller's promise; keys, values, queries, scores, corrections and sums have the sizes just asserted.
    unsafe {
        if count < CONVERT_FROM || room.converted.len() < 2 * TILE_BLOCKS * len {
            return attend::<F, u16>(&seen, keys, values, room, partial);
        }
        let mut to = room.converted.as_mut_ptr();
        let [keys, values] = [keys, values].map(|stored| {
            let start = to.cast_const();
            for block in 0..TILE_BLOCKS {
                if seen.blocks.contains(&block) {
                    convert::<F>(stored[0][block], stored[1][block], len, to);
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
    let by_vectors = |left: usize| shape::<F>(count, left);
    // SAFETY: the caller's promise; vectors end where the blocks or the dimensions end.
    unsafe {
        let (mut lane, end) = (seen.blocks.start * BLOCK_TOKENS, seen.blocks.end * BLOCK_TOKENS);
        while lane < end {
            let vectors = by_vectors((end - lane) / F::LANES);
            match vectors {
                8 => score::<F, T, 8>(seen, keys, lane, room.scores, count),
                4 => score::<F, T, 4>(seen, keys, lane, room.scores, count),
                2 => score::<F, T, 2>(seen, keys, lane, room.scores, count),
                _ => score::<F, T, 1>(seen, keys, lane, room.scores, count),
            }
            lane += vectors * F::LANES;
        }
        for (query, weights) in room.scores.as_chunks_mut().0.iter_mut().enumerate() {
            weights[..seen.visible.start].fill(f32::NEG_INFINITY);
            weights[seen.visible.end..].fill(f32::NEG_INFINITY);
            room.corrections[query] = F::weigh(weights, &mut partial.max[query], &mut partial.sum[query]);
        }
        let mut lane = 0;
        while lane < dim {
            let vectors = by_vectors((dim - lane) / F::LANES);
            match vectors {
                8 => accumulate::<F, T, 8>(seen, values, lane, room, partial),
                4 => accumulate::<F, T, 4>(seen, values, lane, room, partial),
                2 => accumulate::<F, T, 2>(seen, values, lane, room, partial),
                _ => accumulate::<F, T, 1>(seen, values, lane, room, partial),
            }
            lane += vectors * F::LANES;
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

/// Corrects the sums from dimension `lane` on and adds the weighted values.
///
/// # Safety
/// As [`attend`]; the vectors end within the head dimension.
#[inline(always)]
unsafe fn accumulate<F: Floats, T: Stored, const VECTORS: usize>(
    seen: &Seen<'_>,
    values: Starts<T>,
    lane: usize,
    room: &Room<'_>,
    partial: &mut Partial<'_>,
) {
    let stretches: [_; TILE_BLOCKS] = std::array::from_fn(|block| {
        let start = seen.visible.start.max(block * BLOCK_TOKENS);
        let end = seen.visible.end.min((block + 1) * BLOCK_TOKENS);
        let [rows, ahead] = values.map(|blocks| {
            std::array::from_fn(|vector| {
                blocks[block].wrapping_add(start % BLOCK_TOKENS * seen.dim + lane + vector * F::LANES)
            })
        });
        Stretch { rows, ahead, first: start, steps: end.saturating_sub(start) }
    });
    // SAFETY: each stretch's rows are visible positions of its block, `[16][dim]`; weights are `[queries][64]`.
    unsafe {
        let product = Product::<'_, T, VECTORS> {
            weights: room.scores.as_ptr(),
            weights_stride: TILE,
            stretches: &stretches[seen.blocks.clone()],
            stride: seen.dim,
            factors: Some(room.corrections.as_ptr()),
            out: partial.values.as_mut_ptr().add(lane),
            out_stride: seen.dim,
            ask_ahead: true,
        };
        product.add::<F>(partial.max.len());
    }
}
