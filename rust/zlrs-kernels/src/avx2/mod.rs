//! AVX2 paths, each equal to [`naive`](crate::naive) bit for bit.
//!
//! Everything here needs AVX2, FMA and F16C. Functions carry `#[target_feature(enable = "avx2,fma,f16c")]`,
//! so calling one from code without those features is `unsafe`; the callers outside this folder do it only
//! after [`Isa::runs_avx2`](crate::Isa) or with a value that proves the check was made.
#![allow(unsafe_code, reason = "vector intrinsics on raw pointers; every block says why it is sound")]
#![allow(clippy::inline_always, reason = "code must be compiled with its caller's features")]

pub(crate) mod activation;
pub(crate) mod attention;
pub(crate) mod draw;
pub(crate) mod exponential;
pub(crate) mod float;
pub(crate) mod kv;
pub(crate) mod matmul;
pub(crate) mod norm;
pub(crate) mod rope;
