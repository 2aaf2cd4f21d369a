//! The decision, pure: what a reading makes of a state.

use crate::plan::KvPrecision;

/// When keys and values get 4 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// While memory is idle: less is asked of it than [`Settings::low_share`]; f16 above [`Settings::high_share`].
    #[default]
    Idle,
    /// The inverse: while memory is the limit, where fewer bytes save time.
    Saturated,
}

impl Policy {
    /// Its name in settings and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Saturated => "saturated",
        }
    }
}

/// Thresholds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The policy.
    pub policy: Policy,
    /// Share of the peak bandwidth below which memory is idle, 0 to 1.
    pub low_share: f32,
    /// Share above which it is the limit; above `low_share`.
    pub high_share: f32,
    /// Temperature in °C from which on nothing is changed.
    pub thermal_limit_c: f32,
    /// How far below the limit it must fall before it counts as cool.
    pub thermal_margin_c: f32,
    /// Readings in a row that must ask for the same change.
    pub persistence: u32,
    /// Readings after a change before the next one.
    pub dwell: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: Policy::Idle,
            low_share: 0.40,
            high_share: 0.75,
            thermal_limit_c: 75.0,
            thermal_margin_c: 5.0,
            persistence: 3,
            dwell: 8,
        }
    }
}

/// What the device is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// New blocks get 4 bits.
    HbmOptimized,
    /// New blocks get f16.
    FullPrecision,
    /// Bandwidth cannot be told, so that new blocks get f16.
    #[default]
    Fallback,
    /// Too hot: clocks fall, so that bandwidth says nothing of the load; new blocks get what they got before.
    ThermalThrottled,
}

impl Mode {
    /// Its name in receipts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HbmOptimized => "hbm_optimized",
            Self::FullPrecision => "full_precision",
            Self::Fallback => "fallback",
            Self::ThermalThrottled => "thermal_throttled",
        }
    }
}

/// What was measured over some steps.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Reading {
    /// Bytes that the steps would have read with f16 keys and values, over their time and the peak. It does not
    /// fall because of what was decided, only because of the load. `None` without a peak.
    pub demand_share: Option<f32>,
    /// Temperature of the device, where it is known.
    pub temperature_c: Option<f32>,
}

/// What is decided, and what the next decision depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct State {
    /// The mode.
    pub mode: Mode,
    /// What blocks get that become complete.
    pub precision: KvPrecision,
    /// What recent readings in a row ask for, and how many they are.
    wanted: Option<(KvPrecision, u32)>,
    /// Readings left in which nothing changes.
    dwell: u32,
    hot: bool,
}

/// The state after a reading. Constant readings change the precision at most once; two changes of the precision
/// are at least `dwell` + `persistence` readings apart.
#[must_use]
pub fn decide(settings: &Settings, state: &State, reading: &Reading) -> State {
    let mut next = State { dwell: state.dwell.saturating_sub(1), ..*state };
    if let Some(temperature) = reading.temperature_c {
        let limit = settings.thermal_limit_c;
        next.hot = temperature >= limit || (state.hot && temperature > limit - settings.thermal_margin_c);
    }
    if next.hot {
        return State { mode: Mode::ThermalThrottled, wanted: None, ..next };
    }
    let Some(share) = reading.demand_share.filter(|share| share.is_finite()) else {
        return change(settings, next, KvPrecision::F16, Mode::Fallback);
    };
    let asked = if share < settings.low_share {
        Some(settings.policy == Policy::Idle)
    } else if share > settings.high_share {
        Some(settings.policy == Policy::Saturated)
    } else {
        None
    };
    let mode_of = |precision| match precision {
        KvPrecision::Q4 => Mode::HbmOptimized,
        _ => Mode::FullPrecision,
    };
    match asked {
        None => State { mode: mode_of(next.precision), wanted: None, ..next },
        Some(lower) => {
            let precision = if lower { KvPrecision::Q4 } else { KvPrecision::F16 };
            change(settings, next, precision, mode_of(precision))
        }
    }
}

/// `state` on its way to a precision.
fn change(settings: &Settings, state: State, precision: KvPrecision, mode: Mode) -> State {
    if precision == state.precision {
        return State { mode, wanted: None, ..state };
    }
    let stays = if state.precision == KvPrecision::Q4 { Mode::HbmOptimized } else { Mode::FullPrecision };
    if state.dwell > 0 {
        return State { mode: stays, wanted: None, ..state };
    }
    let count = match state.wanted {
        Some((wanted, count)) if wanted == precision => count + 1,
        _ => 1,
    };
    if count < settings.persistence {
        return State { mode: stays, wanted: Some((precision, count)), ..state };
    }
    State { mode, precision, wanted: None, dwell: settings.dwell, ..state }
}
