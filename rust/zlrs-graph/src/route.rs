//! Ways to a stored answer, and the versions of the rules behind them.

use std::fmt;

/// How a request may find its answer. Routes never share evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Route {
    /// The identical request: equal scope, equal ask.
    Same,
}

impl Route {
    /// Every route of this version.
    pub const ALL: [Self; 1] = [Self::Same];

    /// The name in headers, metrics and the audit log.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
        }
    }

    /// The number in stored rows. Numbers are never reused.
    pub const fn code(self) -> u8 {
        match self {
            Self::Same => 1,
        }
    }

    /// The route of a stored number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|route| route.code() == code)
    }
}

impl fmt::Display for Route {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Versions of the rules an entry was written under. An entry of other rules is never served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// How scope and ask become a node.
    pub canon: u16,
    /// What is never stored or served.
    pub guards: u16,
    /// When two answers agree.
    pub comparator: u16,
    /// How an answer is kept in the row's body.
    pub answer: u16,
}

impl Versions {
    /// The rules of this build.
    pub const CURRENT: Self = Self { canon: 1, guards: 1, comparator: 1, answer: 1 };

    /// Eight bytes, little endian, in the order of the fields.
    pub fn to_bytes(self) -> [u8; 8] {
        let mut bytes = [0; 8];
        let fields = [self.canon, self.guards, self.comparator, self.answer];
        for (pair, field) in bytes.chunks_exact_mut(2).zip(fields) {
            pair.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }

    /// The inverse of [`Versions::to_bytes`].
    pub fn from_bytes(bytes: [u8; 8]) -> Self {
        let field = |index: usize| u16::from_le_bytes([bytes[index * 2], bytes[index * 2 + 1]]);
        Self { canon: field(0), guards: field(1), comparator: field(2), answer: field(3) }
    }
}
