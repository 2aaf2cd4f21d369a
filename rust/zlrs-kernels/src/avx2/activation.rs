//! Activations and elementwise arithmetic, eight at a time; the last few by the scalar functions.

use core::arch::x86_64::{
    __m256, _mm256_add_ps, _mm256_and_ps, _mm256_andnot_ps, _mm256_div_ps, _mm256_fmadd_ps, _mm256_mul_ps,
    _mm256_or_ps, _mm256_set1_ps, _mm256_sub_ps, _mm256_xor_ps,
};

use super::exponential::exp;
use super::float::{load, store};
use crate::naive::activation::{self as scalar, GELU_CUBIC, GELU_SCALE};

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn silu(x: __m256) -> __m256 {
    let e = exp(_mm256_xor_ps(x, _mm256_set1_ps(-0.0)));
    _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0), e))
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn gelu(x: __m256) -> __m256 {
    let one = _mm256_set1_ps(1.0);
    let cubic = _mm256_fmadd_ps(_mm256_mul_ps(x, x), _mm256_set1_ps(GELU_CUBIC), one);
    let e = exp(_mm256_mul_ps(_mm256_mul_ps(x, _mm256_set1_ps(GELU_SCALE)), cubic));
    _mm256_div_ps(x, _mm256_add_ps(one, e))
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn softcap(x: __m256, cap: __m256) -> __m256 {
    let (one, sign) = (_mm256_set1_ps(1.0), _mm256_set1_ps(-0.0));
    let magnitude = _mm256_andnot_ps(sign, _mm256_div_ps(x, cap));
    let e = exp(_mm256_mul_ps(_mm256_set1_ps(-2.0), magnitude));
    let tanh = _mm256_div_ps(_mm256_sub_ps(one, e), _mm256_add_ps(one, e));
    _mm256_or_ps(_mm256_andnot_ps(sign, _mm256_mul_ps(cap, tanh)), _mm256_and_ps(sign, x))
}

/// The three slices have equal lengths.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn silu_multiply(gate: &[f32], up: &[f32], out: &mut [f32]) {
    let ((gates, gate), (ups, up)) = (gate.as_chunks(), up.as_chunks());
    let (outs, out) = out.as_chunks_mut();
    for ((out, gate), up) in outs.iter_mut().zip(gates).zip(ups) {
        store(out, _mm256_mul_ps(silu(load(gate)), load(up)));
    }
    scalar::silu_multiply(gate, up, out);
}

/// The three slices have equal lengths.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn gelu_multiply(gate: &[f32], up: &[f32], out: &mut [f32]) {
    let ((gates, gate), (ups, up)) = (gate.as_chunks(), up.as_chunks());
    let (outs, out) = out.as_chunks_mut();
    for ((out, gate), up) in outs.iter_mut().zip(gates).zip(ups) {
        store(out, _mm256_mul_ps(gelu(load(gate)), load(up)));
    }
    scalar::gelu_multiply(gate, up, out);
}

/// The slices have equal lengths.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn add(x: &[f32], out: &mut [f32]) {
    let (chunks, x) = x.as_chunks();
    let (outs, out) = out.as_chunks_mut();
    for (out, x) in outs.iter_mut().zip(chunks) {
        store(out, _mm256_add_ps(load(out), load(x)));
    }
    scalar::add(x, out);
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn scale(factor: f32, x: &mut [f32]) {
    let (chunks, x) = x.as_chunks_mut();
    for chunk in chunks {
        store(chunk, _mm256_mul_ps(load(chunk), _mm256_set1_ps(factor)));
    }
    scalar::scale(factor, x);
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn softcap_all(cap: f32, x: &mut [f32]) {
    let (chunks, x) = x.as_chunks_mut();
    for chunk in chunks {
        store(chunk, softcap(load(chunk), _mm256_set1_ps(cap)));
    }
    scalar::softcap_all(cap, x);
}
