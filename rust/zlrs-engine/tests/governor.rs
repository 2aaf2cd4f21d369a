//! The governor: no flapping whatever the readings, both policies, heat, devices that tell nothing, a bounded log,
//! and that its decision reaches plans.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

use proptest::prelude::*;
use zlrs_engine::governor::decide::decide;
use zlrs_engine::governor::{
    Governor, LOG_LIMIT, Mode, Policy, PrecisionPlanner, Reading, STEPS_OF_A_READING, Sensor, SensorReading,
    Settings, State, Traffic,
};
use zlrs_engine::plan::{Candidate, ExactPlanner, KvPrecision, Plan, Planner};

fn share(demand_share: f32) -> Reading {
    Reading { demand_share: Some(demand_share), temperature_c: Some(50.0) }
}

fn after(settings: &Settings, readings: impl IntoIterator<Item = Reading>) -> Vec<State> {
    let mut state = State::default();
    readings
        .into_iter()
        .map(|reading| {
            state = decide(settings, &state, &reading);
            state
        })
        .collect()
}

fn changes(states: &[State]) -> Vec<usize> {
    let before = std::iter::once(KvPrecision::F16).chain(states.iter().map(|state| state.precision));
    let pairs = before.zip(states.iter().map(|state| state.precision)).enumerate();
    pairs.filter(|(_, (before, after))| before != after).map(|(index, _)| index).collect()
}

fn any_reading() -> impl Strategy<Value = Reading> {
    let shares = prop_oneof![Just(None), Just(Some(f32::NAN)), (0.0_f32..1.2).prop_map(Some)];
    let temperatures = prop_oneof![Just(None), (40.0_f32..90.0).prop_map(Some)];
    (shares, temperatures).prop_map(|(demand_share, temperature_c)| Reading { demand_share, temperature_c })
}

fn any_settings() -> impl Strategy<Value = Settings> {
    (any::<bool>(), 1_u32..6, 0_u32..20).prop_map(|(idle, persistence, dwell)| Settings {
        policy: if idle { Policy::Idle } else { Policy::Saturated },
        persistence,
        dwell,
        ..Settings::default()
    })
}

proptest! {
    #[test]
    fn changes_are_apart(settings in any_settings(), readings in prop::collection::vec(any_reading(), 0..300)) {
        let found = changes(&after(&settings, readings));
        let apart = (settings.dwell + settings.persistence - 1).max(1) as usize;
        for pair in found.windows(2) {
            prop_assert!(pair[1] - pair[0] >= apart, "{found:?}");
        }
        prop_assert!(found.first().is_none_or(|&first| first + 1 >= settings.persistence as usize));
    }

    #[test]
    fn constant_readings_change_at_most_once(settings in any_settings(), reading in any_reading()) {
        let states = after(&settings, std::iter::repeat_n(reading, 100));
        prop_assert!(changes(&states).len() <= 1);
        prop_assert_eq!(states[60].mode, states[99].mode);
    }

    #[test]
    fn noise_inside_the_band_changes_nothing(
        settings in any_settings(), shares in prop::collection::vec(0.40_f32..=0.75, 100), start in 0.0_f32..1.2,
    ) {
        let readings = std::iter::repeat_n(share(start), 50).chain(shares.into_iter().map(share));
        let states = after(&settings, readings);
        prop_assert!(changes(&states).iter().all(|&index| index < 50));
    }

    #[test]
    fn mode_and_precision_agree(settings in any_settings(), readings in prop::collection::vec(any_reading(), 1..100)) {
        for state in after(&settings, readings) {
            match state.mode {
                Mode::HbmOptimized => prop_assert_eq!(state.precision, KvPrecision::Q4),
                Mode::FullPrecision | Mode::Fallback => prop_assert_eq!(state.precision, KvPrecision::F16),
                Mode::ThermalThrottled => {}
            }
        }
    }

    #[test]
    fn heat_changes_no_precision_and_ends_below_the_margin(readings in prop::collection::vec(any_reading(), 1..60)) {
        let settings = Settings::default();
        let mut state = State::default();
        for reading in readings {
            let before = state;
            state = decide(&settings, &state, &reading);
            if state.mode == Mode::ThermalThrottled {
                prop_assert_eq!(state.precision, before.precision);
            }
            if let Some(temperature) = reading.temperature_c {
                prop_assert!(temperature < 75.0 || state.mode == Mode::ThermalThrottled);
                prop_assert!(temperature > 70.0 || state.mode != Mode::ThermalThrottled);
            }
        }
    }
}

