//! Moving one byte of each dword to where a 16-bit multiplication wants it: sub-block scales lie four to a
//! dword, the dword lane being a row.

use super::lanes::load;
use super::vector::Vector;
use std::arch::x86_64::*;

/// Shuffles for sub-block scales, a dword lane being a row.
#[repr(align(32))]
pub(super) struct Shuffles<const N: usize>([[u32; 8]; N]);

impl<const N: usize> Shuffles<N> {
    /// For entry j and row i: `base` with the row's byte `j * step % 4` at every place that `places` marks.
    const fn new(base: u32, places: u32, step: u32, add: u32) -> Self {
        let mut table = [[0; 8]; N];
        let mut i = 0;
        while i < 8 * N {
            let byte = 4 * (i as u32 % 4) + step * (i as u32 / 8) % 4;
            table[i / 8][i % 8] = base | (byte * places + add);
            i += 1;
        }
        Self(table)
    }

    /// # Safety
    /// Needs AVX2; `j < N`.
    #[inline(always)]
    pub(super) unsafe fn entry(&self, j: usize) -> __m256i {
        // SAFETY: one row of the table is 32 bytes.
        unsafe { load(self.0.as_ptr().add(j).cast()) }
    }
}

/// Byte j, zero-extended into both 16-bit halves.
pub(super) static LOW: Shuffles<4> = Shuffles::new(0x8000_8000, 0x0001_0001, 1, 0);
/// Byte j in the high byte of both halves.
static HIGH: Shuffles<4> = Shuffles::new(0x0080_0080, 0x0100_0100, 1, 0);
/// Bytes 2j and 2j + 1, one a half.
pub(super) static PAIR: Shuffles<2> = Shuffles::new(0x8000_8000, 0x0001_0001, 2, 0x0001_0000);

/// Byte `j` of each dword, sign-extended into both 16-bit halves.
///
/// # Safety
/// Needs what `V` needs; `j < 4`.
#[inline(always)]
pub(super) unsafe fn signed_byte<V: Vector>(v: V::Integers, j: usize) -> V::Integers {
    // SAFETY: as above.
    unsafe { V::upper_bytes(V::shuffle(v, HIGH.entry(j))) }
}
