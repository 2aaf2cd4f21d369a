//! Which served answers are due for a check, in bounded memory.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hashlink::LruCache;
use zlrs_graph::{Digest, Due, RecheckRules, Served, Settings};

/// Entries remembered. One that is forgotten, or was served by an earlier process, begins with its first hit again,
/// which only means more checks.
const REMEMBERED: usize = 65_536;

/// Hits served and checks made, by entry.
pub(super) struct Rechecks {
    rules: RecheckRules,
    served: Mutex<LruCache<Digest, Served>>,
}

impl Rechecks {
    pub fn new(settings: &Settings) -> Self {
        let rules = RecheckRules {
            least_age_ms: settings.recheck_least_age_s * 1000,
            at_most_ms: settings.recheck_every_s * 1000,
            ..RecheckRules::default()
        };
        Self { rules, served: Mutex::new(LruCache::new(REMEMBERED)) }
    }

    fn served(&self) -> MutexGuard<'_, LruCache<Digest, Served>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a hit; says whether a check is to be made now.
    pub fn hit(&self, entry: &Digest, created_ms: u64, now_ms: u64) -> Option<Due> {
        let mut served = self.served();
        let mut known = served.get(entry).copied().unwrap_or_default();
        let due = known.hit(&self.rules, entry, created_ms, now_ms);
        served.insert(*entry, known);
        due
    }

    /// When an entry was first served after its last check.
    pub fn unchecked_ms(&self, entry: &Digest) -> Option<u64> {
        self.served().peek(entry).and_then(Served::unchecked_ms)
    }

    /// Whether the next hit is to be checked. Changes nothing.
    pub fn is_due(&self, entry: &Digest, created_ms: u64, now_ms: u64) -> bool {
        let known = self.served().peek(entry).copied().unwrap_or_default();
        known.due(&self.rules, entry, created_ms, now_ms).is_some()
    }

    /// The next hit is to be checked.
    pub fn doubt(&self, entry: &Digest) {
        let mut served = self.served();
        let mut known = served.get(entry).copied().unwrap_or_default();
        known.doubt();
        served.insert(*entry, known);
    }

    /// A check ended.
    pub fn checked(&self, entry: &Digest, conclusive: bool, now_ms: u64) {
        if let Some(known) = self.served().get_mut(entry) {
            known.checked(conclusive, now_ms);
        }
    }

    /// The entry is new: its schedule begins.
    pub fn begin(&self, entry: &Digest) {
        self.served().remove(entry);
    }
}
