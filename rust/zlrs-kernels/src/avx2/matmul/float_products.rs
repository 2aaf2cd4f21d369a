//! Matrix products of floating-point weights, which keep the file's rows.
//!
//! The eight virtual lanes of the specification are the lanes of a vector. Four weight rows and two activation
//! rows share their loads; each pair has an accumulator of its own.

use crate::naive::decode::float_at;
use crate::naive::dot::FLOAT_LANES;
use crate::output::{Columns, run_shares};
use crate::{KernelError, Matrix, Pool, TensorType};
use std::arch::x86_64::*;

/// Weight rows of a tile.
const TILE_WEIGHTS: usize = 4;
/// Activation rows of a tile.
const TILE_ROWS: usize = 2;

/// The product of checked, non-empty arguments.
///
/// # Safety
/// Needs AVX2, FMA and F16C. `weights` is of a floating-point type, in file rows.
pub(super) unsafe fn product(
    pool: &Pool,
    weights: &Matrix,
    x: &[f32],
    bias: Option<&[f32]>,
    out: &mut [f32],
) -> Result<(), KernelError> {
    let task = FloatTask { weights, x, bias, out: &Columns::new(out, weights.rows()) };
    run_shares(pool, weights.rows(), x.len().saturating_mul(weights.rows()), &|rows| {
        // SAFETY: the caller's promise; shares do not overlap.
        unsafe {
            match weights.tensor_type() {
                TensorType::F32 => task.rows::<Single>(rows),
                TensorType::BF16 => task.rows::<Brain>(rows),
                _ => task.rows::<Half>(rows),
            }
        }
    })
}

/// Reads eight weights as f32, exactly.
trait Load {
    const BYTES: usize;
    /// # Safety
    /// Needs AVX2 and F16C; `p` has eight weights.
    unsafe fn load(p: *const u8) -> __m256;
}

struct Single;
struct Half;
struct Brain;

impl Load for Single {
    const BYTES: usize = 4;
    #[inline(always)]
    unsafe fn load(p: *const u8) -> __m256 {
        // SAFETY: 32 bytes.
        unsafe { _mm256_loadu_ps(p.cast()) }
    }
}

impl Load for Half {
    const BYTES: usize = 2;
    #[inline(always)]
    unsafe fn load(p: *const u8) -> __m256 {
        // SAFETY: 16 bytes.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(p.cast())) }
    }
}

impl Load for Brain {
    const BYTES: usize = 2;
    #[inline(always)]
    unsafe fn load(p: *const u8) -> __m256 {
        // SAFETY: 16 bytes.
        unsafe {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
        }
    }
}

struct FloatTask<'a> {
    weights: &'a Matrix,
    x: &'a [f32],
    bias: Option<&'a [f32]>,
    out: &'a Columns<'a>,
}

impl FloatTask<'_> {
    /// Every activation row against some weight rows.
    ///
    /// # Safety
    /// Needs AVX2, FMA and F16C; the weight rows are this worker's alone; `L` reads the matrix's type.
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn rows<L: Load>(&self, weight_rows: std::ops::Range<usize>) {
        let rows = self.x.len() / self.weights.cols();
        let mut i = weight_rows.start;
        while i < weight_rows.end {
            let tall = i + TILE_WEIGHTS <= weight_rows.end;
            let mut row = 0;
            while row < rows {
                let wide = row + TILE_ROWS <= rows;
                // SAFETY: the rows exist; the weight rows are this worker's.
                unsafe {
                    match (tall, wide) {
                        (true, true) => self.tile::<L, TILE_WEIGHTS, TILE_ROWS>(i, row),
                        (true, false) => self.tile::<L, TILE_WEIGHTS, 1>(i, row),
                        (false, true) => self.tile::<L, 1, TILE_ROWS>(i, row),
                        (false, false) => self.tile::<L, 1, 1>(i, row),
                    }
                }
                row += if wide { TILE_ROWS } else { 1 };
            }
            i += if tall { TILE_WEIGHTS } else { 1 };
        }
    }

    /// R weight rows from `first` on with C activation rows from `row` on.
    ///
    /// # Safety
    /// As [`rows`](Self::rows); the rows exist.
    #[inline(always)]
    unsafe fn tile<L: Load, const R: usize, const C: usize>(&self, first: usize, row: usize) {
        let cols = self.weights.cols();
        let whole = cols - cols % FLOAT_LANES;
        // SAFETY: `first + r` and `row + c` exist, and columns up to `whole` lie inside them.
        unsafe {
            let w: [*const u8; R] =
                std::array::from_fn(|r| self.weights.data().as_ptr().add((first + r) * cols * L::BYTES));
            let x: [*const f32; C] = std::array::from_fn(|c| self.x.as_ptr().add((row + c) * cols));
            let mut acc = [[_mm256_setzero_ps(); C]; R];
            for k in (0..whole).step_by(FLOAT_LANES) {
                let x = x.map(|x| _mm256_loadu_ps(x.add(k)));
                for r in 0..R {
                    let w = L::load(w[r].add(k * L::BYTES));
                    for c in 0..C {
                        acc[r][c] = _mm256_fmadd_ps(w, x[c], acc[r][c]);
                    }
                }
            }
            if whole < cols {
                let x: [__m256; C] = std::array::from_fn(|c| {
                    padded(|l| self.x.get((row + c) * cols + whole + l).copied(), cols - whole)
                });
                for r in 0..R {
                    let bytes = std::slice::from_raw_parts(w[r], cols * L::BYTES);
                    let tensor_type = self.weights.tensor_type();
                    let w = padded(|l| Some(float_at(tensor_type, bytes, whole + l)), cols - whole);
                    for c in 0..C {
                        acc[r][c] = _mm256_fmadd_ps(w, x[c], acc[r][c]);
                    }
                }
            }
            for r in 0..R {
                for c in 0..C {
                    let sum = sum_lanes(acc[r][c]);
                    let i = first + r;
                    let value = self.bias.map_or(sum, |bias| sum + bias[i]);
                    self.out.segment(row + c, i..i + 1)[0] = value;
                }
            }
        }
    }
}

/// `count` values and zeros up to eight.
///
/// # Safety
/// Needs AVX2.
#[inline(always)]
unsafe fn padded(value: impl Fn(usize) -> Option<f32>, count: usize) -> __m256 {
    let mut lanes = [0.0_f32; FLOAT_LANES];
    for (l, lane) in lanes.iter_mut().enumerate().take(count) {
        *lane = value(l).unwrap_or(0.0);
    }
    // SAFETY: 32 bytes.
    unsafe { _mm256_loadu_ps(lanes.as_ptr()) }
}

/// The specification's tree: distance 4, then 2, then 1.
///
/// # Safety
/// Needs AVX2.
#[inline(always)]
unsafe fn sum_lanes(v: __m256) -> f32 {
    // SAFETY: register operations.
    unsafe {
        let v = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
        let v = _mm_add_ps(v, _mm_movehl_ps(v, v));
        let v = _mm_add_ss(v, _mm_shuffle_ps::<1>(v, v));
        _mm_cvtss_f32(v)
    }
}
