//! Small heads and the fingerprint network, with candle; the candle reference the engine is tested against.
//!
//! Nothing here is on a request's path. [`reference::Reference`] runs a GGUF file through candle's own
//! models, which share no code with our kernels: where both agree, neither repeats the other's mistake.
#![forbid(unsafe_code)]

mod gemma3;
pub mod reference;