#[test]
fn the_policies_are_each_other_s_inverse() {
    for (policy, low, high) in [
        (Policy::Idle, KvPrecision::Q4, KvPrecision::F16),
        (Policy::Saturated, KvPrecision::F16, KvPrecision::Q4),
    ] {
        let settings = Settings { policy, ..Settings::default() };
        let states = after(&settings, (0..80).map(|index| share(if index < 40 { 0.2 } else { 0.9 })));
        assert_eq!((states[39].precision, states[79].precision), (low, high), "{policy:?}");
        let lower = states.iter().find(|state| state.precision == KvPrecision::Q4).unwrap();
        assert_eq!(lower.mode, Mode::HbmOptimized);
    }
}

/// Temperatures, the last of them for ever.
struct Fake(Vec<f32>);

impl Sensor for Fake {
    fn read(&mut self) -> SensorReading {
        let temperature = if self.0.len() > 1 { self.0.remove(0) } else { self.0[0] };
        SensorReading { temperature_c: Some(temperature), clock_mhz: Some(1500), memory_clock_mhz: None }
    }
}

fn observe(governor: &Governor, readings: u32, bytes: u64) {
    for _ in 0..readings * STEPS_OF_A_READING {
        governor.observe(&Traffic { rows: 1, bytes: bytes / 2, full_bytes: bytes, seconds: 0.01 });
    }
}

#[test]
fn steps_become_readings_and_readings_a_log() {
    let governor = Governor::new(Settings::default());
    observe(&governor, 5, 1000);
    assert_eq!((governor.report().mode, governor.report().decisions.len()), (Mode::Fallback, 0));
    governor.attach(1e9, Some(Box::new(Fake(vec![50.0, 50.0, 50.0, 80.0, 72.0, 69.0]))));
    // 1 MB in 10 ms are a tenth of the peak.
    observe(&governor, 3, 1_000_000);
    let report = governor.report();
    assert_eq!((report.mode, report.precision), (Mode::HbmOptimized, KvPrecision::Q4));
    let last = report.decisions.last().unwrap();
    assert!(
        (last.demand_share.unwrap() - 0.1).abs() < 1e-6 && (last.achieved_share.unwrap() - 0.05).abs() < 1e-6
    );
    assert_eq!(
        (last.reading, last.step, last.sensor.clock_mhz),
        (8, 8 * u64::from(STEPS_OF_A_READING), Some(1500))
    );
    let modes = [Mode::ThermalThrottled, Mode::ThermalThrottled, Mode::HbmOptimized].map(|mode| {
        observe(&governor, 1, 1_000_000);
        (governor.report().mode, mode)
    });
    assert!(modes.iter().all(|(found, expected)| found == expected), "{modes:?}");
    // Steps of many rows say nothing of memory.
    for _ in 0..100 {
        governor.observe(&Traffic { rows: 64, bytes: 0, full_bytes: 0, seconds: 1.0 });
    }
    assert_eq!(governor.report().decisions.len(), report.decisions.len() + 2);
}

#[test]
fn the_log_is_bounded() {
    let governor = Governor::new(Settings::default());
    let temperatures = (0..LOG_LIMIT * 2 + 20).map(|index| if index % 2 == 0 { 80.0 } else { 60.0 });
    governor.attach(1e9, Some(Box::new(Fake(temperatures.collect()))));
    observe(&governor, LOG_LIMIT as u32 + 11, 5_000_000);
    let report = governor.report();
    assert_eq!((report.decisions.len(), report.forgotten), (LOG_LIMIT, 11));
}

#[test]
fn plans_get_what_is_in_force() {
    let candidates = [Candidate { pending: 1, guesses: 0, decoding: true }];
    let governor = Governor::new(Settings { persistence: 1, ..Settings::default() });
    governor.attach(1e9, None);
    let exact = || Box::new(ExactPlanner::default());
    let mut governed = PrecisionPlanner::governed(exact(), governor.clone());
    let mut fixed = PrecisionPlanner::fixed(exact(), KvPrecision::Q8);
    let mut plan = Plan::default();
    let mut rows = Vec::new();
    governed.rows(&candidates, &mut rows);
    assert_eq!(rows, [1]);
    governed.fill(&mut [], &[], &mut plan).unwrap();
    assert_eq!(plan.kv_precision, KvPrecision::F16);
    observe(&governor, 1, 1000);
    governed.fill(&mut [], &[], &mut plan).unwrap();
    assert_eq!(plan.kv_precision, KvPrecision::Q4);
    fixed.fill(&mut [], &[], &mut plan).unwrap();
    assert_eq!(plan.kv_precision, KvPrecision::Q8);
}
