//! The schedule of re-checks against a naive list of the published numbers.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test stops at what is wrong")]

use proptest::prelude::*;
use zlrs_graph::{Digest, Due, RecheckRules, Served, is_of_the_day, last_scheduled};

const RULES: RecheckRules = RecheckRules { least_age_ms: 60_000, at_most_ms: 3_600_000, patience_ms: 60_000 };
const BORN_MS: u64 = 1_800_000_000_000;
const OLD_ENOUGH_MS: u64 = BORN_MS + 60_000;

/// An entry that is in no day's share near these tests.
fn entry() -> Digest {
    (0_u64..1000)
        .map(|n| Digest::of(&n.to_le_bytes()))
        .find(|key| (0..100).all(|day| !is_of_the_day(key, BORN_MS + day * 86_400_000)))
        .unwrap()
}

fn checked_hits(step_ms: u64, hits: u64) -> Vec<u64> {
    let (mut served, entry) = (Served::default(), entry());
    (0..hits)
        .filter_map(|hit| {
            let now_ms = OLD_ENOUGH_MS + hit * step_ms;
            let due = served.hit(&RULES, &entry, BORN_MS, now_ms);
            if due.is_some() {
                served.checked(true, now_ms);
            }
            due.map(|_| hit + 1)
        })
        .collect()
}

#[test]
fn hits_in_quick_succession_are_checked_by_their_number() {
    assert_eq!(checked_hits(1, 5000), [1, 3, 10, 30, 100, 300, 1000, 3000]);
}

#[test]
fn slow_hits_are_checked_once_an_hour() {
    // One hit in ten minutes: 1, 3, then an hour after the last check, but for the numbers that come before.
    let checked = checked_hits(600_000, 40);
    assert_eq!(checked, [1, 3, 9, 10, 16, 22, 28, 30, 36]);
}

#[test]
fn a_young_answer_is_not_checked_and_its_check_is_owed() {
    let (mut served, entry) = (Served::default(), entry());
    for hit in 0..5 {
        assert_eq!(served.hit(&RULES, &entry, BORN_MS, BORN_MS + hit), None);
    }
    assert_eq!(served.hit(&RULES, &entry, BORN_MS, OLD_ENOUGH_MS - 1), None);
    assert_eq!(served.hit(&RULES, &entry, BORN_MS, OLD_ENOUGH_MS), Some(Due::Hits));
}

#[test]
fn one_check_is_under_way_at_a_time_and_a_lost_one_is_made_again() {
    let (mut served, entry) = (Served::default(), entry());
    assert_eq!(served.hit(&RULES, &entry, BORN_MS, OLD_ENOUGH_MS), Some(Due::Hits));
    assert_eq!(served.hit(&RULES, &entry, BORN_MS, OLD_ENOUGH_MS + 59_999), None);
    assert_eq!(served.hit(&RULES, &entry, BORN_MS, OLD_ENOUGH_MS + 60_000), Some(Due::Hits));
    // The upstream answered with an error: still owed, and not at once.
    served.checked(false, OLD_ENOUGH_MS + 60_100);
    assert_eq!(served.hit(&RULES, &entry, BORN_MS, OLD_ENOUGH_MS + 60_200), None);
    assert_eq!(served.hit(&RULES, &entry, BORN_MS, OLD_ENOUGH_MS + 120_000), Some(Due::Hits));
}

#[test]
fn a_thousandth_of_the_entries_is_checked_each_day_beside_the_schedule() {
    let keys: Vec<Digest> = (0_u64..200_000).map(|n| Digest::of(&n.to_le_bytes())).collect();
    let chosen = |day: u64| -> Vec<&Digest> {
        keys.iter().filter(|key| is_of_the_day(key, day * 86_400_000 + 5)).collect()
    };
    let (first, second) = (chosen(20_000), chosen(20_001));
    for count in [first.len(), second.len()] {
        assert!((130..270).contains(&count), "{count}");
    }
    assert!(first != second, "another share each day");

    let midnight_ms = 20_000 * 86_400_000;
    let (born_ms, noon_ms) = (midnight_ms - 7_200_000, midnight_ms + 600_000);
    let mut served = Served::default();
    for hit in 1..=3 {
        let due = served.hit(&RULES, first[0], born_ms, midnight_ms - 120_000 * (4 - hit));
        assert_eq!(due.is_some(), hit != 2, "hit {hit}");
        served.checked(due.is_some(), midnight_ms - 120_000 * (4 - hit));
    }
    assert_eq!(served.hit(&RULES, first[0], born_ms, noon_ms), Some(Due::Daily));
    served.checked(true, noon_ms + 4);
    assert_eq!(served.hit(&RULES, first[0], born_ms, noon_ms + 5), None, "once a day");
}

proptest! {
    #[test]
    fn scheduled_numbers_are_one_and_three_of_each_decade(hits in 0_u64..10_000_000) {
        let naive = (0..8).flat_map(|e| [10_u64.pow(e), 3 * 10_u64.pow(e)]).filter(|n| *n <= hits).max();
        prop_assert_eq!(last_scheduled(hits), naive.unwrap_or(0));
    }

    #[test]
    fn while_it_is_hit_no_hour_passes_without_a_check(gaps in prop::collection::vec(1_u64..900_000, 1..200)) {
        let (mut served, entry) = (Served::default(), entry());
        let (mut now_ms, mut checked_ms) = (OLD_ENOUGH_MS, BORN_MS);
        for gap in gaps {
            now_ms += gap;
            if served.hit(&RULES, &entry, BORN_MS, now_ms).is_some() {
                served.checked(true, now_ms);
                checked_ms = now_ms;
            }
            prop_assert!(now_ms - checked_ms < 3_600_000);
        }
    }
}

#[test]
fn the_largest_numbers_do_not_overflow() {
    assert_eq!(last_scheduled(u64::MAX), 10_000_000_000_000_000_000);
}
