//! The product with many columns, see [`avx2`](crate::avx2): two strips a vector, two vectors and six columns a
//! tile.

use super::lanes::Lanes;
use super::vector::Two;
use super::wide::{Wide, dot_chunk, finish_block};
use crate::avx2::matmul::format::STRIP_ROWS;
use crate::avx2::matmul::gemv::prefetch_chunk;
use crate::avx2::matmul::lanes::Buffer;
use crate::avx2::matmul::task::Task;
use crate::avx2::matmul::vector::{Packed, Vector};
use std::arch::x86_64::*;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Columns of a tile: with two vectors of weights, 12 integer and 12 float sums of the 32 registers.
pub(crate) const TILE_COLUMNS: usize = 6;
/// Columns of a pass, a multiple of the tile's. Bounds the sums carried between stretches.
const PASS: usize = 132;
/// The most vectors of a tile.
const MAX_VECTORS: usize = 2;
/// Room for the strips of a stretch.
const EXPANDED: usize = 40 * 1024;

/// The sums of a pass between stretches, `[column][vector][lane]`.
type Carried = Buffer<{ PASS * MAX_VECTORS * Two::BYTES }>;

/// Blocks of a stretch: half of AVX2's, for twice the strips.
const fn stretch<F: Wide>() -> usize {
    F::STRETCH / 2
}

/// Bytes of an expanded block of two strips.
const fn expanded_block<F: Wide>() -> usize {
    F::EXPANDED * Two::STRIPS
}

/// All columns of the task against some strips. The activations lie in tiles of [`TILE_COLUMNS`] columns and
/// one tile of the columns left over.
///
/// # Safety
/// Needs AVX-512 (F, BW, VL), VNNI, F16C. The strips are this worker's alone; weights and activations have the
/// sizes that the task's counts and `F` ask for.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(crate) unsafe fn gemm<F: Wide>(task: &Task<'_>, strips: Range<usize>) {
    const {
        assert!(PASS.is_multiple_of(TILE_COLUMNS));
        assert!(MAX_VECTORS * stretch::<F>() * expanded_block::<F>() <= EXPANDED);
    }
    let mut expanded = MaybeUninit::<Buffer<EXPANDED>>::uninit();
    let mut carried = MaybeUninit::<Carried>::uninit();
    let (expanded, carried) = (expanded.as_mut_ptr().cast::<u8>(), carried.as_mut_ptr().cast::<f32>());
    for pass in (0..task.columns).step_by(PASS) {
        let columns = pass..task.columns.min(pass + PASS);
        let mut strip = strips.start;
        while strip < strips.end {
            let vectors = if strip + MAX_VECTORS * Two::STRIPS <= strips.end { MAX_VECTORS } else { 1 };
            let end = strips.end.min(strip + vectors * Two::STRIPS);
            for first in (0..task.blocks).step_by(stretch::<F>()) {
                let blocks = first..task.blocks.min(first + stretch::<F>());
                // SAFETY: strips and blocks exist; the buffers hold a stretch and a pass by the assertions.
                unsafe {
                    for vector in 0..vectors {
                        let strip = strip + vector * Two::STRIPS;
                        let to = expanded.add(vector * stretch::<F>() * expanded_block::<F>());
                        // A strip without a partner is its own: the second results are not written.
                        expand_stretch::<F>(task, [strip, (strip + 1).min(end - 1)], blocks.clone(), to);
                    }
                    if vectors == MAX_VECTORS {
                        columns_of_pass::<F, MAX_VECTORS>(task, columns.clone(), blocks, expanded, carried);
                    } else {
                        columns_of_pass::<F, 1>(task, columns.clone(), blocks, expanded, carried);
                    }
                }
            }
            for column in columns.clone() {
                for strip_of_tile in 0..end - strip {
                    // SAFETY: the tiles have filled the sums of these columns and strips, [column][strip]; the
                    // strips are this worker's.
                    unsafe {
                        let column_of_pass = column - pass;
                        let sums = carried
                            .add((column_of_pass * vectors * Two::STRIPS + strip_of_tile) * STRIP_ROWS);
                        task.write(column, strip + strip_of_tile, _mm256_loadu_ps(sums));
                    }
                }
            }
            strip = end;
        }
    }
}

