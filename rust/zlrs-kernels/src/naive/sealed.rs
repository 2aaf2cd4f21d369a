//! Keys and values of a complete block in 8 or 4 bits: the specification of `cuda/kernels/seal_kv.cu`.
//!
//! A block of [`BLOCK_TOKENS`] positions is sealed when all of them are there. What a KV head has in it, `dim` keys
//! and values a position, is replaced in its own place, the first bytes of the f16 form:
//!
//! * keys: a factor and a minimum (f16 each) for each of the `dim` channels, then the codes,
//!   `[dim][BLOCK_TOKENS]`. A channel's positions share them, so that what all keys of a channel have in common (the
//!   bias of the projection, which in some models is hundreds of times what tells keys apart) costs no codes.
//! * values: a factor and a minimum for each [`VALUE_GROUP`] dimensions of a position, `[BLOCK_TOKENS][groups]`, then
//!   the codes, `[BLOCK_TOKENS][dim]`. Values have no such channels, but positions of different sizes.
//!
//! Codes of 4 bits lie two in a byte, the even one low. A number is `fma(code, factor, minimum)` in f32.
//!
//! Grouping keys by channel and values by position follows KIVI (arXiv 2402.02750).

use super::kv::{from_half, to_half};
use crate::kv::BLOCK_TOKENS;

/// Dimensions of a value that share a factor and a minimum.
pub const VALUE_GROUP: usize = 32;

/// f16 bits of a factor whose numbers cannot be told: some of them were infinite or NaN.
const NO_FACTOR: u16 = 0x7e00;

/// Bits of a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeBits {
    /// Two in a byte.
    Four,
    /// One in a byte.
    Eight,
}

impl CodeBits {
    const fn steps(self) -> f32 {
        match self {
            Self::Four => 15.0,
            Self::Eight => 255.0,
        }
    }

    const fn of_byte(self) -> usize {
        match self {
            Self::Four => 2,
            Self::Eight => 1,
        }
    }

    fn put(self, codes: &mut [u8], index: usize, code: u8) {
        match self {
            Self::Eight => codes[index] = code,
            Self::Four => {
                codes[index / 2] = codes[index / 2] & (0xf0 >> (index % 2 * 4)) | code << (index % 2 * 4);
            }
        }
    }

    fn get(self, codes: &[u8], index: usize) -> u8 {
        match self {
            Self::Eight => codes[index],
            Self::Four => codes[index / 2] >> (index % 2 * 4) & 15,
        }
    }
}

/// Bytes that a KV head's keys of a block take, and its values, when sealed. The f16 form takes
/// `2 · BLOCK_TOKENS · dim` for each; `dim` is a multiple of 8.
#[must_use]
pub const fn sealed_bytes(bits: CodeBits, dim: usize) -> (usize, usize) {
    let codes = BLOCK_TOKENS * dim / bits.of_byte();
    (4 * dim + codes, 4 * BLOCK_TOKENS * dim.div_ceil(VALUE_GROUP) + codes)
}

/// The factor and the minimum (f16 bits) of some f16 numbers, and what their codes are.
fn factors(bits: CodeBits, numbers: impl Iterator<Item = u16> + Clone) -> (u16, u16) {
    let numbers = numbers.map(from_half);
    if numbers.clone().any(|number| !number.is_finite()) {
        return (NO_FACTOR, 0);
    }
    let low = numbers.clone().fold(f32::INFINITY, f32::min) + 0.0;
    let high = numbers.fold(f32::NEG_INFINITY, f32::max);
    (to_half((high - low) / bits.steps()), to_half(low))
}

fn code(bits: CodeBits, number: u16, (factor, minimum): (u16, u16)) -> u8 {
    let factor = from_half(factor);
    if factor > 0.0 {
        ((from_half(number) - from_half(minimum)) / factor).round_ties_even().min(bits.steps()) as u8
    } else {
        0
    }
}

fn put_half(region: &mut [u8], index: usize, half: u16) {
    region[2 * index..2 * index + 2].copy_from_slice(&half.to_le_bytes());
}

fn half_at(region: &[u8], index: usize) -> f32 {
    from_half(u16::from_le_bytes([region[2 * index], region[2 * index + 1]]))
}

/// Seals keys `[dim][BLOCK_TOKENS]` into the first bytes of `region`. O(keys).
pub fn seal_keys(bits: CodeBits, keys: &[u16], region: &mut [u8]) {
    let dim = keys.len() / BLOCK_TOKENS;
    for (channel, keys) in keys.chunks_exact(BLOCK_TOKENS).enumerate() {
        let factors = factors(bits, keys.iter().copied());
        put_half(region, 2 * channel, factors.0);
        put_half(region, 2 * channel + 1, factors.1);
        for (position, &key) in keys.iter().enumerate() {
            let index = channel * BLOCK_TOKENS + position;
            bits.put(&mut region[4 * dim..], index, code(bits, key, factors));
        }
    }
}

/// Seals values `[BLOCK_TOKENS][dim]` into the first bytes of `region`. O(values).
pub fn seal_values(bits: CodeBits, values: &[u16], region: &mut [u8]) {
    let dim = values.len() / BLOCK_TOKENS;
    let groups = dim.div_ceil(VALUE_GROUP);
    for (position, values) in values.chunks_exact(dim).enumerate() {
        for (group, numbers) in values.chunks(VALUE_GROUP).enumerate() {
            let factors = factors(bits, numbers.iter().copied());
            let at = position * groups + group;
            put_half(region, 2 * at, factors.0);
            put_half(region, 2 * at + 1, factors.1);
            for (offset, &number) in numbers.iter().enumerate() {
                let index = position * dim + group * VALUE_GROUP + offset;
                let codes = &mut region[4 * BLOCK_TOKENS * groups..];
                bits.put(codes, index, code(bits, number, factors));
            }
        }
    }
}

/// The key of a position in a channel of sealed keys.
#[must_use]
pub fn key_at(bits: CodeBits, region: &[u8], dim: usize, position: usize, channel: usize) -> f32 {
    let code = bits.get(&region[4 * dim..], channel * BLOCK_TOKENS + position);
    f32::from(code).mul_add(half_at(region, 2 * channel), half_at(region, 2 * channel + 1))
}

/// The value of a position in a dimension of sealed values.
#[must_use]
pub fn value_at(bits: CodeBits, region: &[u8], dim: usize, position: usize, index: usize) -> f32 {
    let groups = dim.div_ceil(VALUE_GROUP);
    let at = position * groups + index / VALUE_GROUP;
    let code = bits.get(&region[4 * BLOCK_TOKENS * groups..], position * dim + index);
    f32::from(code).mul_add(half_at(region, 2 * at), half_at(region, 2 * at + 1))
}

/// Makes sealed keys f16 again, each rounded to nearest even: `[dim][BLOCK_TOKENS]`. O(keys).
pub fn open_keys(bits: CodeBits, region: &[u8], keys: &mut [u16]) {
    let dim = keys.len() / BLOCK_TOKENS;
    for (index, key) in keys.iter_mut().enumerate() {
        *key = to_half(key_at(bits, region, dim, index % BLOCK_TOKENS, index / BLOCK_TOKENS));
    }
}

/// Makes sealed values f16 again, each rounded to nearest even: `[BLOCK_TOKENS][dim]`. O(values).
pub fn open_values(bits: CodeBits, region: &[u8], values: &mut [u16]) {
    let dim = values.len() / BLOCK_TOKENS;
    for (index, value) in values.iter_mut().enumerate() {
        *value = to_half(value_at(bits, region, dim, index / dim, index % dim));
    }
}
