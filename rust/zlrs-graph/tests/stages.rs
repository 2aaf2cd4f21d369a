//! The stages: what moves a class up and down, and what is served meanwhile.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test stops at what is wrong")]

use proptest::prelude::*;
use zlrs_graph::{CLEAN_NEEDED, Draw, FLOOR_AFTER, Observation, Progress, Step, falls_into};

const GOOD: Observation =
    Observation { is_wrong: false, was_served: true, bound_holds: true, alarm: false, may_serve: true };

fn at(step: Step) -> Progress {
    Progress { step, clean: 0 }
}

fn after(mut progress: Progress, seen: Observation, times: u64) -> Progress {
    for _ in 0..times {
        progress = progress.after(seen);
    }
    progress
}

#[test]
fn a_class_climbs_one_step_for_each_three_hundred_clean_trials() {
    let mut progress = at(Step::Shadow).after(GOOD);
    assert_eq!(progress, at(Step::Canary));
    for next in [Step::RampQuarter, Step::RampHalf, Step::Full] {
        let before = progress.step;
        progress = after(progress, GOOD, CLEAN_NEEDED - 1);
        assert_eq!(progress, Progress { step: before, clean: CLEAN_NEEDED - 1 });
        progress = progress.after(GOOD);
        assert_eq!(progress, at(next));
    }
    assert_eq!(after(progress, GOOD, 1000).step, Step::Full);
}

#[test]
fn forwarded_trials_count_and_a_served_one_completes_the_step() {
    let forwarded = Observation { was_served: false, ..GOOD };
    let progress = after(at(Step::Canary), forwarded, 10_000);
    assert_eq!(progress, Progress { step: Step::Canary, clean: 10_000 });
    assert_eq!(progress.after(GOOD), at(Step::RampQuarter));
    let almost = after(at(Step::Canary), forwarded, CLEAN_NEEDED - 2);
    assert_eq!(almost.after(GOOD).step, Step::Canary, "a served one too few");
}

#[test]
fn an_error_that_the_bound_bears_starts_the_count_of_its_step_again() {
    let wrong = Observation { is_wrong: true, ..GOOD };
    let progress = after(at(Step::RampHalf), GOOD, 299).after(wrong);
    assert_eq!(progress, at(Step::RampHalf));
}

#[test]
fn shares_are_the_published_ones() {
    let shares = |step: Step, clean| (step.serve_share(), step.check_share(clean));
    assert_eq!(shares(Step::Shadow, 0).0, 0.0);
    assert_eq!(shares(Step::Canary, 0), (0.05, 1.0));
    assert_eq!(shares(Step::RampQuarter, 0), (0.25, 0.1));
    assert_eq!(shares(Step::RampHalf, 0), (0.5, 0.1));
    assert_eq!(shares(Step::Full, FLOOR_AFTER - 1), (1.0, 0.01));
    assert_eq!(shares(Step::Full, FLOOR_AFTER), (1.0, 0.001));
}

const STEPS: [Step; 6] =
    [Step::Off, Step::Shadow, Step::Canary, Step::RampQuarter, Step::RampHalf, Step::Full];

proptest! {
    #[test]
    fn a_broken_bound_an_alarm_or_a_no_leads_to_shadow_from_everywhere(
        from in 1_usize..6, clean in 0_u64..300, which in 0_u8..3, is_wrong: bool, was_served: bool,
    ) {
        let seen = Observation {
            is_wrong,
            was_served,
            bound_holds: which != 0,
            alarm: which == 1,
            may_serve: which != 2,
        };
        prop_assert_eq!(Progress { step: STEPS[from], clean }.after(seen), at(Step::Shadow));
    }

    #[test]
    fn no_single_trial_climbs_more_than_a_step_and_off_stays_off(
        from in 0_usize..6, clean in 0_u64..300, bits in 0_u8..32,
    ) {
        let bit = |n: u8| bits >> n & 1 == 1;
        let seen = Observation {
            is_wrong: bit(0), was_served: bit(1), bound_holds: bit(2), alarm: bit(3), may_serve: bit(4),
        };
        let to = Progress { step: STEPS[from], clean }.after(seen).step;
        let place = STEPS.iter().position(|step| *step == to).unwrap();
        prop_assert!(place <= from + 1);
        prop_assert!((from == 0) == (place == 0));
    }

    #[test]
    fn draws_are_a_function_of_key_and_id(key: [u8; 32], id: Vec<u8>) {
        prop_assert_eq!(Draw::of(&key, &id), Draw::of(&key, &id));
    }
}

#[test]
fn draws_fall_into_a_share_as_often_as_it_says() {
    let draws: Vec<Draw> = (0_u32..100_000).map(|id| Draw::of(&[7; 32], &id.to_le_bytes())).collect();
    for share in [0.0, 0.001, 0.05, 0.25, 0.5, 1.0] {
        for pick in [|draw: &Draw| draw.serve, |draw: &Draw| draw.check] {
            let count = draws.iter().filter(|draw| falls_into(pick(draw), share)).count() as f64;
            let expected = share * 100_000.0;
            // Five standard deviations.
            let room = 5.0 * (100_000.0 * share * (1.0 - share)).sqrt();
            assert!((count - expected).abs() <= room, "{share}: {count}");
        }
    }
    // The two draws of a request are independent of each other.
    let both = draws.iter().filter(|draw| falls_into(draw.serve, 0.5) && falls_into(draw.check, 0.5)).count();
    assert!((24_000..26_000).contains(&both), "{both}");
}
