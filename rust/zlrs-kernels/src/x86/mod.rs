//! What the vector sets of x86-64 share: written once over a trait, compiled for each set.
//!
//! Functions that take a vector set are inlined into callers that carry its features.
#![allow(unsafe_code, reason = "vector intrinsics on raw pointers; every block says why it is sound")]
#![allow(clippy::inline_always, reason = "code must be compiled with its caller's features")]

pub(crate) mod attention;
pub(crate) mod floats;
pub(crate) mod product;
