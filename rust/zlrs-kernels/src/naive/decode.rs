//! Blocks of quantised weights, decoded to plain integers and scales.
//!
//! Weight k of a block is `scale * scales[j] * quants[k] + minimum * minima[j]` with `j = k / sub_len`. The
//! sign convention of minima: `minimum` is *added*. Q4_1 stores it that way; Q4_K and Q5_K store `dmin`,
//! which is subtracted, so decoding negates it (exactly).
//!
//! The layouts are those of the GGUF format.

use crate::TensorType;
use half::{bf16, f16};

/// The most weights a block holds.
pub const MAX_BLOCK: usize = 256;
/// The most sub-blocks a block holds.
pub const MAX_SUB_BLOCKS: usize = 16;

/// One block of one row, in plain numbers.
#[derive(Debug, Clone)]
pub struct Block {
    /// Factor of the whole block.
    pub scale: f32,
    /// What each unit of `minima` adds.
    pub minimum: f32,
    /// Weights that share an integer scale: 16 or 32.
    pub sub_len: usize,
    /// Integer factor of each sub-block: 1, or 6-bit (0..=63), or a signed byte.
    pub scales: [i16; MAX_SUB_BLOCKS],
    /// Integer factor of `minimum` for each sub-block: 0..=63.
    pub minima: [i16; MAX_SUB_BLOCKS],
    /// The weights' integers, centred: -128..=127.
    pub quants: [i8; MAX_BLOCK],
}

impl Block {
    /// A block whose weights are all zero.
    pub const ZERO: Self = Self {
        scale: 0.0,
        minimum: 0.0,
        sub_len: 32,
        scales: [1; MAX_SUB_BLOCKS],
        minima: [0; MAX_SUB_BLOCKS],
        quants: [0; MAX_BLOCK],
    };
}

/// Reads one block of file bytes, as many as the type's `block_bytes`.
pub type DecodeBlock = fn(&[u8], &mut Block);

/// How blocks of this type are read; `None` for floating-point types, which have no blocks.
pub const fn decoder(tensor_type: TensorType) -> Option<DecodeBlock> {
    match tensor_type {
        TensorType::F32 | TensorType::F16 | TensorType::BF16 => None,
        TensorType::Q4_0 => Some(q4_0),
        TensorType::Q4_1 => Some(q4_1),
        TensorType::Q5_0 => Some(q5_0),
        TensorType::Q8_0 => Some(q8_0),
        TensorType::Q4K => Some(q4_k),
        TensorType::Q5K => Some(q5_k),
        TensorType::Q6K => Some(q6_k),
    }
}

/// Decodes a whole row of file bytes to the f32 nearest to each exact weight. O(weights).
///
/// The products of scales and integers are exact in f32 for every type (at most 23 significant bits), so
/// only the addition of a minimum rounds.
pub fn decode_row(tensor_type: TensorType, bytes: &[u8], out: &mut [f32]) {
    let Some(decode) = decoder(tensor_type) else {
        decode_float_row(tensor_type, bytes, out);
        return;
    };
    let mut block = Block::ZERO;
    let blocks = bytes.chunks_exact(tensor_type.block_bytes());
    for (bytes, out) in blocks.zip(out.chunks_exact_mut(tensor_type.block_len())) {
        decode(bytes, &mut block);
        for (k, value) in out.iter_mut().enumerate() {
            let j = k / block.sub_len;
            let product = block.scale * f32::from(block.scales[j]) * f32::from(block.quants[k]);
            *value = product + block.minimum * f32::from(block.minima[j]);
        }
    }
}

/// [`decode_row`] for F32, F16 and BF16, each exact.
fn decode_float_row(tensor_type: TensorType, bytes: &[u8], out: &mut [f32]) {
    for (k, value) in out.iter_mut().enumerate() {
        *value = float_at(tensor_type, bytes, k);
    }
}

/// Weight `k` of a row of a floating-point type. Each conversion is exact.
pub fn float_at(tensor_type: TensorType, bytes: &[u8], k: usize) -> f32 {
    match tensor_type {
        TensorType::F32 => {
            f32::from_le_bytes([bytes[4 * k], bytes[4 * k + 1], bytes[4 * k + 2], bytes[4 * k + 3]])
        }
        TensorType::BF16 => bf16::from_le_bytes([bytes[2 * k], bytes[2 * k + 1]]).to_f32(),
        _ => half_at(bytes, 2 * k),
    }
}

fn half_at(bytes: &[u8], offset: usize) -> f32 {
    f16::from_le_bytes([bytes[offset], bytes[offset + 1]]).to_f32()
}

/// Sets what all types of 32 weights share: one scale, no sub-blocks.
fn start_small(block: &mut Block, scale: f32) {
    *block = Block { scale, ..Block::ZERO };
}

