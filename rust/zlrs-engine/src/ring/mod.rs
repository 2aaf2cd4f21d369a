//! The validation ring: tokens that are shown before they are certain, and taken back when they were wrong.
//!
//! [`Shown`] keeps what the reader of a stream has seen of a drafter's guesses. A step verifies guesses, so that
//! the answer is the one without any; what changes on the way is told by [`TokenEvent`]s.

mod shown;

pub use shown::{RING_DEPTH, Shown, TokenEvent};

/// Which events of single tokens a generation tells beside the answer's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TokenEvents {
    /// None.
    #[default]
    Off,
    /// Every token when it is certain.
    Verified,
    /// Guesses too, before the step that verifies them, and what becomes of them.
    Provisional,
}

impl TokenEvents {
    /// The mode of a name: `plain`, `verified`, `provisional`.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "plain" => Self::Off,
            "verified" => Self::Verified,
            "provisional" => Self::Provisional,
            _ => return None,
        })
    }
}
