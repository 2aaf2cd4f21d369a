//! The bound: its numbers, its shape, and how often it is wrong when the true rate is known.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test stops at what is wrong")]

mod common;

use common::Random;
use proptest::prelude::*;
use zlrs_graph::{ALPHA, Preset, largest_sum, printed, trials_needed, upper_limit};

#[test]
fn trials_needed_are_the_published_numbers() {
    let strict = Preset::Strict.limit();
    assert_eq!(trials_needed(strict, 0, ALPHA), 3232);
    assert_eq!(trials_needed(strict, 1, ALPHA), 7160);
    assert_eq!(trials_needed(strict, 2, ALPHA), 9233);
    assert_eq!(trials_needed(Preset::Standard.limit(), 0, ALPHA), 647);
    assert_eq!(trials_needed(Preset::Trial.limit(), 0, ALPHA), 324);
    assert!(upper_limit(3231, 0, ALPHA) > strict && upper_limit(3232, 0, ALPHA) <= strict);
}

#[test]
fn nothing_known_bounds_nothing() {
    assert_eq!(upper_limit(0, 0, ALPHA), 1.0);
    assert_eq!(upper_limit(1, 0, ALPHA), 1.0);
    assert_eq!(upper_limit(5, 5, ALPHA), 1.0);
}

#[test]
fn a_comparator_that_misses_errors_widens_what_is_printed() {
    assert_eq!(printed(0.001, 0.0), 0.001);
    assert!((printed(0.001, 0.5) - 0.002).abs() < 1e-15);
    assert_eq!(printed(0.9, 0.5), 1.0);
}

proptest! {
    #[test]
    fn the_limit_falls_with_trials_and_rises_with_wrong_ones(
        trials in 1_u64..1_000_000, wrong in 0_u64..500, alpha in 0.001_f64..0.5,
    ) {
        let here = upper_limit(trials, wrong, alpha);
        prop_assert!(here > 0.0 && here <= 1.0);
        prop_assert!(upper_limit(trials + 1, wrong, alpha) <= here);
        prop_assert!(upper_limit(trials, wrong + 1, alpha) >= here);
        prop_assert!(upper_limit(trials, wrong, alpha / 2.0) >= here);
        // Never below the rate that was seen.
        prop_assert!(here >= (wrong as f64 / trials as f64).min(1.0) * 0.999);
    }

    #[test]
    fn the_largest_sum_solves_its_equation(wrong in 0_u64..200, alpha in 0.001_f64..0.5) {
        let naive = |t: f64| {
            let s = wrong as f64;
            let infinite = if wrong == 0 { 0.6 * t.exp() } else { 0.0 };
            infinite
                + 0.2 * ((1.0 - (-2.0_f64).exp()) * t - 2.0 * s).exp()
                + 0.2 * ((1.0 - (-1.0_f64).exp()) * t - s).exp()
        };
        let sum = largest_sum(wrong, alpha);
        prop_assert!(naive(sum * (1.0 - 1e-9)) <= 1.0 / alpha && naive(sum * (1.0 + 1e-9)) >= 1.0 / alpha);
    }
}

/// T* by the number of wrong trials.
fn limits() -> Vec<f64> {
    (0..2000).map(|wrong| largest_sum(wrong, ALPHA)).collect()
}

/// The probability that the mean error rate is ever above the limit within `trials` trials of a rate that depends on
/// the trial alone. Exact: the number of wrong trials is all there is to know of the past.
fn miss_probability(trials: u64, rate: impl Fn(u64) -> f64) -> f64 {
    let limits = limits();
    let (mut sum, mut missed) = (0.0, 0.0);
    // By the number of wrong trials: the probability of it, with no miss so far.
    let mut running = vec![1.0];
    for trial in 0..trials {
        let p = rate(trial);
        sum += p;
        let mut next = vec![0.0; running.len() + 1];
        for (wrong, probability) in running.iter().enumerate() {
            next[wrong] += probability * (1.0 - p);
            next[wrong + 1] += probability * p;
        }
        for (wrong, probability) in next.iter_mut().enumerate() {
            if sum > limits[wrong] {
                missed += *probability;
                *probability = 0.0;
            }
        }
        while next.last().is_some_and(|probability| *probability < 1e-30) {
            next.pop();
        }
        running = next;
    }
    missed
}

#[test]
fn the_bound_misses_a_constant_rate_with_at_most_one_in_twenty() {
    for (rate, trials) in [(0.0005, 20_000), (0.001, 20_000), (0.01, 5000), (0.1, 1000), (0.9, 200)] {
        let missed = miss_probability(trials, |_| rate);
        assert!(missed <= ALPHA, "rate {rate}: {missed}");
    }
    // A bound that hardly ever failed would be far too wide to be of use.
    let missed = miss_probability(20_000, |_| 0.001);
    assert!(missed > 0.045, "{missed}");
}

#[test]
fn the_bound_holds_while_the_rate_drifts() {
    let trials = 10_000;
    let rising = miss_probability(trials, |trial| 0.02 * trial as f64 / trials as f64);
    let falling = miss_probability(trials, |trial| 0.01 / (1.0 + trial as f64 / 100.0));
    let waves = miss_probability(trials, |trial| if trial / 500 % 2 == 0 { 0.0002 } else { 0.004 });
    let late = miss_probability(trials, |trial| if trial < 3500 { 0.0 } else { 0.02 });
    for missed in [rising, falling, waves, late] {
        assert!(missed <= ALPHA, "{missed}");
    }
}

/// In how many of `runs` the mean error rate is ever above the limit, by simulation, for rates that may depend on
/// what was seen.
fn misses(runs: u64, trials: u64, seed: u64, rate: impl Fn(u64, u64) -> f64) -> u64 {
    let limits = limits();
    let mut random = Random(seed);
    (0..runs)
        .filter(|_| {
            let (mut sum, mut wrong) = (0.0, 0_u64);
            (0..trials).any(|trial| {
                let p = rate(trial, wrong);
                sum += p;
                wrong += u64::from(random.happens(p));
                sum > limits[wrong as usize]
            })
        })
        .count() as u64
}

const RUNS: u64 = 4000;

/// What α allows, and three standard deviations of chance.
fn allowed() -> u64 {
    let runs = RUNS as f64;
    (runs * ALPHA + 3.0 * (runs * ALPHA * (1.0 - ALPHA)).sqrt()) as u64
}

#[test]
fn simulated_runs_miss_as_often_as_computed() {
    for (seed, rate, trials) in [(1, 0.001, 10_000), (2, 0.01, 2000), (3, 0.1, 500)] {
        let exact = RUNS as f64 * miss_probability(trials, |_| rate);
        let missed = misses(RUNS, trials, seed, |_, _| rate);
        assert!(
            (missed as f64 - exact).abs() < 4.0 * exact.sqrt(),
            "rate {rate}: {missed}, computed {exact}"
        );
        assert!(missed <= allowed(), "rate {rate}: {missed} of {RUNS}");
    }
}

#[test]
fn the_bound_holds_against_a_rate_that_knows_what_was_seen() {
    // It stays bad only as long as nobody has noticed, and again right after it was noticed.
    let hiding = misses(RUNS, 5000, 8, |_, wrong| if wrong == 0 { 0.003 } else { 0.0001 });
    let returning =
        misses(RUNS, 5000, 9, |trial, wrong| if trial % 1000 < 300 / (wrong + 1) { 0.02 } else { 0.0 });
    assert!(hiding <= allowed() && returning <= allowed(), "{hiding}, {returning} of {RUNS}");
}
