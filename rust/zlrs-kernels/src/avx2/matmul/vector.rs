//! The vector operations that packed weights are expanded with, for one strip a vector (here) or two side by side
//! (AVX-512).

use super::lanes::{load, store};
use std::arch::x86_64::*;

/// Where the strips of a vector have a packed block.
#[derive(Clone, Copy)]
pub(crate) struct Packed {
    /// The first strip's.
    pub(crate) first: *const u8,
    /// From there to the second strip's, in bytes.
    pub(crate) apart: usize,
}

/// # Safety
/// The functions need the features of the vectors' length and are inlined into callers that carry them; packed
/// blocks and `p` have as many bytes as are read or written, at any alignment.
pub(crate) trait Vector {
    /// Integers.
    type Integers: Copy;
    /// Bytes of a vector.
    const BYTES: usize;
    /// Strips of a vector.
    const STRIPS: usize = Self::BYTES / 32;

    /// 32 bytes of each strip's block from `offset` on.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn load_packed(packed: Packed, offset: usize) -> Self::Integers;
    /// Eight f16 of each strip's block from `offset` on, exactly, as f32 to `p`.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn expand_halves(packed: Packed, offset: usize, p: *mut u8);
    /// A vector to `p`.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn store(p: *mut u8, v: Self::Integers);
    /// A byte in all places.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn set_bytes(byte: i8) -> Self::Integers;
    /// Bits of both.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn and(a: Self::Integers, b: Self::Integers) -> Self::Integers;
    /// Bits of either.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn or(a: Self::Integers, b: Self::Integers) -> Self::Integers;
    /// Bits of one.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn xor(a: Self::Integers, b: Self::Integers) -> Self::Integers;
    /// 16-bit numbers to the left.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn shift_left<const BITS: i32>(v: Self::Integers) -> Self::Integers;
    /// 16-bit numbers to the right, zeros coming in.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn shift_right<const BITS: i32>(v: Self::Integers) -> Self::Integers;
    /// The upper byte of each signed 16-bit number, as such a number.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn upper_bytes(v: Self::Integers) -> Self::Integers;
    /// Bytes within each 16, by one table for all strips.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn shuffle(v: Self::Integers, table: __m256i) -> Self::Integers;

    /// Splits nibbles into the low and the high ones, each in a byte of its own.
    ///
    /// # Safety
    /// As the trait states.
    #[inline(always)]
    unsafe fn nibbles(v: Self::Integers) -> (Self::Integers, Self::Integers) {
        // SAFETY: the caller's promise.
        unsafe {
            let mask = Self::set_bytes(15);
            (Self::and(v, mask), Self::and(Self::shift_right::<4>(v), mask))
        }
    }
}

/// One strip: 256 bits.
pub(crate) struct One;

impl Vector for One {
    type Integers = __m256i;
    const BYTES: usize = 32;

    #[inline(always)]
    unsafe fn load_packed(packed: Packed, offset: usize) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { load(packed.first.add(offset)) }
    }
    #[inline(always)]
    unsafe fn expand_halves(packed: Packed, offset: usize, p: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let halves = _mm_loadu_si128(packed.first.add(offset).cast());
            _mm256_storeu_ps(p.cast(), _mm256_cvtph_ps(halves));
        }
    }
    #[inline(always)]
    unsafe fn store(p: *mut u8, v: __m256i) {
        // SAFETY: the caller's promise.
        unsafe { store(p, v) }
    }
    #[inline(always)]
    unsafe fn set_bytes(byte: i8) -> __m256i {
        // SAFETY: the caller has the features.
        unsafe { _mm256_set1_epi8(byte) }
    }
    #[inline(always)]
    unsafe fn and(a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: the caller has the features.
        unsafe { _mm256_and_si256(a, b) }
    }
    #[inline(always)]
    unsafe fn or(a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: the caller has the features.
        unsafe { _mm256_or_si256(a, b) }
    }
    #[inline(always)]
    unsafe fn xor(a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: the caller has the features.
        unsafe { _mm256_xor_si256(a, b) }
    }
    #[inline(always)]
    unsafe fn shift_left<const BITS: i32>(v: __m256i) -> __m256i {
        // SAFETY: the caller has the features.
        unsafe { _mm256_slli_epi16::<BITS>(v) }
    }
    #[inline(always)]
    unsafe fn shift_right<const BITS: i32>(v: __m256i) -> __m256i {
        // SAFETY: the caller has the features.
        unsafe { _mm256_srli_epi16::<BITS>(v) }
    }
    #[inline(always)]
    unsafe fn upper_bytes(v: __m256i) -> __m256i {
        // SAFETY: the caller has the features.
        unsafe { _mm256_srai_epi16::<8>(v) }
    }
    #[inline(always)]
    unsafe fn shuffle(v: __m256i, table: __m256i) -> __m256i {
        // SAFETY: the caller has the features.
        unsafe { _mm256_shuffle_epi8(v, table) }
    }
}
