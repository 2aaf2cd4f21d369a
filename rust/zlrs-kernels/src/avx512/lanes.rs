//! The vector operations of the products, for one strip (256 bits) or two side by side (512 bits).

use super::vector::Two;
use crate::avx2::matmul::vector::{One, Vector};
use std::arch::x86_64::*;

/// # Safety
/// Everything needs AVX-512 (F, BW, VL) and VNNI, and pointers to as many bytes as are read or written, at any
/// alignment. The functions are inlined into callers that carry the features.
pub(crate) trait Lanes: Vector {
    /// Floats.
    type Floats: Copy;

    /// Zeros.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn zero() -> Self::Integers;
    /// A vector from `p`.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn load(p: *const u8) -> Self::Integers;
    /// A dword in all lanes.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn broadcast(p: *const u32) -> Self::Integers;
    /// `sum + ` four products of unsigned bytes `w` and signed bytes `a` in each lane.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn dot_bytes(sum: Self::Integers, w: Self::Integers, a: Self::Integers) -> Self::Integers;
    /// `sum + ` two products of signed 16-bit numbers in each lane.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn dot_pairs(sum: Self::Integers, a: Self::Integers, b: Self::Integers) -> Self::Integers;
    /// The upper 16-bit number of each lane.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn upper(pairs: Self::Integers) -> Self::Integers;
    /// `sum + a x b`, the product's lower 32 bits.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn multiply_add(sum: Self::Integers, a: Self::Integers, b: Self::Integers) -> Self::Integers;
    /// Floats from `p`.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn load_floats(p: *const u8) -> Self::Floats;
    /// A float in all lanes.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn broadcast_float(p: *const u32) -> Self::Floats;
    /// Rounded to nearest even.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn to_floats(integers: Self::Integers) -> Self::Floats;
    /// `a x b`.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn multiply(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `fma(a, b, c)`.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn fused(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    /// `fma(-a, b, c)`.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn fused_negative(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    /// Zeros.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn zero_floats() -> Self::Floats;
    /// Eight results of each strip.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn strips(floats: Self::Floats) -> [__m256; 2];
}

/// One strip; the second place is filled up.
///
/// # Safety
/// None: the twin of [`halves`].
#[inline(always)]
unsafe fn once(floats: __m256) -> [__m256; 2] {
    [floats; 2]
}

/// Lower and upper half.
///
/// # Safety
/// Needs AVX-512.
#[inline(always)]
unsafe fn halves(floats: __m512) -> [__m256; 2] {
    // SAFETY: the caller has the features.
    unsafe {
        let upper = _mm512_extractf64x4_pd::<1>(_mm512_castps_pd(floats));
        [_mm512_castps512_ps256(floats), _mm256_castpd_ps(upper)]
    }
}

macro_rules! lanes {
    ($name:ident, $integers:ty, $floats:ty, $zero:ident, $load:ident, $set:ident, $dot_bytes:ident,
     $dot_pairs:ident, $shift:ident, $add:ident, $mullo:ident, $load_floats:ident, $cast:ident,
     $convert:ident, $multiply:ident, $fused:ident, $fused_negative:ident, $zero_floats:ident, $split:expr) => {
        impl Lanes for $name {
            type Floats = $floats;

            #[inline(always)]
            unsafe fn zero() -> $integers {
                // SAFETY: the caller has the features.
                unsafe { $zero() }
            }
            #[inline(always)]
            unsafe fn load(p: *const u8) -> $integers {
                // SAFETY: the caller has the features and the bytes.
                unsafe { $load(p.cast()) }
            }
            #[inline(always)]
            unsafe fn broadcast(p: *const u32) -> $integers {
                // SAFETY: the caller has the features and the dword.
                unsafe { $set(p.cast::<i32>().read_unaligned()) }
            }
            #[inline(always)]
            unsafe fn dot_bytes(sum: $integers, w: $integers, a: $integers) -> $integers {
                // SAFETY: the caller has the features.
                unsafe { $dot_bytes(sum, w, a) }
            }
            #[inline(always)]
            unsafe fn dot_pairs(sum: $integers, a: $integers, b: $integers) -> $integers {
                // SAFETY: the caller has the features.
                unsafe { $dot_pairs(sum, a, b) }
            }
            #[inline(always)]
            unsafe fn upper(pairs: $integers) -> $integers {
                // SAFETY: the caller has the features.
                unsafe { $shift::<16>(pairs) }
            }
            #[inline(always)]
            unsafe fn multiply_add(sum: $integers, a: $integers, b: $integers) -> $integers {
                // SAFETY: the caller has the features.
                unsafe { $add(sum, $mullo(a, b)) }
            }
            #[inline(always)]
            unsafe fn load_floats(p: *const u8) -> $floats {
                // SAFETY: the caller has the features and the bytes.
                unsafe { $load_floats(p.cast()) }
            }
            #[inline(always)]
            unsafe fn broadcast_float(p: *const u32) -> $floats {
                // SAFETY: the caller has the features and the dword.
                unsafe { $cast(Self::broadcast(p)) }
            }
            #[inline(always)]
            unsafe fn to_floats(integers: $integers) -> $floats {
                // SAFETY: the caller has the features.
                unsafe { $convert(integers) }
            }
            #[inline(always)]
            unsafe fn multiply(a: $floats, b: $floats) -> $floats {
                // SAFETY: the caller has the features.
                unsafe { $multiply(a, b) }
            }
            #[inline(always)]
            unsafe fn fused(a: $floats, b: $floats, c: $floats) -> $floats {
                // SAFETY: the caller has the features.
                unsafe { $fused(a, b, c) }
            }
            #[inline(always)]
            unsafe fn fused_negative(a: $floats, b: $floats, c: $floats) -> $floats {
                // SAFETY: the caller has the features.
                unsafe { $fused_negative(a, b, c) }
            }
            #[inline(always)]
            unsafe fn zero_floats() -> $floats {
                // SAFETY: the caller has the features.
                unsafe { $zero_floats() }
            }
            #[inline(always)]
            unsafe fn strips(floats: $floats) -> [__m256; 2] {
                // SAFETY: the caller has the features.
                unsafe { $split(floats) }
            }
        }
    };
}

lanes!(
    One,
    __m256i,
    __m256,
    _mm256_setzero_si256,
    _mm256_loadu_si256,
    _mm256_set1_epi32,
    _mm256_dpbusd_epi32,
    _mm256_dpwssd_epi32,
    _mm256_srai_epi32,
    _mm256_add_epi32,
    _mm256_mullo_epi32,
    _mm256_loadu_ps,
    _mm256_castsi256_ps,
    _mm256_cvtepi32_ps,
    _mm256_mul_ps,
    _mm256_fmadd_ps,
    _mm256_fnmadd_ps,
    _mm256_setzero_ps,
    once
);
lanes!(
    Two,
    __m512i,
    __m512,
    _mm512_setzero_si512,
    _mm512_loadu_si512,
    _mm512_set1_epi32,
    _mm512_dpbusd_epi32,
    _mm512_dpwssd_epi32,
    _mm512_srai_epi32,
    _mm512_add_epi32,
    _mm512_mullo_epi32,
    _mm512_loadu_ps,
    _mm512_castsi512_ps,
    _mm512_cvtepi32_ps,
    _mm512_mul_ps,
    _mm512_fmadd_ps,
    _mm512_fnmadd_ps,
    _mm512_setzero_ps,
    halves
);
