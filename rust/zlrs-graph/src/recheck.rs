//! When a served answer is asked for again in the background.
//!
//! After served hits 10, 30, 100, … and at the first hit that comes three quarters of an hour after the last check;
//! besides, each day a thousandth of the entries, chosen by a keyed hash. A request's text and its credentials are not
//! kept, so an entry can only be checked when it is asked for; one that nobody asks for answers nobody.
//!
//! No answer is served an hour or more after a serve that no check has followed: it is *overdue*, and the request goes
//! upstream. So whatever has gone stale is gone an hour after it was first served stale, however seldom it is asked.
//! Hits 1 and 3 are not checked by their number: of an entry that is asked often, ten hits come soon; of one that is
//! asked seldom, the time decides, and their checks would double what it costs.
//!
//! An answer younger than [`RecheckRules::least_age_ms`] is not checked: so soon after, a second answer tells nothing
//! about its age, and the immediate repeat of a request would cost what it is meant to save. A check that falls due
//! meanwhile is owed, and made at the first hit after that age.

use crate::Digest;

/// The part of all entries that is checked each day beside the schedule: one in this many.
const DAILY_ONE_IN: u64 = 1000;
const DAY_MS: u64 = 86_400_000;
/// The first hit that is checked for its number.
const FIRST_SCHEDULED: u64 = 10;

/// When checks are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecheckRules {
    /// Youngest age of an answer that is checked, milliseconds.
    pub least_age_ms: u64,
    /// How long after a serve that no check has followed the answer may still be served, milliseconds.
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

impl RecheckRules {
    /// How long after the last check the next hit is checked, milliseconds: early enough that an entry which is asked
    /// about once an hour is checked rather than overdue.
    pub const fn check_after_ms(&self) -> u64 {
        self.at_most_ms / 4 * 3 + self.at_most_ms % 4 * 3 / 4
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
    /// When it was first served after the last finished check, Unix milliseconds; none where it was not.
    unchecked_ms: Option<u64>,
    /// Something else has shown that it may be wrong.
    in_doubt: bool,
}

/// Why a check is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// The number of served hits.
    Hits,
    /// The time since the last check.
    Time,
    /// Another wording's answer was contradicted.
    Doubt,
    /// The day's share.
    Daily,
}

impl Due {
    /// The name in audit records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hits => "hits",
            Self::Time => "time",
            Self::Doubt => "doubt",
            Self::Daily => "daily",
        }
    }
}

impl Served {
    /// Whether the next hit, served at `now_ms` with an answer of `created_ms`, is to be checked.
    pub fn due(&self, rules: &RecheckRules, entry: &Digest, created_ms: u64, now_ms: u64) -> Option<Due> {
        if self.begun_ms != 0 && now_ms.saturating_sub(self.begun_ms) < rules.patience_ms {
            return None;
        }
        if self.in_doubt {
            return Some(Due::Doubt);
        }
        if now_ms.saturating_sub(created_ms) < rules.least_age_ms {
            return None;
        }
        let since_ms = self.checked_ms.max(created_ms);
        if last_scheduled(self.hits + 1) > self.checked_hits {
            Some(Due::Hits)
        } else if now_ms.saturating_sub(since_ms) >= rules.check_after_ms() {
            Some(Due::Time)
        } else if is_of_the_day(entry, now_ms) && self.checked_ms / DAY_MS < now_ms / DAY_MS {
            Some(Due::Daily)
        } else {
            None
        }
    }

    /// Counts a hit that is being served at `now_ms` with an answer of `created_ms`; says whether a check is to be
    /// made now, which is then under way.
    pub fn hit(&mut self, rules: &RecheckRules, entry: &Digest, created_ms: u64, now_ms: u64) -> Option<Due> {
        let due = self.due(rules, entry, created_ms, now_ms);
        self.hits += 1;
        self.unchecked_ms.get_or_insert(now_ms);
        if due.is_some() {
            self.begun_ms = now_ms;
        }
        due
    }

    /// When it was first served after the last finished check: see [`crate::Inputs::unchecked_ms`].
    pub const fn unchecked_ms(&self) -> Option<u64> {
        self.unchecked_ms
    }

    /// Whatever its schedule says, the next hit is to be checked.
    pub fn doubt(&mut self) {
        (self.in_doubt, self.begun_ms) = (true, 0);
    }

    /// A check ended at `now_ms`; `conclusive` when the upstream gave an answer that could be compared. Otherwise it
    /// stays owed, and is tried again once the patience is over.
    pub fn checked(&mut self, conclusive: bool, now_ms: u64) {
        if conclusive {
            *self = Self { hits: self.hits, checked_hits: self.hits, checked_ms: now_ms, ..Self::default() };
        }
    }
}

/// The largest of 10, 30, 100, … that is at most `hits`; 0 below ten.
pub fn last_scheduled(hits: u64) -> u64 {
    if hits < FIRST_SCHEDULED {
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
