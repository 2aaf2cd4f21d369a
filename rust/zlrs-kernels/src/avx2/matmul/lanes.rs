//! The vector operations that the formats are written in.
//!
//! # Safety
//! Everything here needs AVX2, FMA and F16C, and pointers to as many bytes as a function says it reads or
//! writes, at any alignment. The functions are inlined into callers that carry the features.

use std::arch::x86_64::*;

/// 16-bit or 32-bit integer sums of a tile: `[strip][column]`.
pub(crate) type Sums<const R: usize, const C: usize> = [[__m256i; C]; R];
/// The f32 accumulators of a tile: `[strip][column]`, a lane being a row of the strip.
pub(crate) type Accumulators<const R: usize, const C: usize> = [[__m256; C]; R];

/// Memory for expanded weights.
#[repr(align(64))]
pub(crate) struct Buffer<const N: usize>(pub(crate) [u8; N]);

/// 32 bytes from `p`.
///
/// # Safety
/// As the module states.
#[inline(always)]
pub(crate) unsafe fn load(p: *const u8) -> __m256i {
    // SAFETY: see the module.
    unsafe { _mm256_loadu_si256(p.cast()) }
}

/// 32 bytes to `p`.
///
/// # Safety
/// As the module states.
#[inline(always)]
pub(crate) unsafe fn store(p: *mut u8, v: __m256i) {
    // SAFETY: see the module.
    unsafe { _mm256_storeu_si256(p.cast(), v) }
}

/// 8 floats from 32 bytes at `p`.
///
/// # Safety
/// As the module states.
#[inline(always)]
pub(crate) unsafe fn load_floats(p: *const u8) -> __m256 {
    // SAFETY: see the module.
    unsafe { _mm256_loadu_ps(p.cast()) }
}

/// One dword of the activations in all lanes; the load does the broadcast.
///
/// # Safety
/// As the module states.
#[inline(always)]
pub(crate) unsafe fn broadcast(p: *const u32) -> __m256i {
    // SAFETY: see the module.
    unsafe { _mm256_set1_epi32(p.cast::<i32>().read_unaligned()) }
}

/// As [`broadcast`], the dword being a float.
///
/// # Safety
/// As the module states.
#[inline(always)]
pub(crate) unsafe fn broadcast_float(p: *const u32) -> __m256 {
    // SAFETY: see the module.
    unsafe { _mm256_castsi256_ps(broadcast(p)) }
}

/// Multiply-accumulate as two instructions that the compiler keeps together. Left to itself it reassociates
/// the integer additions of a whole block into trees, runs out of registers and halves the speed; an asm
/// statement keeps the written order.
macro_rules! multiply_accumulate {
    ($(#[$doc:meta])* $name:ident, $multiply:literal, $add:literal) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// As the module states.
        #[inline]
        #[target_feature(enable = "avx2")]
        pub(crate) unsafe fn $name(mut sum: __m256i, w: __m256i, a: __m256i) -> __m256i {
            // SAFETY: register to register; the feature is enabled here.
            unsafe {
                std::arch::asm!(
                    $multiply,
                    $add,
                    s = inout(ymm_reg) sum,
                    w = in(ymm_reg) w,
                    a = in(ymm_reg) a,
                    t = lateout(ymm_reg) _,
                    options(nomem, nostack, preserves_flags)
                );
            }
            sum
        }
    };
}

multiply_accumulate!(
    /// `sum += w x a` over pairs: unsigned bytes times signed bytes into 16-bit lanes. A pair saturates at
    /// 16 bits, which the formats' bounds rule out; the addition wraps.
    multiply_bytes,
    "vpmaddubsw {t}, {w}, {a}",
    "vpaddw {s}, {s}, {t}"
);
multiply_accumulate!(
    /// `sum += w x a` over pairs: signed 16-bit numbers into 32-bit lanes.
    multiply_words,
    "vpmaddwd {t}, {w}, {a}",
    "vpaddd {s}, {s}, {t}"
);

/// `sums[r][c] += weights x activations` over `G` groups of four weights: `p[r]` holds unsigned bytes, 32 a
/// group; `a` holds dwords of signed bytes, `[group][column]`.
///
/// # Safety
/// As the module states.
#[inline(always)]
pub(crate) unsafe fn dot_groups<const R: usize, const C: usize, const G: usize>(
    p: [*const u8; R],
    a: *const u32,
    sums: &mut Sums<R, C>,
) {
    // SAFETY: see the module; `p` spans 32 * G bytes, `a` G * C dwords.
    unsafe {
        for g in 0..G {
            let mut w = [_mm256_setzero_si256(); R];
            for r in 0..R {
                w[r] = load(p[r].add(32 * g));
            }
            for c in 0..C {
                let b = broadcast(a.add(g * C + c));
                for r in 0..R {
                    sums[r][c] = multiply_bytes(sums[r][c], w[r], b);
                }
            }
        }
    }
}

/// Sums that start at a column's dword `a[c]` in every lane.
///
/// # Safety
/// As the module states.
#[inline(always)]
pub(crate) unsafe fn start_sums<const R: usize, const C: usize>(a: *const u32) -> Sums<R, C> {
    // SAFETY: see the module; `a` spans C dwords.
    unsafe {
        let mut sums = [[_mm256_setzero_si256(); C]; R];
        for c in 0..C {
            let start = broadcast(a.add(c));
            for r in 0..R {
                sums[r][c] = start;
            }
        }
        sums
    }
}

/// `isum += ` the 16-bit lanes of `sums`, added in pairs.
///
/// # Safety
/// As the module states.
#[inline(always)]
pub(crate) unsafe fn widen<const R: usize, const C: usize>(sums: &Sums<R, C>, isum: &mut Sums<R, C>) {
    // SAFETY: see the module.
    unsafe {
        let one = _mm256_set1_epi16(1);
        for r in 0..R {
            for c in 0..C {
                isum[r][c] = _mm256_add_epi32(isum[r][c], _mm256_madd_epi16(sums[r][c], one));
            }
        }
    }
}

/// `isum += scale x sums`: the 16-bit lanes times the strip's sub-block scale at `p[r]`, added in pairs.
///
/// # Safety
/// As the module states.
#[inline(always)]
pub(crate) unsafe fn widen_scaled<const R: usize, const C: usize>(
    p: [*const u8; R],
    sums: &Sums<R, C>,
    isum: &mut Sums<R, C>,
) {
    // SAFETY: see the module; `p` spans 32 bytes.
    unsafe {
        for r in 0..R {
            let scale = load(p[r]);
            for c in 0..C {
                isum[r][c] = multiply_words(isum[r][c], sums[r][c], scale);
            }
        }
    }
}

/// `acc = fma(f32(isum), scale * d, acc)`: eight f32 scales at `p[r]`, the column's `d` at `d[c]`.
///
/// # Safety
/// As the module states.
#[inline(always)]
pub(crate) unsafe fn accumulate<const R: usize, const C: usize>(
    p: [*const u8; R],
    d: *const u32,
    isum: &Sums<R, C>,
    acc: &mut Accumulators<R, C>,
) {
    // SAFETY: see the module; `p` spans 32 bytes, `d` C dwords.
    unsafe {
        for r in 0..R {
            let scale = load_floats(p[r]);
            for c in 0..C {
                let factor = _mm256_mul_ps(scale, broadcast_float(d.add(c)));
                acc[r][c] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(isum[r][c]), factor, acc[r][c]);
            }
        }
    }
}
