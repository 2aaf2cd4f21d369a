//! Gates, sixteen at a time; the last few by AVX2's functions.

use core::arch::x86_64::*;

use super::exponential::exp;
use crate::avx2::activation as narrow;
use crate::naive::activation::{GELU_CUBIC, GELU_SCALE};

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
#[inline]
fn silu(x: __m512) -> __m512 {
    let minus = _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(x), _mm512_set1_epi32(i32::MIN)));
    _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0), exp(minus)))
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
#[inline]
fn gelu(x: __m512) -> __m512 {
    let one = _mm512_set1_ps(1.0);
    let cubic = _mm512_fmadd_ps(_mm512_mul_ps(x, x), _mm512_set1_ps(GELU_CUBIC), one);
    let e = exp(_mm512_mul_ps(_mm512_mul_ps(x, _mm512_set1_ps(GELU_SCALE)), cubic));
    _mm512_div_ps(x, _mm512_add_ps(one, e))
}

macro_rules! gate {
    ($name:ident, $function:ident) => {
        /// The three slices have equal lengths.
        #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
        pub(crate) fn $name(gate: &[f32], up: &[f32], out: &mut [f32]) {
            let ((gates, gate), (ups, up)) = (gate.as_chunks::<16>(), up.as_chunks::<16>());
            let (outs, out) = out.as_chunks_mut::<16>();
            for ((out, gate), up) in outs.iter_mut().zip(gates).zip(ups) {
                // SAFETY: each array has the 64 bytes that are read or written.
                unsafe {
                    let gate = $function(_mm512_loadu_ps(gate.as_ptr()));
                    let product = _mm512_mul_ps(gate, _mm512_loadu_ps(up.as_ptr()));
                    _mm512_storeu_ps(out.as_mut_ptr(), product);
                }
            }
            narrow::$name(gate, up, out);
        }
    };
}

gate!(silu_multiply, silu);
gate!(gelu_multiply, gelu);
