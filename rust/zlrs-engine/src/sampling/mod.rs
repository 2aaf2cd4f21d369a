//! From one row of logits to one token.
//!
//! The order of the processors is part of the specification: logit bias, repetition penalty, temperature,
//! top-k, top-p, min-p, then one draw. Ties go to the lower token id everywhere. The draw is a pure function
//! of (seed, position), so the same request gives the same text alone, in a batch, or with drafting.

mod parameters;
mod philox;
mod sampler;
#[cfg(test)]
mod tests;

pub use parameters::{LOGIT_BIAS_LIMIT, Sampling};
pub use philox::{philox4x32, uniform};
pub use sampler::Sampler;

/// Why no token was chosen.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SamplingError {
    /// A parameter is outside its range.
    #[error("{name} is {given}; allowed: {allowed}")]
    Parameter {
        /// The parameter.
        name: &'static str,
        /// The value given, as text.
        given: String,
        /// Its range.
        allowed: &'static str,
    },
    /// A logit bias names a token the model does not have.
    #[error("logit_bias names token {id}, but the model has tokens 0 to {}", vocabulary - 1)]
    UnknownToken {
        /// The id given.
        id: u32,
        /// Number of tokens the model has.
        vocabulary: usize,
    },
    /// The model computed a logit that is NaN or infinite.
    #[error(
        "the model's logit for token {id} at position {position} is {value}: the weights are damaged or an operation overflowed, no token was chosen"
    )]
    NotFinite {
        /// The first token whose logit is not finite.
        id: u32,
        /// Position of the token that would have been chosen.
        position: u64,
        /// `NaN`, `inf` or `-inf`.
        value: f32,
    },
    /// The row has a length other than the vocabulary.
    #[error("a row of {given} logits, the vocabulary has {expected}")]
    RowLength {
        /// Number of logits given.
        given: usize,
        /// Vocabulary size.
        expected: usize,
    },
    /// No seed was given and the system gave no random bytes.
    #[error("the system gave no random seed ({0}); give one with the request")]
    NoSeed(String),
}
