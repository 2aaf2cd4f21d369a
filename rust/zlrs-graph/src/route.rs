//! Numbers of routes in stored rows, and the versions of the rules behind an entry.

use serde::{Deserialize, Serialize};
use zlrs_wire::header::Route;

/// The number of a route in stored rows. Numbers are never reused.
pub const fn route_code(route: Route) -> u8 {
    match route {
        Route::Same => 1,
        Route::Canonical => 2,
        Route::Edge => 3,
    }
}

/// The route of a stored number.
pub fn route_of_code(code: u8) -> Option<Route> {
    [Route::Same, Route::Canonical, Route::Edge].into_iter().find(|&route| route_code(route) == code)
}

/// Versions of the rules an entry was written under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Versions {
    /// How an ask becomes a form, and what keeps two asks apart whatever their forms.
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
    pub const CURRENT: Self = Self {
        canon: (zlrs_text::CANON_VERSION << 8 | zlrs_text::guard::GUARD_VERSION) as u16,
        guards: 1,
        comparator: zlrs_text::COMPARATOR_VERSION as u16,
        answer: 1,
    };

    /// Whether an entry written under `self` may be served by this build on a route. The *same* route depends
    /// neither on forms nor on the comparison of answers.
    pub fn serve(self, route: Route) -> bool {
        let current = Self::CURRENT;
        let basic = self.guards == current.guards && self.answer == current.answer;
        let wording = self.canon == current.canon && self.comparator == current.comparator;
        basic && (route == Route::Same || wording)
    }

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
