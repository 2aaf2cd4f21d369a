//! Matrix products: checks, and the way to each layout's kernel.

use crate::elementwise::{gelu_multiply, silu_multiply};
use crate::matrix::expect_length;
use crate::naive;
use crate::output::{Columns, for_rows, run_shares};
use crate::{Isa, KernelError, Matrix, Pool, Scratch};

/// One of several products that share their input: `out[r] = W x[r]` (`+ bias`).
#[derive(Debug)]
pub struct Product<'a> {
    /// `W`, `[rows of W][cols]`.
    pub weights: &'a Matrix,
    /// One value a row of `W`, added last.
    pub bias: Option<&'a [f32]>,
    /// `[rows of the call][rows of W]`.
    pub out: &'a mut [f32],
}

/// What a gate does to its branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Gate {
    /// `silu(gate) · up`, as [`silu_multiply`].
    Silu,
    /// `gelu(gate) · up`, as [`gelu_multiply`].
    Gelu,
}

impl Gate {
    /// `out[i] = gate(gate[i]) · up[i]`.
    pub(crate) fn apply(self, isa: Isa, gate: &[f32], up: &[f32], out: &mut [f32]) {
        match self {
            Self::Silu => silu_multiply(isa, gate, up, out),
            Self::Gelu => gelu_multiply(isa, gate, up, out),
        }
    }
}

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
    matmul_many(pool, &mut [Product { weights, bias, out }], x, rows, scratch)
}

