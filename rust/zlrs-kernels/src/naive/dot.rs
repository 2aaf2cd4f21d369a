//! Dot products of one weight row with activation rows.

use super::decode::{Block, DecodeBlock, float_at};
use super::quantise::Activations;
use crate::TensorType;

/// Virtual lanes of a sum over floating-point weights.
pub const FLOAT_LANES: usize = 8;

/// Adds one block to an accumulator.
///
/// The sum inside the block, sub-block scales included, is an exact integer: at most
/// 16 * 16 * 32 * 127 * 128 = 1.4e8 (Q6_K), so it fits i32. It is rounded to f32 once, then
/// `acc = fma(f32(isum), scale * d, acc)`, and for types with minima
/// `acc = fma(f32(msum), minimum * d, acc)`.
pub fn block_dot(block: &Block, has_minima: bool, q: &[i8], d: f32, acc: f32) -> f32 {
    let (mut isum, mut msum) = (0_i32, 0_i32);
    for (j, q) in q.chunks(block.sub_len).enumerate() {
        let weights = &block.quants[j * block.sub_len..];
        let dot: i32 = q.iter().zip(weights).map(|(&a, &w)| i32::from(a) * i32::from(w)).sum();
        let sum: i32 = q.iter().map(|&a| i32::from(a)).sum();
        isum += i32::from(block.scales[j]) * dot;
        msum += i32::from(block.minima[j]) * sum;
    }
    let acc = (isum as f32).mul_add(block.scale * d, acc);
    if has_minima { (msum as f32).mul_add(block.minimum * d, acc) } else { acc }
}

/// Whether the type adds a second term per block.
pub const fn has_minima(tensor_type: TensorType) -> bool {
    matches!(tensor_type, TensorType::Q4_1 | TensorType::Q4K | TensorType::Q5K)
}

/// One quantised weight row (file bytes) times the activation rows from `first_row` on: one f32 accumulator
/// per activation row, blocks ascending. Each block is decoded once for all of them.
pub fn quantised_dot(
    tensor_type: TensorType,
    decode: DecodeBlock,
    weights: &[u8],
    activations: &Activations,
    first_row: usize,
    out: &mut [f32],
) {
    let mut block = Block::ZERO;
    out.fill(0.0);
    for (b, bytes) in weights.chunks_exact(tensor_type.block_bytes()).enumerate() {
        decode(bytes, &mut block);
        for (i, acc) in out.iter_mut().enumerate() {
            let row = first_row + i;
            let (q, d) = (activations.quants(row, b), activations.scale(row, b));
            *acc = block_dot(&block, has_minima(tensor_type), q, d, *acc);
        }
    }
}

/// One floating-point weight row (file bytes) times `x`.
///
/// Lane `k % 8` takes `fma(w[k], x[k], lane)` in ascending order; a row that does not fill its last 8 counts
/// as filled up with zeros. Then [`sum_lanes`].
pub fn float_dot(tensor_type: TensorType, weights: &[u8], x: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; FLOAT_LANES];
    for start in (0..x.len()).step_by(FLOAT_LANES) {
        for (l, lane) in lanes.iter_mut().enumerate() {
            let k = start + l;
            let (w, x) = if k < x.len() { (float_at(tensor_type, weights, k), x[k]) } else { (0.0, 0.0) };
            *lane = w.mul_add(x, *lane);
        }
    }
    sum_lanes(lanes)
}

/// The fixed tree: distance 4, then 2, then 1.
pub fn sum_lanes(lanes: [f32; FLOAT_LANES]) -> f32 {
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}
