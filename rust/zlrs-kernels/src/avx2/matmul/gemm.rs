//! The product with many columns: bound by arithmetic, so a stretch of R strips is expanded once into a
//! buffer that stays in the first-level cache, and every column of a pass meets it there.

use super::format::{Format, STRIP_ROWS};
use super::gemv::prefetch_chunk;
use super::lanes::{Accumulators, Buffer};
use super::task::Task;
use super::vector::{One, Packed};
use std::arch::x86_64::*;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Columns of a pass; a multiple of every format's tile. Bounds the sums carried between stretches.
const PASS: usize = 240;
/// The most strips of a tile.
const MAX_STRIPS: usize = 2;
/// Room for two strips of a stretch.
const EXPANDED: usize = 24 * 1024;

/// The sums of a pass between stretches, `[column][strip][row]`.
type Carried = Buffer<{ PASS * MAX_STRIPS * STRIP_ROWS * 4 }>;

/// All columns of the task against some strips, in tiles of R strips and C columns. The activations lie in
/// tiles of C columns and one tile of the columns left over.
///
/// # Safety
/// Needs AVX2, FMA and F16C. The strips are this worker's alone; weights and activations have the sizes that
/// the task's counts and `F` ask for; `C` is `F::TILE_COLUMNS`.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn gemm<F: Format, const R: usize, const C: usize>(task: &Task<'_>, strips: Range<usize>) {
    const {
        assert!(C == F::TILE_COLUMNS && PASS.is_multiple_of(C) && R <= MAX_STRIPS);
        assert!(R * F::STRETCH * F::EXPANDED <= EXPANDED);
    }
    let mut expanded = MaybeUninit::<Buffer<EXPANDED>>::uninit();
    let mut carried = MaybeUninit::<Carried>::uninit();
    let (expanded, carried) = (expanded.as_mut_ptr().cast::<u8>(), carried.as_mut_ptr().cast::<f32>());
    for pass in (0..task.columns).step_by(PASS) {
        let columns = pass..task.columns.min(pass + PASS);
        let mut strip = strips.start;
        while strip < strips.end {
            let together = if strip + R <= strips.end { R } else { 1 };
            for first in (0..task.blocks).step_by(F::STRETCH) {
                let blocks = first..task.blocks.min(first + F::STRETCH);
                // SAFETY: strips and blocks exist; the buffers hold a stretch and a pass by the assertions.
                unsafe {
                    for r in 0..together {
                        expand_stretch::<F>(
                            task,
                            strip + r,
                            blocks.clone(),
                            expanded.add(r * F::STRETCH * F::EXPANDED),
                        );
                    }
                    if together == R {
                        columns_of_pass::<F, R, C>(task, columns.clone(), blocks, expanded, carried);
                    } else {
                        columns_of_pass::<F, 1, C>(task, columns.clone(), blocks, expanded, carried);
                    }
                }
            }
            for column in columns.clone() {
                for r in 0..together {
                    // SAFETY: the tiles have filled the sums of these columns and strips, [column][strip];
                    // the strips are this worker's.
                    unsafe {
                        let sums = carried.add(((column - pass) * together + r) * STRIP_ROWS);
                        task.write(column, strip + r, _mm256_loadu_ps(sums));
                    }
                }
            }
            strip += together;
        }
    }
}

/// Expands some blocks of one strip to `expanded`.
///
/// # Safety
/// Strip and blocks exist; `expanded` has room for as many blocks.
#[inline(always)]
unsafe fn expand_stretch<F: Format>(task: &Task<'_>, strip: usize, blocks: Range<usize>, expanded: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        for (i, block) in blocks.enumerate() {
            let packed = task.weights.as_ptr().add((strip * task.blocks + block) * F::STRIP_BLOCK);
            let strip = Packed { first: packed, apart: 0 };
            let target = expanded.add(i * F::EXPANDED);
            for chunk in 0..F::CHUNKS {
                // The same blocks of the strips that come next.
                prefetch_chunk::<F>(packed, chunk, MAX_STRIPS * task.blocks * F::STRIP_BLOCK);
                F::expand_chunk::<One>(strip, chunk, target.add(chunk * F::CHUNK_BYTES));
            }
            F::expand_scales::<One>(strip, target.add(F::CHUNKS * F::CHUNK_BYTES));
        }
    }
}

/// Every tile of a pass against one expanded stretch of R strips.
///
/// # Safety
/// As [`gemm`]; the stretch is expanded; `carried` holds the sums of the pass.
#[inline(always)]
unsafe fn columns_of_pass<F: Format, const R: usize, const C: usize>(
    task: &Task<'_>,
    columns: Range<usize>,
    blocks: Range<usize>,
    expanded: *const u8,
    carried: *mut f32,
) {
    for first in columns.clone().step_by(C) {
        let width = C.min(columns.end - first);
        // SAFETY: tiles before this one hold whole columns, and the pass starts with a tile; within the tile
        // a block has WORDS dwords a column.
        unsafe {
            let activations = task
                .activations
                .as_ptr()
                .add(first * task.blocks * F::WORDS + blocks.start * F::WORDS * width);
            let sums = carried.add((first - columns.start) * R * STRIP_ROWS);
            let (start, count) = (blocks.start == 0, blocks.len());
            match width {
                1 => tile::<F, R, 1>(expanded, count, start, activations, sums),
                2 => tile::<F, R, 2>(expanded, count, start, activations, sums),
                3 => tile::<F, R, 3>(expanded, count, start, activations, sums),
                _ => tile::<F, R, 4>(expanded, count, start, activations, sums),
            }
        }
    }
}

/// One stretch of R strips with C columns. Sums start at zero in the first stretch, else where the stretch
/// before left them: one accumulator per result, blocks ascending.
///
/// # Safety
/// As [`columns_of_pass`]; `sums` has `C * R * 8` floats.
#[inline(always)]
unsafe fn tile<F: Format, const R: usize, const C: usize>(
    expanded: *const u8,
    blocks: usize,
    start: bool,
    activations: *const u32,
    sums: *mut f32,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut acc: Accumulators<R, C> = [[_mm256_setzero_ps(); C]; R];
        if !start {
            for r in 0..R {
                for c in 0..C {
                    acc[r][c] = _mm256_loadu_ps(sums.add((c * R + r) * STRIP_ROWS));
                }
            }
        }
        for block in 0..blocks {
            let mut strips = [expanded; R];
            for (r, strip) in strips.iter_mut().enumerate() {
                *strip = expanded.add((r * F::STRETCH + block) * F::EXPANDED);
            }
            let activations = activations.add(block * F::WORDS * C);
            let mut isum = [[_mm256_setzero_si256(); C]; R];
            for chunk in 0..F::CHUNKS {
                F::dot_chunk::<R, C>(
                    strips.map(|p| p.add(chunk * F::CHUNK_BYTES)),
                    chunk,
                    activations,
                    &mut isum,
                );
            }
            F::finish_block::<R, C>(
                strips.map(|p| p.add(F::CHUNKS * F::CHUNK_BYTES)),
                activations,
                &isum,
                &mut acc,
            );
        }
        for r in 0..R {
            for c in 0..C {
                _mm256_storeu_ps(sums.add((c * R + r) * STRIP_ROWS), acc[r][c]);
            }
        }
    }
}
