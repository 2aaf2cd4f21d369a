//! When a served answer is asked for again in the background.
//!
//! After served hits 1, 3, 10, 30, 100, … and after an hour without a check while it is hit; besides, each day a
//! thousandth of the entries, chosen by a keyed hash. A request's text and its credentials are not kept, so an entry
//! can only be checked when it is asked for; one that nobody asks for answers nobody.
//!
//! An answer younger than [`RecheckRules::least_age_ms`] is not checked: so soon after, a second answer tells nothing
//! about its age, and the immediate repeat of a request would cost what it is meant to save. A check that falls due
//! meanwhile is owed, and made at the first hit after that age.

use crate::Digest;

/// The part of all entries that is checked each day beside the schedule: one in this many.
const DAILY_ONE_IN: u64 = 1000;
const DAY_MS: u64 = 86_400_000;

/// When checks are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecheckRules {
    /// Youngest age of an answer that is checked, milliseconds.
    pub least_age_ms: u64,
    /// Longest time without a check while it is hit, milliseconds.
    pub at_most_ms: u64,
    /// How long a check may be under way before it counts as lost, milliseconds.
    pub patience_ms: u64,
}

impl Default for RecheckRules {
    /// A minute, an hour, a minute.
    fn default() -> Self {
        Self { least_age_ms: 60_000, at_most_ms: 3_600_000, patience_ms: 60_000 }
    }
}

/// What is remembered of one entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Hits served.
    pub hits: u64,
    /// How many of them there were at the last finished check.
    checked_hits: u64,
    /// When the last check was finished, Unix milliseconds; 0 for never.
    checked_ms: u64,
    /// When the check that is under way was begun; 0 for none.
    begun_ms: u64,
}

/// Why a check is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// The number of served hits.
    Hits,
    /// An hour has passed.
    Time,
    /// The day's share.
    Daily,
}

impl Due {
    /// The name in audit records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hits => "hits",
            Self::Time => "time",
            Self::Daily => "daily",
        }
    }
}

impl Served {
    /// Counts a hit that is being served at `now_ms` with an answer of `created_ms`; says whether a check is to be
    /// made now, which is then under way.
    pub fn hit(&mut self, rules: &RecheckRules, entry: &Digest, created_ms: u64, now_ms: u64) -> Option<Due> {
        self.hits += 1;
        let is_under_way = self.begun_ms != 0 && now_ms.saturating_sub(self.begun_ms) < rules.patience_ms;
        if is_under_way || now_ms.saturating_sub(created_ms) < rules.least_age_ms {
            return None;
        }
        let since_ms = self.checked_ms.max(created_ms);
        let due = if last_scheduled(self.hits) > self.checked_hits {
            Due::Hits
        } else if now_ms.saturating_sub(since_ms) >= rules.at_most_ms {
            Due::Time
        } else if is_of_the_day(entry, now_ms) && self.checked_ms / DAY_MS < now_ms / DAY_MS {
            Due::Daily
        } else {
            return None;
        };
        self.begun_ms = now_ms;
        Some(due)
    }

    /// A check ended at `now_ms`; `conclusive` when the upstream gave an answer that could be compared. Otherwise it
    /// stays owed, and is tried again once the patience is over.
    pub fn checked(&mut self, conclusive: bool, now_ms: u64) {
        if conclusive {
            self.checked_hits = self.hits;
            self.checked_ms = now_ms;
            self.begun_ms = 0;
        }
    }
}

/// The largest of 1, 3, 10, 30, 100, … that is at most `hits`; 0 for 0.
pub fn last_scheduled(hits: u64) -> u64 {
    if hits == 0 {
        return 0;
    }
    let decade = 10_u64.pow(hits.ilog10());
    if hits / decade >= 3 { decade.saturating_mul(3) } else { decade }
}

/// Whether an entry is in the share of the day of `now_ms`. The entry's key is a keyed hash, so nobody outside can
/// choose which are.
pub fn is_of_the_day(entry: &Digest, now_ms: u64) -> bool {
    let day = Digest::keyed(entry.as_bytes(), [b"daily share".as_slice(), &(now_ms / DAY_MS).to_le_bytes()]);
    let mut word = [0; 8];
    word.copy_from_slice(&day.0[..8]);
    u64::from_le_bytes(word).is_multiple_of(DAILY_ONE_IN)
}
