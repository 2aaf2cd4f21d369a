//! What must hold of one entry, and of one edge, before the evidence of its class can speak for it.

use serde::{Deserialize, Serialize};

use crate::Digest;

/// Clean trials of its own that an edge needs…
const EDGE_CLEAN_NEEDED: u64 = 5;

/// How an entry's answer was confirmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stability {
    /// How many fresh answers in a row agreed with the one before.
    pub agreements: u32,
    /// When the latest of them came, Unix milliseconds; 0 for never.
    pub agreed_ms: u64,
}

impl Stability {
    /// After another fresh answer at `now_ms`.
    #[must_use]
    pub const fn after(self, agrees: bool, now_ms: u64) -> Self {
        if agrees {
            Self { agreements: self.agreements.saturating_add(1), agreed_ms: now_ms }
        } else {
            Self { agreements: 0, agreed_ms: 0 }
        }
    }

    /// Two independent fresh answers agree, the later one after anything that put the node in doubt. An upstream that
    /// never says the same thing twice is a miss, not an error.
    pub fn is_stable(self, doubted_ms: Option<u64>) -> bool {
        self.agreements > 0 && doubted_ms.is_none_or(|doubted_ms| self.agreed_ms > doubted_ms)
    }
}

/// What an edge has shown by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EdgeRecord {
    clean: u64,
    wrong: u64,
    first_entry: Option<Digest>,
    has_second_entry: bool,
}

impl EdgeRecord {
    /// Takes in a trial over this edge on an entry.
    pub fn observe(&mut self, entry: &Digest, is_wrong: bool) {
        if is_wrong {
            self.wrong += 1;
            return;
        }
        self.clean += 1;
        match self.first_entry {
            None => self.first_entry = Some(*entry),
            Some(first) => self.has_second_entry |= first != *entry,
        }
    }

    /// Whether it was wrong once: it never opens then.
    pub const fn is_closed(&self) -> bool {
        self.wrong > 0
    }

    /// Comparisons over it, and wrong ones among them.
    pub const fn counts(&self) -> (u64, u64) {
        (self.clean + self.wrong, self.wrong)
    }

    /// Five clean trials on two entries, and no error ever.
    pub const fn is_open(&self) -> bool {
        self.wrong == 0 && self.clean >= EDGE_CLEAN_NEEDED && self.has_second_entry
    }
}
