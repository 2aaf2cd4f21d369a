//! Small heads and the fingerprint network, with candle; the candle reference the engine is tested against.
#![forbid(unsafe_code)]
