//! Matrix products: the specification against independent arithmetic, every faster path against the
//! specification.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod decoding;
mod equality;
mod extremes;
mod packing;
mod quantising;
mod refusals;
mod together;
mod weights;
