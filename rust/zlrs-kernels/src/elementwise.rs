//! Norms, activations and elementwise arithmetic on rows of f32.
//!
//! All run on the calling thread in O(length); a caller with many rows shares them out over its pool. Slices
//! of one call have equal lengths: like [`slice::copy_from_slice`], the functions panic otherwise.
//!
//! NaN in gives NaN out; only its payload is left open. No rounding mode, flush-to-zero or denormals-are-zero
//! setting other than the processor's default is supported: with another one the two instruction sets still
//! agree, but the bits are not those of the specification.

use crate::Isa;
use crate::dispatch::{dispatch, dispatch_wide};

/// Root-mean-square norm of one row or one head: `out[i] = x[i] / sqrt(mean(x^2) + epsilon) · weight[i]`.
///
/// # Panics
/// If the lengths differ.
pub fn rms_norm(isa: Isa, x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
    assert_eq!(x.len(), weight.len(), "rms_norm: lengths of x and weight");
    assert_eq!(x.len(), out.len(), "rms_norm: lengths of x and out");
    dispatch!(isa, norm::rms_norm(x, weight, epsilon, out));
}

/// As [`rms_norm`], in place; the same bits.
///
/// # Panics
/// If the lengths differ.
pub fn rms_norm_in_place(isa: Isa, x: &mut [f32], weight: &[f32], epsilon: f32) {
    assert_eq!(x.len(), weight.len(), "rms_norm_in_place: lengths of x and weight");
    dispatch!(isa, norm::rms_norm_in_place(x, weight, epsilon));
}

/// `out[i] = silu(gate[i]) · up[i]` with `silu(x) = x / (1 + exp(-x))`.
///
/// # Panics
/// If the lengths differ.
pub fn silu_multiply(isa: Isa, gate: &[f32], up: &[f32], out: &mut [f32]) {
    assert_eq!(gate.len(), up.len(), "silu_multiply: lengths of gate and up");
    assert_eq!(gate.len(), out.len(), "silu_multiply: lengths of gate and out");
    dispatch_wide!(isa, activation::silu_multiply(gate, up, out));
}

/// `out[i] = gelu(gate[i]) · up[i]`, GELU in its tanh form.
///
/// # Panics
/// If the lengths differ.
pub fn gelu_multiply(isa: Isa, gate: &[f32], up: &[f32], out: &mut [f32]) {
    assert_eq!(gate.len(), up.len(), "gelu_multiply: lengths of gate and up");
    assert_eq!(gate.len(), out.len(), "gelu_multiply: lengths of gate and out");
    dispatch_wide!(isa, activation::gelu_multiply(gate, up, out));
}

/// `out[i] += x[i]`.
///
/// # Panics
/// If the lengths differ.
pub fn add(isa: Isa, x: &[f32], out: &mut [f32]) {
    assert_eq!(x.len(), out.len(), "add: lengths of x and out");
    dispatch!(isa, activation::add(x, out));
}

/// `x[i] *= factor`.
pub fn scale(isa: Isa, factor: f32, x: &mut [f32]) {
    dispatch!(isa, activation::scale(factor, x));
}

/// `x[i] = cap · tanh(x[i] / cap)`, for `cap > 0`. The absolute error is at most `3e-7 · cap`.
pub fn softcap(isa: Isa, cap: f32, x: &mut [f32]) {
    dispatch!(isa, activation::softcap_all(cap, x));
}

/// `x[i] = e^x[i]`, within 1 unit in the last place; exactly 0 where the result would be subnormal, infinity
/// where it would overflow.
pub fn exp(isa: Isa, x: &mut [f32]) {
    dispatch_wide!(isa, exponential::exp_all(x));
}