/// Expands some blocks of two strips to `expanded`, their vectors side by side.
///
/// # Safety
/// Strips and blocks exist; `expanded` has room for as many blocks.
#[inline(always)]
unsafe fn expand_stretch<F: Wide>(
    task: &Task<'_>,
    strips: [usize; 2],
    blocks: Range<usize>,
    expanded: *mut u8,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let strip_bytes = task.blocks * F::STRIP_BLOCK;
        let apart = (strips[1] - strips[0]) * strip_bytes;
        // The same blocks of the strips that come next.
        let ahead = MAX_VECTORS * Two::STRIPS * strip_bytes;
        for (i, block) in blocks.enumerate() {
            let first = task.weights.as_ptr().add(strips[0] * strip_bytes + block * F::STRIP_BLOCK);
            let packed = Packed { first, apart };
            let to = expanded.add(i * expanded_block::<F>());
            for chunk in 0..F::CHUNKS {
                prefetch_chunk::<F>(first, chunk, ahead);
                prefetch_chunk::<F>(first, chunk, ahead + apart);
                F::expand_bytes::<Two>(packed, chunk, to.add(chunk * Two::STRIPS * F::CHUNK_BYTES));
            }
            F::expand_scales::<Two>(packed, to.add(F::CHUNKS * Two::STRIPS * F::CHUNK_BYTES));
        }
    }
}

/// Every tile of a pass against one expanded stretch of R vectors.
///
/// # Safety
/// As [`gemm`]; the stretch is expanded; `carried` holds the sums of the pass.
#[inline(always)]
unsafe fn columns_of_pass<F: Wide, const R: usize>(
    task: &Task<'_>,
    columns: Range<usize>,
    blocks: Range<usize>,
    expanded: *const u8,
    carried: *mut f32,
) {
    for first in columns.clone().step_by(TILE_COLUMNS) {
        let width = TILE_COLUMNS.min(columns.end - first);
        // SAFETY: tiles before this one hold whole columns, and the pass starts with a tile; within the tile a
        // block has WORDS dwords a column.
        unsafe {
            let activations = task
                .activations
                .as_ptr()
                .add(first * task.blocks * F::WORDS + blocks.start * F::WORDS * width);
            let sums = carried.add((first - columns.start) * R * Two::STRIPS * STRIP_ROWS);
            let (start, count) = (blocks.start == 0, blocks.len());
            // The next tile's same blocks, if it is as wide: its words lie too far away to be foreseen.
            let ahead = task.blocks * F::WORDS * width;
            match width {
                1 => tile::<F, R, 1>(expanded, count, start, activations, ahead, sums),
                2 => tile::<F, R, 2>(expanded, count, start, activations, ahead, sums),
                3 => tile::<F, R, 3>(expanded, count, start, activations, ahead, sums),
                4 => tile::<F, R, 4>(expanded, count, start, activations, ahead, sums),
                5 => tile::<F, R, 5>(expanded, count, start, activations, ahead, sums),
                _ => tile::<F, R, TILE_COLUMNS>(expanded, count, start, activations, ahead, sums),
            }
        }
    }
}

/// One stretch of R vectors with C columns. Sums start at zero in the first stretch, else where the stretch
/// before left them: one accumulator per result, blocks ascending. Activations `ahead` words further on are asked for.
///
/// # Safety
/// As [`columns_of_pass`]; `sums` has `C * R * 16` floats.
#[inline(always)]
unsafe fn tile<F: Wide, const R: usize, const C: usize>(
    expanded: *const u8,
    blocks: usize,
    start: bool,
    activations: *const u32,
    ahead: usize,
    sums: *mut f32,
) {
    const LANES: usize = Two::STRIPS * STRIP_ROWS;
    // SAFETY: the caller's promise.
    unsafe {
        let mut acc = [[Two::zero_floats(); C]; R];
        if !start {
            for r in 0..R {
                for c in 0..C {
                    acc[r][c] = _mm512_loadu_ps(sums.add((c * R + r) * LANES));
                }
            }
        }
        for block in 0..blocks {
            let mut vectors = [expanded; R];
            for (r, vector) in vectors.iter_mut().enumerate() {
                *vector = expanded.add((r * stretch::<F>() + block) * expanded_block::<F>());
            }
            let activations = activations.add(block * F::WORDS * C);
            for line in (0..F::WORDS * C).step_by(16) {
                _mm_prefetch::<_MM_HINT_T0>(activations.wrapping_add(ahead + line).cast());
            }
            let mut isum = [[Two::zero(); C]; R];
            for chunk in 0..F::CHUNKS {
                let chunks = vectors.map(|p| p.add(chunk * Two::STRIPS * F::CHUNK_BYTES));
                dot_chunk::<F, Two, R, C>(chunks, chunk, activations, &mut isum);
            }
            let scales = vectors.map(|p| p.add(F::CHUNKS * Two::STRIPS * F::CHUNK_BYTES));
            finish_block::<F, Two, R, C>(scales, activations, &isum, &mut acc);
        }
        for r in 0..R {
            for c in 0..C {
                _mm512_storeu_ps(sums.add((c * R + r) * LANES), acc[r][c]);
            }
        }
    }
}
