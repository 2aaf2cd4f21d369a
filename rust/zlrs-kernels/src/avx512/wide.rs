//! The formats' steps by `vpdpbusd`, for vectors of either length.

use super::lanes::Lanes;
use crate::avx2::matmul::format::Format;
use crate::avx2::matmul::packing::sum;
use crate::avx2::matmul::q8_0::{self, Q8_0};
use crate::avx2::matmul::vector::{Packed, Vector};
use crate::avx2::matmul::{q4_0::Q4_0, q4_1::Q4_1, q4_k::Q4K, q5_0::Q5_0, q5_k::Q5K, q6_k::Q6K};

/// How weights are stored as unsigned bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// As they are.
    Zero,
    /// With this added: the sum of a sub-block's products starts from minus that times its activations, which the
    /// auxiliary words before `d` hold, one a sub-block.
    Shifted(i32),
}

/// What follows the block's first fused multiply-add.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Minima {
    /// Nothing.
    None,
    /// One minimum a block, times the sum of activations, a float.
    One,
    /// Eight minima of sub-blocks, times the sums of activations in 16-bit pairs.
    Eight,
}

/// How a format uses bytes: 32-bit sums hold any number of products, so nothing but these choices is left.
pub(crate) trait Wide: Format {
    const START: Start;
    const MINIMA: Minima = Minima::None;
    /// Sub-blocks of a chunk that start and are scaled apart.
    const PARTS: usize = 1;
    /// Whether sub-blocks have scales: 16-bit pairs behind the chunk's groups.
    const SCALED: bool = false;

    /// Expands a chunk to unsigned bytes.
    ///
    /// # Safety
    /// As [`Format::expand_chunk`].
    #[inline(always)]
    unsafe fn expand_bytes<V: Vector>(packed: Packed, chunk: usize, expanded: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { Self::expand_chunk::<V>(packed, chunk, expanded) }
    }

    /// The auxiliary words of a block of activations: the format's, but starts of 32 bits.
    #[inline(always)]
    fn words(q: &[i8], d: f32, words: &mut [u32]) {
        let Start::Shifted(zero) = Self::START else { return Self::auxiliary(q, d, words) };
        for (word, q) in words.iter_mut().zip(q.chunks_exact(32 / Self::PARTS)) {
            *word = (-zero * sum(q)) as u32;
        }
        words[Self::PARTS * Self::CHUNKS] = d.to_bits();
    }
}

impl Wide for Q4_0 {
    const START: Start = Start::Shifted(8);
}
impl Wide for Q4_1 {
    const START: Start = Start::Zero;
    const MINIMA: Minima = Minima::One;
}
impl Wide for Q5_0 {
    const START: Start = Start::Shifted(16);
}
impl Wide for Q8_0 {
    const START: Start = Start::Shifted(128);

    /// `w + 128`.
    #[inline(always)]
    unsafe fn expand_bytes<V: Vector>(packed: Packed, _chunk: usize, expanded: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            for g in 0..8 {
                let w = V::load_packed(packed, q8_0::BYTES + 32 * g);
                V::store(expanded.add(g * V::BYTES), V::xor(w, V::set_bytes(-128)));
            }
        }
    }
}
impl Wide for Q4K {
    const START: Start = Start::Zero;
    const MINIMA: Minima = Minima::Eight;
    const SCALED: bool = true;
}
impl Wide for Q5K {
    const START: Start = Start::Zero;
    const MINIMA: Minima = Minima::Eight;
    const SCALED: bool = true;
}
impl Wide for Q6K {
    const START: Start = Start::Shifted(32);
    const PARTS: usize = 2;
    const SCALED: bool = true;
}

/// `isum += ` the exact integer dot of an expanded chunk of R vectors with C columns.
///
/// # Safety
/// As [`Format::dot_chunk`]; an expanded chunk's vectors have `L::BYTES`.
#[inline(always)]
pub(super) unsafe fn dot_chunk<F: Wide, L: Lanes, const R: usize, const C: usize>(
    expanded: [*const u8; R],
    chunk: usize,
    activations: *const u32,
    isum: &mut [[L::Integers; C]; R],
) {
    const { assert!(F::SCALED || F::CHUNKS == 1) }
    // SAFETY: the caller's promise; the words after a block's groups are the starts, a part each.
    unsafe {
        let starts = activations.add((F::BLOCK / 4 + F::PARTS * chunk) * C);
        let groups = 8 / F::PARTS;
        for part in 0..F::PARTS {
            let mut sums = [[L::zero(); C]; R];
            for c in 0..C {
                let start = match F::START {
                    Start::Zero => L::zero(),
                    Start::Shifted(_) => L::broadcast(starts.add(part * C + c)),
                };
                for r in 0..R {
                    sums[r][c] = start;
                }
            }
            for g in part * groups..(part + 1) * groups {
                let mut w = [L::zero(); R];
                for r in 0..R {
                    w[r] = L::load(expanded[r].add(g * L::BYTES));
                }
                for c in 0..C {
                    let a = L::broadcast(activations.add((8 * chunk + g) * C + c));
                    for r in 0..R {
                        sums[r][c] = L::dot_bytes(sums[r][c], w[r], a);
                    }
                }
            }
            for r in 0..R {
                if F::SCALED {
                    let scale = L::upper(L::load(expanded[r].add((8 + part) * L::BYTES)));
                    for c in 0..C {
                        isum[r][c] = L::multiply_add(isum[r][c], sums[r][c], scale);
                    }
                } else {
                    isum[r] = sums[r];
                }
            }
        }
    }
}

/// The block's fused multiply-adds.
///
/// # Safety
/// As [`Format::finish_block`]; expanded scales' vectors have `L::BYTES`.
#[inline(always)]
pub(super) unsafe fn finish_block<F: Wide, L: Lanes, const R: usize, const C: usize>(
    scales: [*const u8; R],
    activations: *const u32,
    isum: &[[L::Integers; C]; R],
    acc: &mut [[L::Floats; C]; R],
) {
    // SAFETY: the caller's promise; d is the last word, what minima need follows the groups.
    unsafe {
        let d = activations.add((F::WORDS - 1) * C);
        let sums = activations.add(F::BLOCK / 4 * C);
        for r in 0..R {
            let scale = L::load_floats(scales[r]);
            for c in 0..C {
                let factor = L::multiply(scale, L::broadcast_float(d.add(c)));
                acc[r][c] = L::fused(L::to_floats(isum[r][c]), factor, acc[r][c]);
            }
            if F::MINIMA == Minima::None {
                continue;
            }
            let minimum = L::load_floats(scales[r].add(L::BYTES));
            for c in 0..C {
                let factor = L::multiply(minimum, L::broadcast_float(d.add(c)));
                if F::MINIMA == Minima::One {
                    acc[r][c] = L::fused(L::broadcast_float(sums.add(c)), factor, acc[r][c]);
                    continue;
                }
                let mut msum = L::zero();
                for j in 0..4 {
                    let minima = L::load(scales[r].add((2 + j) * L::BYTES));
                    msum = L::dot_pairs(msum, minima, L::broadcast(sums.add(j * C + c)));
                }
                acc[r][c] = L::fused_negative(L::to_floats(msum), factor, acc[r][c]);
            }
        }
    }
}
