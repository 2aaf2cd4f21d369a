//! How much of a request's work may be skipped.

/// What may be left out for the rows of a request. Chosen by the request; rows of both kinds share a step, and the
/// exact ones never see the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compute {
    /// Nothing: tokens are those of plain decoding.
    #[default]
    Exact,
    /// Whatever the loaded model has measured heads and thresholds for. With none installed a request runs exact.
    Aggressive,
}

impl Compute {
    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Aggressive => "aggressive",
        }
    }

    /// The reverse of [`Compute::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Exact, Self::Aggressive].into_iter().find(|compute| compute.name() == name)
    }
}

/// What was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Skipped {
    /// Tokens for which at least one layer was.
    pub tokens: usize,
    /// Layers left out, summed over tokens.
    pub row_layers: usize,
    /// Most layers left out for one token: so many of the last layers were not computed for every token.
    pub most_layers: usize,
}
