//! Random weights in every storage type: valid blocks whose values spread about as a trained model's.

use half::{bf16, f16};
use zlrs_kernels::TensorType;

use super::random::Random;

/// `rows × cols` weights of mean about 0 and standard deviation about `deviation`, in the file's form.
pub(super) fn random(
    random: &mut Random,
    tensor_type: TensorType,
    rows: usize,
    cols: usize,
    deviation: f32,
) -> Vec<u8> {
    let blocks = rows * (cols / tensor_type.block_len());
    let mut bytes = vec![0; blocks * tensor_type.block_bytes()];
    for block in bytes.chunks_exact_mut(tensor_type.block_bytes()) {
        fill_block(random, tensor_type, block, deviation);
    }
    bytes
}

/// `count` numbers of `center ± spread`, as F32.
pub(super) fn vector(random: &mut Random, count: usize, center: f32, spread: f32) -> Vec<u8> {
    (0..count).flat_map(|_| random.between(center - spread, center + spread).to_le_bytes()).collect()
}

fn fill_block(random: &mut Random, tensor_type: TensorType, block: &mut [u8], deviation: f32) {
    /// √3: a uniform number of ±√3·σ has deviation σ.
    const UNIFORM: f32 = 1.732;
    /// Deviations of uniform quants of 16, 32, 64 and 255 steps.
    const QUANT_4: f32 = 4.61;
    const QUANT_5: f32 = 9.23;
    const QUANT_6: f32 = 18.47;
    const QUANT_8: f32 = 73.3;
    /// Mean of an unsigned 6-bit sub-block scale, deviation of a signed 8-bit one.
    const SCALE_6: f32 = 31.5;
    const SCALE_8: f32 = 73.9;
    let jitter = random.between(0.5, 1.5);
    let value = random.between(-UNIFORM, UNIFORM) * deviation;
    match tensor_type {
        TensorType::F32 => block.copy_from_slice(&value.to_le_bytes()),
        TensorType::F16 => put(block, 0, value),
        TensorType::BF16 => block.copy_from_slice(&bf16::from_f32(value).to_le_bytes()),
        TensorType::Q4_0 => {
            random.fill(block);
            put(block, 0, jitter * deviation / QUANT_4);
        }
        TensorType::Q4_1 => {
            random.fill(block);
            let scale = jitter * deviation / QUANT_4;
            put(block, 0, scale);
            put(block, 2, -7.5 * scale * random.between(0.8, 1.2));
        }
        TensorType::Q5_0 => {
            random.fill(block);
            put(block, 0, jitter * deviation / QUANT_5);
        }
        TensorType::Q8_0 => {
            random.fill(block);
            put(block, 0, jitter * deviation / QUANT_8);
        }
        TensorType::Q4K => {
            random.fill(block);
            let scale = jitter * deviation / (QUANT_4 * SCALE_6);
            put(block, 0, scale);
            put(block, 2, 7.5 * scale);
        }
        TensorType::Q5K => {
            random.fill(block);
            let scale = jitter * deviation / (QUANT_5 * SCALE_6);
            put(block, 0, scale);
            put(block, 2, 15.5 * scale);
        }
        TensorType::Q6K => {
            random.fill(block);
            put(block, 208, jitter * deviation / (QUANT_6 * SCALE_8));
        }
    }
}

fn put(block: &mut [u8], at: usize, value: f32) {
    block[at..at + 2].copy_from_slice(&f16::from_f32(value).to_le_bytes());
}
