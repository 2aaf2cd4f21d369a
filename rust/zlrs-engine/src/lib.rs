//! KV memory, plan, step, sampling, generation.
#![forbid(unsafe_code)]
