//! Activation functions and elementwise arithmetic.
//!
//! All go through [`exp`]: its limits (0 and infinity) carry them to their own limits without a special case.
//! Negative infinity times zero gives NaN, as it should: an infinite activation is an error upstream.

use super::exponential::exp;

/// `-2 · sqrt(2 / pi)`.
pub(crate) const GELU_SCALE: f32 = -1.595_769;
/// The cubic coefficient of GELU's tanh form.
pub(crate) const GELU_CUBIC: f32 = 0.044_715;

/// `x · sigmoid(x)`, as `x / (1 + exp(-x))`.
pub fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

/// GELU in its tanh form, `x/2 · (1 + tanh(sqrt(2/pi) · (x + 0.044715 x^3)))`.
///
/// Since `(1 + tanh u) / 2 = 1 / (1 + exp(-2u))` it is computed as `x / (1 + exp(x · s · (1 + c x^2)))` with
/// `s = -2 sqrt(2/pi)`.
pub fn gelu(x: f32) -> f32 {
    let cubic = (x * x).mul_add(GELU_CUBIC, 1.0);
    x / (1.0 + exp((x * GELU_SCALE) * cubic))
}

/// `cap · tanh(x / cap)`, by `tanh |y| = (1 - e) / (1 + e)` with `e = exp(-2 |y|)` and the sign of `x`.
pub fn softcap(x: f32, cap: f32) -> f32 {
    let e = exp(-2.0 * (x / cap).abs());
    (cap * ((1.0 - e) / (1.0 + e))).copysign(x)
}

/// `out[i] = silu(gate[i]) · up[i]`.
pub fn silu_multiply(gate: &[f32], up: &[f32], out: &mut [f32]) {
    for ((out, &gate), &up) in out.iter_mut().zip(gate).zip(up) {
        *out = silu(gate) * up;
    }
}

/// `out[i] = gelu(gate[i]) · up[i]`.
pub fn gelu_multiply(gate: &[f32], up: &[f32], out: &mut [f32]) {
    for ((out, &gate), &up) in out.iter_mut().zip(gate).zip(up) {
        *out = gelu(gate) * up;
    }
}

/// `out[i] = out[i] + x[i]`.
pub fn add(x: &[f32], out: &mut [f32]) {
    for (out, &x) in out.iter_mut().zip(x) {
        *out += x;
    }
}

/// `x[i] = x[i] · factor`.
pub fn scale(factor: f32, x: &mut [f32]) {
    for x in x {
        *x *= factor;
    }
}

/// `x[i] = softcap(x[i], cap)`.
pub fn softcap_all(cap: f32, x: &mut [f32]) {
    for x in x {
        *x = softcap(*x, cap);
    }
}
