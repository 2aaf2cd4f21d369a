//! Rounding of keys and values to f16.

use half::f16;

use crate::kv::BLOCK_TOKENS;

/// The f16 nearest to `x`, ties to even, as its bits. Beyond the range infinity; a NaN keeps its sign and the
/// upper bits of its payload and becomes quiet.
pub fn to_half(x: f32) -> u16 {
    f16::from_f32_const(x).to_bits()
}

/// The value of f16 bits, exactly.
pub fn from_half(bits: u16) -> f32 {
    f16::from_bits(bits).to_f32_const()
}

/// Writes a key to one position of `keys`, `[dimension][position]`.
pub fn store_key(key: &[f32], slot: usize, keys: &mut [u16]) {
    for (positions, &x) in keys.chunks_exact_mut(BLOCK_TOKENS).zip(key) {
        positions[slot] = to_half(x);
    }
}

/// Writes a value, `[dimension]`.
pub fn store_value(value: &[f32], values: &mut [u16]) {
    for (out, &x) in values.iter_mut().zip(value) {
        *out = to_half(x);
    }
}
