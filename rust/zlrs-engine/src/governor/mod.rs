//! The precision of keys and values by the load and the temperature of the device, off unless asked for.
//!
//! Backends report what each step moved; a [`Governor`] makes readings of it and decides, [`decide::decide`]; the
//! [`PrecisionPlanner`] writes the decision into plans, where it holds for the blocks that become complete. No
//! public system is known that does this from the bandwidth of the moment; both directions are therefore a setting.

pub mod decide;
mod planner;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

pub use self::decide::{Mode, Policy, Reading, Settings, State};
pub use self::planner::PrecisionPlanner;
use crate::plan::KvPrecision;

/// Steps of a reading.
pub const STEPS_OF_A_READING: u32 = 16;
/// Rows up to which a step counts: with more, arithmetic is the limit, whatever the precision.
pub const MOST_ROWS: usize = 16;
/// Decisions that are kept.
pub const LOG_LIMIT: usize = 256;

/// What one step moved.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Traffic {
    /// Rows computed.
    pub rows: usize,
    /// Bytes of weights, keys and values that it read.
    pub bytes: u64,
    /// The same with all keys and values as f16.
    pub full_bytes: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
}

/// Tells temperature and clocks of a device. Asked once a reading.
pub trait Sensor: Send {
    /// What is known now.
    fn read(&mut self) -> SensorReading;
}

/// What a [`Sensor`] knows.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SensorReading {
    /// Temperature in °C.
    pub temperature_c: Option<f32>,
    /// Clock of the processors in MHz.
    pub clock_mhz: Option<u32>,
    /// Clock of the memory in MHz.
    pub memory_clock_mhz: Option<u32>,
}

/// A change of mode or precision, with everything that it was decided by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    /// Readings before it.
    pub reading: u64,
    /// Steps that counted before it.
    pub step: u64,
    /// The mode from now on.
    pub mode: Mode,
    /// The precision from now on.
    pub precision: KvPrecision,
    /// As in [`Reading`].
    pub demand_share: Option<f32>,
    /// Bytes read over time and peak.
    pub achieved_share: Option<f32>,
    /// What the sensor said.
    pub sensor: SensorReading,
}

/// What is in force, for receipts.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The mode.
    pub mode: Mode,
    /// What blocks get that become complete.
    pub precision: KvPrecision,
    /// The policy in force.
    pub policy: Policy,
    /// Peak of the memory in bytes a second, measured when the model was loaded; 0 if it could not be.
    pub peak_bytes_per_second: f64,
    /// The last [`LOG_LIMIT`] changes.
    pub decisions: Vec<Decision>,
    /// Changes that are not kept any more.
    pub forgotten: u64,
}

/// One device's governor; clones are the same one.
#[derive(Clone)]
pub struct Governor(Arc<Mutex<Inner>>);

struct Inner {
    settings: Settings,
    state: State,
    peak_bytes_per_second: f64,
    sensor: Option<Box<dyn Sensor>>,
    window: Traffic,
    window_steps: u32,
    steps: u64,
    readings: u64,
    decisions: VecDeque<Decision>,
    forgotten: u64,
}

impl std::fmt::Debug for Governor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Governor").field(&self.report().mode).finish()
    }
}

impl Governor {
    /// In [`Mode::Fallback`] until a device is attached and has been read.
    pub fn new(settings: Settings) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            settings,
            state: State::default(),
            peak_bytes_per_second: 0.0,
            sensor: None,
            window: Traffic::default(),
            window_steps: 0,
            steps: 0,
            readings: 0,
            decisions: VecDeque::new(),
            forgotten: 0,
        })))
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device it governs: its measured peak and what tells its temperature.
    pub fn attach(&self, peak_bytes_per_second: f64, sensor: Option<Box<dyn Sensor>>) {
        let mut inner = self.inner();
        inner.peak_bytes_per_second = peak_bytes_per_second;
        inner.sensor = sensor;
    }

    /// Takes note of a step; every [`STEPS_OF_A_READING`] steps of few rows make a reading and a decision. O(1).
    pub fn observe(&self, traffic: &Traffic) {
        if traffic.rows == 0 || traffic.rows > MOST_ROWS {
            return;
        }
        let mut inner = self.inner();
        inner.steps += 1;
        inner.window.bytes += traffic.bytes;
        inner.window.full_bytes += traffic.full_bytes;
        inner.window.seconds += traffic.seconds;
        inner.window_steps += 1;
        if inner.window_steps == STEPS_OF_A_READING {
            inner.read();
        }
    }

    /// What blocks get that become complete now.
    pub fn precision(&self) -> KvPrecision {
        self.inner().state.precision
    }

    /// What is in force, and how it came to be.
    pub fn report(&self) -> Report {
        let inner = self.inner();
        Report {
            mode: inner.state.mode,
            precision: inner.state.precision,
            policy: inner.settings.policy,
            peak_bytes_per_second: inner.peak_bytes_per_second,
            decisions: inner.decisions.iter().copied().collect(),
            forgotten: inner.forgotten,
        }
    }
}

impl Inner {
    fn read(&mut self) {
        let window = std::mem::take(&mut self.window);
        self.window_steps = 0;
        let sensor = self.sensor.as_mut().map_or_else(SensorReading::default, |sensor| sensor.read());
        let could_move = window.seconds * self.peak_bytes_per_second;
        let share = |bytes: u64| (could_move > 0.0).then(|| (bytes as f64 / could_move) as f32);
        let reading = Reading { demand_share: share(window.full_bytes), temperature_c: sensor.temperature_c };
        let before = self.state;
        self.state = decide::decide(&self.settings, &before, &reading);
        self.readings += 1;
        let (mode, precision) = (self.state.mode, self.state.precision);
        if (before.mode, before.precision) == (mode, precision) {
            return;
        }
        if self.decisions.len() == LOG_LIMIT {
            self.decisions.pop_front();
            self.forgotten += 1;
        }
        self.decisions.push_back(Decision {
            reading: self.readings,
            step: self.steps,
            mode,
            precision,
            demand_share: reading.demand_share,
            achieved_share: share(window.bytes),
            sensor,
        });
    }
}
