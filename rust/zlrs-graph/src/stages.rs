//! The stages of a route for one class of asks: which part is served, which part of that is checked, and what moves
//! it up or down. One state machine for the graph's routes and for the rollout of another upstream.

use serde::{Deserialize, Serialize};
use zlrs_wire::header::Stage;

use crate::Digest;

/// Clean trials in a row that a step needs before the next one. The last of them is of a served hit.
pub const CLEAN_NEEDED: u64 = 300;
/// Clean trials in a row after which a full route is checked at its floor.
pub const FLOOR_AFTER: u64 = 30_000;

/// A step of the stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Not used.
    Off,
    /// Compared, never served.
    #[default]
    Shadow,
    /// 5 % is served, all of it checked.
    Canary,
    /// 25 % is served, a tenth of it checked.
    RampQuarter,
    /// 50 % is served, a tenth of it checked.
    RampHalf,
    /// All is served, 1 % of it checked, 0.1 % after long clean running.
    Full,
}

impl Step {
    /// The name on the wire.
    pub const fn stage(self) -> Stage {
        match self {
            Self::Off => Stage::Off,
            Self::Shadow => Stage::Shadow,
            Self::Canary => Stage::Canary,
            Self::RampQuarter | Self::RampHalf => Stage::Ramp,
            Self::Full => Stage::Full,
        }
    }

    /// The part of what could be served that is.
    pub const fn serve_share(self) -> f64 {
        match self {
            Self::Off | Self::Shadow => 0.0,
            Self::Canary => 0.05,
            Self::RampQuarter => 0.25,
            Self::RampHalf => 0.5,
            Self::Full => 1.0,
        }
    }

    /// The part of what is served that is checked, after so many clean trials in a row.
    pub const fn check_share(self, clean_run: u64) -> f64 {
        match self {
            Self::Off | Self::Shadow | Self::Canary => 1.0,
            Self::RampQuarter | Self::RampHalf => 0.1,
            Self::Full if clean_run < FLOOR_AFTER => 0.01,
            Self::Full => 0.001,
        }
    }

    /// The step above; the highest and `Off` stay.
    const fn above(self) -> Self {
        match self {
            Self::Off => Self::Off,
            Self::Shadow => Self::Canary,
            Self::Canary => Self::RampQuarter,
            Self::RampQuarter => Self::RampHalf,
            Self::RampHalf | Self::Full => Self::Full,
        }
    }
}

/// Where a class stands: its step and the clean trials in a row on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// The step.
    pub step: Step,
    /// Clean trials since it was reached or since the last wrong one. A request that was forwarded and compared tells as
    /// much as one that was served and checked: a draw that nobody can choose has parted them.
    pub clean: u64,
}

/// What a trial was, as far as the stages care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "five independent facts, each with its name")]
pub struct Observation {
    /// The answers did not agree.
    pub is_wrong: bool,
    /// The stored answer had been served, and was checked afterwards.
    pub was_served: bool,
    /// The bound holds, this trial included.
    pub bound_holds: bool,
    /// This trial raised the freshness alarm.
    pub alarm: bool,
    /// The operator lets the route serve at all.
    pub may_serve: bool,
}

impl Progress {
    /// Where it stands after a trial. A bound that does not hold, the alarm, or an operator who does not let the route
    /// serve lead to shadow from everywhere.
    #[must_use]
    pub const fn after(self, seen: Observation) -> Self {
        if matches!(self.step, Step::Off) {
            return self;
        }
        if seen.alarm || !seen.bound_holds || !seen.may_serve {
            return Self { step: Step::Shadow, clean: 0 };
        }
        if matches!(self.step, Step::Shadow) {
            return Self { step: Step::Canary, clean: 0 };
        }
        if seen.is_wrong {
            return Self { clean: 0, ..self };
        }
        let clean = self.clean + 1;
        if clean >= CLEAN_NEEDED && seen.was_served && !matches!(self.step, Step::Full) {
            return Self { step: self.step.above(), clean: 0 };
        }
        Self { clean, ..self }
    }
}

/// Two fair draws for one request. Part of a decision's inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Draw {
    /// Decides whether the stored answer is served.
    pub serve: u32,
    /// Decides whether a served answer is checked.
    pub check: u32,
}

impl Draw {
    /// The draws of a request: a keyed pseudo-random function of its id, so that nobody without the key can choose
    /// which requests are checked.
    pub fn of(key: &[u8; 32], request_id: &[u8]) -> Self {
        let digest = Digest::keyed(key, [b"draw".as_slice(), request_id]);
        let word = |at: usize| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&digest.0[at..at + 4]);
            u32::from_le_bytes(bytes)
        };
        Self { serve: word(0), check: word(4) }
    }
}

/// Whether a draw falls into a share, 0 to 1.
pub fn falls_into(draw: u32, share: f64) -> bool {
    f64::from(draw) < share * 4_294_967_296.0
}
