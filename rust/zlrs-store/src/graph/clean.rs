//! Requests whose words were looked at before and speak of nothing that changes by itself.
//!
//! What words say depends on the ask alone, and the name of a request stands for its ask: a keyed hash that nobody
//! without the key can make collide. So a repeated request need not be read word by word again.

use std::sync::{Mutex, PoisonError};

use zlrs_graph::Digest;

/// Requests that are remembered: 64 KiB of names.
const PLACES: usize = 4096;

/// Names of requests, each at a place of its own name; a newer one takes the place of an older one.
pub(super) struct CleanAsks(Mutex<Box<[[u8; 16]]>>);

impl Default for CleanAsks {
    fn default() -> Self {
        Self(Mutex::new(vec![[0; 16]; PLACES].into_boxed_slice()))
    }
}

impl CleanAsks {
    /// Whether the ask of the request was found clean before.
    pub fn knows(&self, request: &Digest) -> bool {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names[place(request)] == request.prefix()
    }

    /// Remembers that it is clean.
    pub fn learn(&self, request: &Digest) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names[place(request)] = request.prefix();
    }
}

/// From bytes that the name at the place does not hold: two requests of one place differ in what is compared.
fn place(request: &Digest) -> usize {
    usize::from(u16::from_le_bytes([request.0[30], request.0[31]])) % PLACES
}

#[cfg(test)]
mod tests {
    use super::{CleanAsks, Digest};

    #[test]
    fn only_what_was_learned_is_known() {
        let clean = CleanAsks::default();
        let (one, other) = (Digest::of(b"one"), Digest::of(b"other"));
        assert!(!clean.knows(&one));
        clean.learn(&one);
        assert!(clean.knows(&one) && !clean.knows(&other));
        clean.learn(&other);
        assert!(clean.knows(&one) && clean.knows(&other));
    }

    #[test]
    fn a_newer_name_takes_the_place_and_is_not_mistaken_for_the_older() {
        let clean = CleanAsks::default();
        let one = Digest::of(b"one");
        let mut same_place = one;
        same_place.0[0] ^= 1;
        clean.learn(&one);
        assert!(!clean.knows(&same_place));
        clean.learn(&same_place);
        assert!(clean.knows(&same_place) && !clean.knows(&one));
    }
}
