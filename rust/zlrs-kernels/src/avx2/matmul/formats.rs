//! The formats by their type, and packing rows into strips.

use super::format::{Format, STRIP_ROWS};
use super::q4_0::Q4_0;
use super::q4_1::Q4_1;
use super::q4_k::Q4K;
use super::q5_0::Q5_0;
use super::q5_k::Q5K;
use super::q6_k::Q6K;
use super::q8_0::Q8_0;
use crate::TensorType;

/// Calls a generic function with the format of a tensor type, or takes the other way for floating types.
macro_rules! with_format {
    ($tensor_type:expr, $function:ident($($argument:expr),*), float => $float:expr) => {
        match $tensor_type {
            TensorType::F32 | TensorType::F16 | TensorType::BF16 => $float,
            TensorType::Q4_0 => $function::<Q4_0>($($argument),*),
            TensorType::Q4_1 => $function::<Q4_1>($($argument),*),
            TensorType::Q5_0 => $function::<Q5_0>($($argument),*),
            TensorType::Q8_0 => $function::<Q8_0>($($argument),*),
            TensorType::Q4K => $function::<Q4K>($($argument),*),
            TensorType::Q5K => $function::<Q5K>($($argument),*),
            TensorType::Q6K => $function::<Q6K>($($argument),*),
        }
    };
}

/// Packs up to 8 file rows per strip into zeroed strips. Rows missing from the last strip stay zero.
/// `file_rows` holds whole rows of `row_bytes`.
pub(crate) fn pack_strips(tensor_type: TensorType, file_rows: &[u8], row_bytes: usize, strips: &mut [u8]) {
    with_format!(tensor_type, pack_format(file_rows, row_bytes, strips), float => ());
}

fn pack_format<F: Format>(file_rows: &[u8], row_bytes: usize, strips: &mut [u8]) {
    let rows_of_strips = file_rows.chunks(STRIP_ROWS * row_bytes);
    for (rows, strip) in rows_of_strips.zip(strips.chunks_exact_mut(STRIP_ROWS * row_bytes)) {
        for (row, bytes) in rows.chunks_exact(row_bytes).enumerate() {
            let blocks = bytes.chunks_exact(F::TENSOR_TYPE.block_bytes());
            for (block, packed) in blocks.zip(strip.chunks_exact_mut(F::STRIP_BLOCK)) {
                F::pack(block, row, packed);
            }
        }
    }
}

/// Hands the blocks of one row to `take(index, file bytes)`, in order, as they were in the file.
pub(crate) fn unpack_row(
    tensor_type: TensorType,
    strips: &[u8],
    row_bytes: usize,
    row: usize,
    take: &mut dyn FnMut(usize, &[u8]),
) {
    with_format!(tensor_type, unpack_format(strips, row_bytes, row, take), float => ());
}

fn unpack_format<F: Format>(strips: &[u8], row_bytes: usize, row: usize, take: &mut dyn FnMut(usize, &[u8])) {
    let mut block = [0; TensorType::MAX_BLOCK_BYTES];
    let block = &mut block[..F::TENSOR_TYPE.block_bytes()];
    let strip = &strips[row / STRIP_ROWS * STRIP_ROWS * row_bytes..][..STRIP_ROWS * row_bytes];
    for (i, packed) in strip.chunks_exact(F::STRIP_BLOCK).enumerate() {
        F::unpack(packed, row % STRIP_ROWS, block);
        take(i, block);
    }
}

pub(crate) use with_format;
