//! Matrix products: checks, and the way to each layout's kernel.

use crate::matrix::expect_length;
use crate::naive;
use crate::output::{Columns, run_shares};
use crate::{KernelError, Matrix, Pool, Scratch};

/// `out[r] = W x[r]` (`+ bias`) for each of `rows` rows: `x` is `[rows][W.cols]`, `bias` `[W.rows]`, `out`
/// `[rows][W.rows]`. O(rows * W.rows * W.cols).
///
/// The bits of a row's result depend on that row, the weights and the bias alone. A NaN or an infinity in a
/// row of `x` never gives a finite result in that row (with quantised weights: NaN everywhere); the sign and
/// payload of a NaN are not specified.
///
/// # Errors
/// [`KernelError::Length`] if a slice does not fit the shapes, and the pool's errors. Refused calls write
/// nothing; after an error of the pool the contents of `out` mean nothing.
pub fn matmul(
    pool: &Pool,
    weights: &Matrix,
    x: &[f32],
    rows: usize,
    bias: Option<&[f32]>,
    out: &mut [f32],
    scratch: &mut Scratch,
) -> Result<(), KernelError> {
    expect_product("matmul input", rows, weights.cols(), x.len())?;
    expect_product("matmul output", rows, weights.rows(), out.len())?;
    if let Some(bias) = bias {
        expect_length("matmul bias", weights.rows(), bias.len())?;
    }
    if out.is_empty() {
        return Ok(());
    }
    match weights.isa() {
        #[cfg(target_arch = "x86_64")]
        crate::Isa::Avx2 => avx2_product(pool, weights, x, bias, out, scratch),
        _ => naive_product(pool, weights, x, bias, out, scratch),
    }
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "enters code that needs a processor feature")]
fn avx2_product(
    pool: &Pool,
    weights: &Matrix,
    x: &[f32],
    bias: Option<&[f32]>,
    out: &mut [f32],
    scratch: &mut Scratch,
) -> Result<(), KernelError> {
    // SAFETY: a matrix for AVX2 is only made after the processor was found to have AVX2, FMA and F16C.
    unsafe { crate::avx2::matmul::product(pool, weights, x, bias, out, scratch) }
}

fn expect_product(what: &'static str, rows: usize, width: usize, given: usize) -> Result<(), KernelError> {
    expect_length(what, rows.saturating_mul(width), given)
}

/// The specification over rows in file layout, weight rows shared among the workers.
#[expect(unsafe_code, reason = "workers write disjoint columns of one output")]
fn naive_product(
    pool: &Pool,
    weights: &Matrix,
    x: &[f32],
    bias: Option<&[f32]>,
    out: &mut [f32],
    scratch: &mut Scratch,
) -> Result<(), KernelError> {
    let tensor_type = weights.tensor_type();
    let activations = &mut scratch.activations;
    if !tensor_type.is_float() {
        activations.quantise(x, weights.cols(), tensor_type.block_len());
    }
    let row_bytes = weights.data().len() / weights.rows();
    let columns = Columns::new(out, weights.rows());
    let activations = &*activations;
    run_shares(pool, weights.rows(), x.len().saturating_mul(weights.rows()), &|shares| {
        for i in shares {
            let bytes = &weights.data()[i * row_bytes..(i + 1) * row_bytes];
            naive::matmul::product_row(tensor_type, bytes, x, activations, |row, value| {
                // SAFETY: column i exists in every row and belongs to this worker alone, one at a time.
                let target = unsafe { columns.segment(row, i..i + 1) };
                target[0] = bias.map_or(value, |bias| value + bias[i]);
            });
        }
    })
}
