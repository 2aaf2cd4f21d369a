//! The precision of keys and values: the setting, and what was decided.

use pyo3::IntoPyObject;
use zlrs_engine::KvChoice;
use zlrs_engine::governor::{Decision, Policy, Settings};
use zlrs_engine::plan::KvPrecision;

/// The engine's choice for a setting; what to say otherwise.
pub fn kv_choice(precision: &str, policy: &str, thermal_limit_c: u32) -> Result<KvChoice, String> {
    let policy = match policy {
        "idle" => Policy::Idle,
        "saturated" => Policy::Saturated,
        other => return Err(format!("governor_policy is {other:?}; allowed: idle, saturated")),
    };
    let settings = Settings { policy, thermal_limit_c: thermal_limit_c as f32, ..Settings::default() };
    match precision {
        "governed" => Ok(KvChoice::Governed(settings)),
        other => [KvPrecision::F16, KvPrecision::Q8, KvPrecision::Q4]
            .into_iter()
            .find(|precision| precision.name() == other)
            .map(KvChoice::Fixed)
            .ok_or_else(|| format!("kv_precision is {other:?}; allowed: f16, q8, q4, governed")),
    }
}

/// One decision, as Python gets it: a dictionary with the names of the fields.
#[derive(IntoPyObject)]
pub struct GovernorDecision {
    reading: u64,
    step: u64,
    hardware_mode: &'static str,
    kv_precision: &'static str,
    demand_share: Option<f32>,
    achieved_share: Option<f32>,
    temperature_c: Option<f32>,
    clock_mhz: Option<u32>,
    memory_clock_mhz: Option<u32>,
}

impl From<&Decision> for GovernorDecision {
    fn from(decision: &Decision) -> Self {
        Self {
            reading: decision.reading,
            step: decision.step,
            hardware_mode: decision.mode.name(),
            kv_precision: decision.precision.name(),
            demand_share: decision.demand_share,
            achieved_share: decision.achieved_share,
            temperature_c: decision.sensor.temperature_c,
            clock_mhz: decision.sensor.clock_mhz,
            memory_clock_mhz: decision.sensor.memory_clock_mhz,
        }
    }
}
