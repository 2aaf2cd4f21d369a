//! Matrix products: the specification against independent arithmetic, every faster path against the
//! specification.

mod decoding;
mod equality;
mod extremes;
mod packing;
mod quantising;
mod refusals;
mod weights;
