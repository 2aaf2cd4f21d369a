//! The specification: every operation in plain scalar code, one file each.
//!
//! These functions say what the right bits are. They are used as they are on processors without a faster
//! path (and with `ZLRS_ISA=naive`), and tests hold every faster path to them.

pub mod activation;
pub mod attend;
pub mod attention;
pub mod decode;
pub mod dot;
pub mod draw;
pub mod exponential;
pub mod kv;
pub mod matmul;
pub mod norm;
pub mod quantise;
pub mod rope;
pub mod sealed;
