//! GGUF, tensor sources, tokenizer, chat template, decoder description, weights.
#![forbid(unsafe_code)]
