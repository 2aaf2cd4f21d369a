//! The freshness alarm: how seldom it is false, and how soon it is right.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test stops at what is wrong")]

mod common;

use common::Random;
use zlrs_graph::{ALARM_THRESHOLD, Alarm};

/// Trials until the alarm at a constant rate, from `alarm` on; at most `limit`.
fn trials_until_alarm(random: &mut Random, mut alarm: Alarm, rate: f64, limit: u64) -> u64 {
    (1..=limit).find(|_| alarm.observe(random.happens(rate))).unwrap_or(limit)
}

fn settled() -> Alarm {
    let mut alarm = Alarm::default();
    assert!(!(0..5000).any(|_| alarm.observe(false)));
    alarm
}

#[test]
fn clean_running_never_raises_it() {
    let alarm = settled();
    // (1 + R)·0.991 = R at 110.1
    assert!((alarm.value() - 0.991 / 0.009).abs() < 0.01, "{}", alarm.value());
    assert!(alarm.value() < ALARM_THRESHOLD);
}

#[test]
fn one_error_does_not_raise_it_and_two_close_ones_do() {
    let mut alarm = settled();
    assert!(!alarm.observe(true));
    let mut apart = alarm;
    assert!(!(0..13).any(|_| alarm.observe(false)) && alarm.observe(true), "13 clean between them");
    assert!(!(0..14).any(|_| apart.observe(false)) && !apart.observe(true), "14 clean between them");
    assert_eq!(alarm.value(), 0.0, "it starts again after an alarm");
}

#[test]
fn at_the_accepted_rate_false_alarms_are_at_least_ten_thousand_trials_apart() {
    let mut random = Random(11);
    let runs = 400;
    let total: u64 =
        (0..runs).map(|_| trials_until_alarm(&mut random, Alarm::default(), 0.001, 1_000_000)).sum();
    let mean = total as f64 / f64::from(runs);
    assert!(mean >= 10_000.0, "{mean}");
    assert!(mean < 40_000.0, "{mean}: so seldom that it would be of no use");
}

#[test]
fn it_comes_soon_after_things_go_bad() {
    // (rate, median trials until the alarm at most)
    for (seed, rate, most) in [(12, 0.01, 300), (13, 0.03, 80), (14, 0.1, 25), (15, 0.5, 5)] {
        let mut random = Random(seed);
        let mut delays: Vec<u64> =
            (0..1001).map(|_| trials_until_alarm(&mut random, settled(), rate, 1_000_000)).collect();
        delays.sort_unstable();
        assert!(delays[500] <= most, "rate {rate}: median {}", delays[500]);
    }
}
