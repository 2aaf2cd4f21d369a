//! GGUF, tensor sources, tokenizer, chat template, decoder description, weights.
#![forbid(unsafe_code)]

mod error;
pub mod gguf;
pub mod source;

pub use error::ModelError;
