//! What can go wrong.

use crate::atoms::{PATTERN_BYTES, PATTERN_NAME_BYTES, PATTERNS};

/// Why a configured pattern is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// The name is not one.
    #[error("the pattern name {name:?} must be 1 to {PATTERN_NAME_BYTES} bytes of a-z, 0-9 and _")]
    PatternName {
        /// The name, cut at 40 characters.
        name: String,
    },
    /// The source is too long.
    #[error(
        "the pattern {name} has {bytes} bytes; {PATTERN_BYTES} are allowed: split it into several patterns"
    )]
    PatternTooLong {
        /// The pattern's name.
        name: String,
        /// Its length.
        bytes: usize,
    },
    /// The source is no regular expression, or a too large one.
    #[error("the pattern {name} does not compile: {reason}")]
    Pattern {
        /// The pattern's name.
        name: String,
        /// The compiler's words.
        reason: String,
    },
    /// The pattern matches the empty text.
    #[error(
        "the pattern {name} matches an empty text, so it would be found everywhere: make a part of it required"
    )]
    PatternEmpty {
        /// The pattern's name.
        name: String,
    },
    /// Too many patterns.
    #[error("{given} patterns are configured; {PATTERNS} are allowed")]
    TooManyPatterns {
        /// How many were given.
        given: usize,
    },
    /// A pattern is switched off that does not exist.
    #[error("no pattern is called {name:?}; there are the configured ones and {}", crate::atoms::BUILT_IN_PATTERNS.join(", "))]
    PatternUnknown {
        /// The name, cut at 40 characters.
        name: String,
    },
    /// Two patterns of one name.
    #[error("the pattern name {name} is given twice or belongs to a built-in pattern: choose another one")]
    PatternTwice {
        /// The name.
        name: String,
    },
}