/// Bytes: f16 d; 16 bytes of nibbles, weight j low, weight j + 16 high.
fn q4_0(bytes: &[u8], block: &mut Block) {
    start_small(block, half_at(bytes, 0));
    for j in 0..16 {
        let pair = bytes[2 + j];
        block.quants[j] = (pair & 15) as i8 - 8;
        block.quants[j + 16] = (pair >> 4) as i8 - 8;
    }
}

/// Bytes: f16 d; f16 m; 16 bytes of nibbles as in Q4_0, not centred.
fn q4_1(bytes: &[u8], block: &mut Block) {
    start_small(block, half_at(bytes, 0));
    block.minimum = half_at(bytes, 2);
    block.minima[0] = 1;
    for j in 0..16 {
        let pair = bytes[4 + j];
        block.quants[j] = (pair & 15) as i8;
        block.quants[j + 16] = (pair >> 4) as i8;
    }
}

/// Bytes: f16 d; 32 fifth bits, bit j of weight j; 16 bytes of nibbles as in Q4_0.
fn q5_0(bytes: &[u8], block: &mut Block) {
    start_small(block, half_at(bytes, 0));
    let high = u32::from_le_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]);
    let fifth = |k: usize| ((high >> k) & 1) as u8 * 16;
    for j in 0..16 {
        let pair = bytes[6 + j];
        block.quants[j] = ((pair & 15) | fifth(j)) as i8 - 16;
        block.quants[j + 16] = ((pair >> 4) | fifth(j + 16)) as i8 - 16;
    }
}

/// Bytes: f16 d; 32 signed bytes.
fn q8_0(bytes: &[u8], block: &mut Block) {
    start_small(block, half_at(bytes, 0));
    for (quant, &byte) in block.quants.iter_mut().zip(&bytes[2..34]) {
        *quant = byte as i8;
    }
}

/// The twelve bytes of eight 6-bit scales and eight 6-bit minima of Q4_K and Q5_K: the first four of each
/// lie in the low six bits of bytes 0..4 and 4..8; of the last four, the low nibbles lie in bytes 8..12
/// (scale low, minimum high) and the upper two bits on top of the first eight bytes.
fn scales_and_minima(packed: &[u8], block: &mut Block) {
    for j in 0..4 {
        block.scales[j] = i16::from(packed[j] & 63);
        block.minima[j] = i16::from(packed[4 + j] & 63);
        block.scales[4 + j] = i16::from((packed[8 + j] & 15) | ((packed[j] >> 6) << 4));
        block.minima[4 + j] = i16::from((packed[8 + j] >> 4) | ((packed[4 + j] >> 6) << 4));
    }
}

/// Bytes: f16 d; f16 dmin; 12 of scales and minima; 128 of nibbles, sub-blocks 2c and 2c + 1 in the low and
/// high nibbles of bytes 32c..32c + 32.
fn q4_k(bytes: &[u8], block: &mut Block) {
    *block = Block { scale: half_at(bytes, 0), minimum: -half_at(bytes, 2), ..Block::ZERO };
    scales_and_minima(&bytes[4..16], block);
    for (k, quant) in block.quants.iter_mut().enumerate() {
        let (j, l) = (k / 32, k % 32);
        *quant = ((bytes[16 + 32 * (j / 2) + l] >> (4 * (j % 2))) & 15) as i8;
    }
}

/// Bytes: f16 d; f16 dmin; 12 of scales and minima; 32 of fifth bits, bit j of byte l for weight l of
/// sub-block j; 128 of nibbles as in Q4_K.
fn q5_k(bytes: &[u8], block: &mut Block) {
    *block = Block { scale: half_at(bytes, 0), minimum: -half_at(bytes, 2), ..Block::ZERO };
    scales_and_minima(&bytes[4..16], block);
    for (k, quant) in block.quants.iter_mut().enumerate() {
        let (j, l) = (k / 32, k % 32);
        let low = (bytes[48 + 32 * (j / 2) + l] >> (4 * (j % 2))) & 15;
        let fifth = (bytes[16 + l] >> j) & 1;
        *quant = (low | (fifth << 4)) as i8;
    }
}

/// Bytes: 128 of low nibbles; 64 of upper bit pairs; 16 signed scales; f16 d. Each half of 128 weights has
/// four runs of 32: nibbles low, low, high, high of two times 32 bytes, bit pair `run` of 32 bytes.
fn q6_k(bytes: &[u8], block: &mut Block) {
    *block = Block { scale: half_at(bytes, 208), sub_len: 16, ..Block::ZERO };
    for (scale, &byte) in block.scales.iter_mut().zip(&bytes[192..208]) {
        *scale = i16::from(byte as i8);
    }
    for (k, quant) in block.quants.iter_mut().enumerate() {
        let (half, run, l) = (k / 128, k % 128 / 32, k % 32);
        let low = (bytes[64 * half + 32 * (run % 2) + l] >> (4 * (run / 2))) & 15;
        let high = (bytes[128 + 32 * half + l] >> (2 * run)) & 3;
        *quant = (low | (high << 4)) as i8 - 32;
    }
}
