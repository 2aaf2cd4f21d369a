//! Model files: GGUF, where tensors come from, the tokenizer, the chat template, the description of the
//! decoder and its weights.
//!
//! [`gguf::File::open`] reads and checks a file's header; [`decoder::Decoder::from_metadata`] says what the
//! model computes; [`weights::Weights::load`] reads its weights; [`tokenizer::Tokenizer`] and
//! [`template::ChatTemplate`] turn conversations into token ids. Files are untrusted: every count, offset and
//! length is checked before it is used.
#![forbid(unsafe_code)]

pub mod decoder;
mod error;
pub mod gguf;
pub mod mask;
pub mod neurons;
mod pieces;
pub mod source;
pub mod synthetic;
pub mod template;
pub mod tokenizer;
pub mod weights;

pub use error::ModelError;