/// Several products of the same rows `x`: the bits of as many calls of [`matmul`], with the rows quantised
/// once a type and the workers called together once.
///
/// # Errors
/// As [`matmul`].
pub fn matmul_many(
    pool: &Pool,
    products: &mut [Product<'_>],
    x: &[f32],
    rows: usize,
    scratch: &mut Scratch,
) -> Result<(), KernelError> {
    products.iter().try_for_each(|product| expect_product(product, x, rows))?;
    if rows == 0 {
        return Ok(());
    }
    run(pool, products, None, x, scratch)
}

/// A gated pair of products, `out[r] = gate(G x[r]) · U x[r]`: the bits of two calls of [`matmul`] and one of
/// the gate's function. `products` are `G` and `U`, whose results stay in their own outputs; `out` is as long
/// as each of these.
///
/// # Errors
/// As [`matmul`], and [`KernelError::Length`] if `G` and `U` differ in rows.
pub fn matmul_gated(
    pool: &Pool,
    products: &mut [Product<'_>; 2],
    gate: Gate,
    x: &[f32],
    rows: usize,
    out: &mut [f32],
    scratch: &mut Scratch,
) -> Result<(), KernelError> {
    products.iter().try_for_each(|product| expect_product(product, x, rows))?;
    expect_length("rows of the gated matrix", products[0].weights.rows(), products[1].weights.rows())?;
    expect_length("gated output", products[0].out.len(), out.len())?;
    if rows == 0 {
        return Ok(());
    }
    run(pool, products, Some(Gated { gate, out, least: None }), x, scratch)
}

/// As [`matmul_gated`], without what the gate lets hardly through: `out[r][i]` is 0 where the magnitude of
/// `gate(G x[r])[i]` is not above `least[r]`, one value a row of the call; a negative one keeps all of its row.
/// Rows of `U` that lie in one strip and count nowhere are not computed, and in its own output mean nothing.
///
/// # Errors
/// As [`matmul_gated`], and [`KernelError::Length`] for another number of least values.
#[expect(clippy::too_many_arguments, reason = "those of a gated product, and the least values")]
pub fn matmul_gated_above(
    pool: &Pool,
    products: &mut [Product<'_>; 2],
    gate: Gate,
    least: &[f32],
    x: &[f32],
    rows: usize,
    out: &mut [f32],
    scratch: &mut Scratch,
) -> Result<(), KernelError> {
    products.iter().try_for_each(|product| expect_product(product, x, rows))?;
    expect_length("rows of the gated matrix", products[0].weights.rows(), products[1].weights.rows())?;
    expect_length("gated output", products[0].out.len(), out.len())?;
    expect_length("least values", rows, least.len())?;
    if rows == 0 {
        return Ok(());
    }
    run(pool, products, Some(Gated { gate, out, least: Some(least) }), x, scratch)
}

/// What becomes of a pair of results.
pub(crate) struct Gated<'a> {
    pub(crate) gate: Gate,
    pub(crate) out: &'a mut [f32],
    /// By row of the call.
    pub(crate) least: Option<&'a [f32]>,
}

/// Values that are gated at a time.
const GATED_AT_ONCE: usize = 8;

/// `out[i] = gate(gate[i]) · up[i]`, 0 where the gate's own magnitude is not above `least`.
fn gate_above(kind: Gate, isa: Isa, least: f32, gate: &[f32], up: &[f32], out: &mut [f32]) {
    let chunks = gate.chunks(GATED_AT_ONCE).zip(up.chunks(GATED_AT_ONCE));
    for ((gate, up), out) in chunks.zip(out.chunks_mut(GATED_AT_ONCE)) {
        let mut through = [0.0; GATED_AT_ONCE];
        let through = &mut through[..gate.len()];
        kind.apply(isa, gate, &[1.0; GATED_AT_ONCE][..gate.len()], through);
        kind.apply(isa, gate, up, out);
        for (out, through) in out.iter_mut().zip(through) {
            if through.abs() <= least {
                *out = 0.0;
            }
        }
    }
}

fn expect_product(product: &Product<'_>, x: &[f32], rows: usize) -> Result<(), KernelError> {
    let Product { weights, bias, ref out } = *product;
    expect_length("matmul input", rows.saturating_mul(weights.cols()), x.len())?;
    expect_length("matmul output", rows.saturating_mul(weights.rows()), out.len())?;
    bias.map_or(Ok(()), |bias| expect_length("matmul bias", weights.rows(), bias.len()))
}

/// Checked products of at least one row. With a gate there are two.
fn run(
    pool: &Pool,
    products: &mut [Product<'_>],
    gated: Option<Gated<'_>>,
    x: &[f32],
    scratch: &mut Scratch,
) -> Result<(), KernelError> {
    #[cfg(target_arch = "x86_64")]
    if products.iter().all(|product| is_packed(product.weights))
        && products.windows(2).all(|pair| pair[0].weights.isa() == pair[1].weights.isa())
    {
        return avx2_products(pool, products, gated, x, scratch);
    }
    for product in products.iter_mut() {
        #[cfg(target_arch = "x86_64")]
        if product.weights.isa() != Isa::Naive {
            avx2_products(pool, std::slice::from_mut(product), None, x, scratch)?;
            continue;
        }
        if product.weights.rows() > 0 {
            naive_product(pool, product, x, scratch)?;
        }
    }
    if let (Some(Gated { gate, out, least }), [first, second]) = (gated, products) {
        let (isa, width) = (first.weights.isa(), first.weights.rows().max(1));
        let (first, second) = (&*first.out, &*second.out);
        for_rows(pool, width, out, &|row, out| {
            let Some(least) = least else {
                let range = row * width..row * width + out.len();
                return gate.apply(isa, &first[range.clone()], &second[range], out);
            };
            for (row, out) in (row..).zip(out.chunks_mut(width)) {
                let range = row * width..(row + 1) * width;
                gate_above(gate, isa, least[row], &first[range.clone()], &second[range], out);
            }
        })?;
    }
    Ok(())
}

/// Whether the weights lie in strips, so that their products can share a call of the pool.
#[cfg(target_arch = "x86_64")]
fn is_packed(weights: &Matrix) -> bool {
    weights.isa() != Isa::Naive && !weights.tensor_type().is_float()
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "enters code that needs a processor feature")]
fn avx2_products(
    pool: &Pool,
    products: &mut [Product<'_>],
    gated: Option<Gated<'_>>,
    x: &[f32],
    scratch: &mut Scratch,
) -> Result<(), KernelError> {
    // SAFETY: a matrix for a vector set is only made after the processor was found to have it.
    unsafe { crate::avx2::matmul::products(pool, products, gated, x, scratch) }
}

/// The specification over rows in file layout, weight rows shared among the workers.
#[expect(unsafe_code, reason = "workers write disjoint columns of one output")]
fn naive_product(
    pool: &Pool,
    product: &mut Product<'_>,
    x: &[f32],
    scratch: &mut Scratch,
) -> Result<(), KernelError> {
    let Product { weights, bias, ref mut out } = *product;
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
