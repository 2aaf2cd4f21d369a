//! Matrix products.
//!
//! Quantised weights lie in strips of 8 rows, a vector lane being a row ([`format`] describes the scheme, one
//! file each the types). [`gemv`] takes few columns and is bound by memory, [`gemm`] takes many and is bound
//! by arithmetic; both run the same steps in the same order for each result. Floating-point weights keep the
//! file's rows ([`float_products`]).
#![allow(clippy::inline_always, reason = "the kernels' steps must become one loop body, whatever its size")]
#![allow(clippy::needless_range_loop, reason = "tiles are indexed by strip and column")]
#![allow(clippy::wildcard_imports, reason = "intrinsics, a dozen a file")]

mod activations;
mod fifth_bits;
mod float_products;
pub(crate) mod format;
pub(crate) mod formats;
mod gemm;
pub(crate) mod gemv;
pub(crate) mod k_scales;
pub(crate) mod lanes;
pub(crate) mod packing;
mod products;
pub(crate) mod q4_0;
pub(crate) mod q4_1;
pub(crate) mod q4_k;
pub(crate) mod q5_0;
pub(crate) mod q5_k;
pub(crate) mod q6_k;
pub(crate) mod q8_0;
mod shuffles;
pub(crate) mod task;
pub(crate) mod vector;

pub(crate) use format::STRIP_ROWS;
pub(crate) use formats::{pack_strips, unpack_row};
pub(crate) use products::products;
