//! AVX-512 paths with VNNI, each equal to [`naive`](crate::naive) bit for bit.
//!
//! Products use the packed strips, the activations and the expansions of [`avx2`](crate::avx2) and differ in one
//! step: `vpdpbusd` adds four products of bytes to a 32-bit lane at once. The integers are the same. With few
//! columns vectors stay at 256 bits, a strip each; with many they hold two strips.
//!
//! Functions carry `#[target_feature(enable = FEATURES)]`; callers enter after
//! [`Isa::is_available`](crate::Isa::is_available) or with a matrix packed for the set.
#![allow(unsafe_code, reason = "vector intrinsics on raw pointers; every block says why it is sound")]
#![allow(clippy::inline_always, reason = "the kernels' steps must become one loop body, whatever its size")]
#![allow(clippy::needless_range_loop, reason = "tiles are indexed by strip and column")]
#![allow(clippy::wildcard_imports, reason = "intrinsics, a dozen a file")]

pub(crate) mod activation;
pub(crate) mod attention;
pub(crate) mod draw;
pub(crate) mod exponential;
mod gemm;
mod gemv;
mod lanes;
mod vector;
mod wide;

pub(crate) use gemm::{TILE_COLUMNS, gemm};
pub(crate) use gemv::gemv;
pub(crate) use wide::Wide;
