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
    assert_eq!(checked_hits(1, 5000), [10, 30, 100, 300, 1000, 3000]);
}

#[test]
fn slow_hits_are_checked_after_three_quarters_of_an_hour() {
    // One hit in ten minutes, the first a minute after the answer: the sixth is the first that is late enough. From
    // then on each fifth, and the tenth and thirtieth by their number.
    assert_eq!(checked_hits(600_000, 40), [6, 10, 15, 20, 25, 30, 35, 40]);
    // One hit in two hours: each is late.
    assert_eq!(checked_hits(7_200_000, 4), [2, 3, 4]);
}

#[test]
fn a_young_answer_is_not_checked_and_its_check_is_owed() {
    let (mut served, entry) = (Served::default(), entry());
    for hit in 0..20 {
        assert_eq!(served.hit(&RULES, &entry, BORN_MS, BORN_MS + hit), None);
    }
    assert_eq!(served.hit(&RULES, &entry, BORN_MS, OLD_ENOUGH_MS - 1), None);
    assert_eq!(served.hit(&RULES, &entry, BORN_MS, OLD_ENOUGH_MS), Some(Due::Hits));
}

/// Nine hits: the next is due.
fn about_to_be_checked(entry: &Digest) -> Served {
    let mut served = Served::default();
    for _ in 0..9 {
        assert_eq!(served.hit(&RULES, entry, BORN_MS, OLD_ENOUGH_MS), None);
    }
    served
}

#[test]
fn one_check_is_under_way_at_a_time_and_a_lost_one_is_made_again() {
    let entry = entry();
    let mut served = about_to_be_checked(&entry);
    assert_eq!(served.hit(&RULES, &entry, BORN_MS, OLD_ENOUGH_MS), Some(Due::Hits));
    assert_eq!(served.hit(&RULES, &entry, BORN_MS, OLD_ENOUGH_MS + 59_999), None);
    assert_eq!(served.hit(&RULES, &entry, BORN_MS, OLD_ENOUGH_MS + 60_000), Some(Due::Hits));
    // The upstream answered with an error: still owed, and not at once.
    served.checked(false, OLD_ENOUGH_MS + 60_100);
    assert_eq!(served.hit(&RULES, &entry, BORN_MS, OLD_ENOUGH_MS + 60_200), None);
    assert_eq!(served.hit(&RULES, &entry, BORN_MS, OLD_ENOUGH_MS + 120_000), Some(Due::Hits));
}

#[test]
fn looking_whether_a_check_is_due_changes_nothing() {
    let entry = entry();
    let mut served = about_to_be_checked(&entry);
    let before = served;
    assert_eq!(served.due(&RULES, &entry, BORN_MS, OLD_ENOUGH_MS), Some(Due::Hits));
    assert_eq!(served, before);
    assert_eq!(served.hit(&RULES, &entry, BORN_MS, OLD_ENOUGH_MS), Some(Due::Hits));
    assert_eq!(served.due(&RULES, &entry, BORN_MS, OLD_ENOUGH_MS), None);
}

#[test]
fn a_doubt_is_checked_at_the_next_hit_however_young_the_answer_is() {
    let entry = entry();
    let mut served = Served::default();
    served.doubt();
    assert_eq!(served.hit(&RULES, &entry, BORN_MS, BORN_MS + 1), Some(Due::Doubt));
    served.checked(false, BORN_MS + 2);
    assert_eq!(served.hit(&RULES, &entry, BORN_MS, BORN_MS + 60_001), Some(Due::Doubt));
    served.checked(true, BORN_MS + 60_002);
    assert_eq!(served.hit(&RULES, &entry, BORN_MS, BORN_MS + 60_003), None);
}

#[test]
fn the_first_serve_without_a_conclusive_check_is_remembered() {
    let entry = entry();
    let mut served = Served::default();
    assert_eq!(served.unchecked_ms(), None);
    served.hit(&RULES, &entry, BORN_MS, BORN_MS + 5);
    served.hit(&RULES, &entry, BORN_MS, BORN_MS + 9);
    served.checked(false, BORN_MS + 10);
    assert_eq!(served.unchecked_ms(), Some(BORN_MS + 5));
    served.checked(true, BORN_MS + 11);
    assert_eq!(served.unchecked_ms(), None);
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
    let (born_ms, noon_ms) = (midnight_ms - 600_000, midnight_ms + 600_000);
    let mut served = Served::default();
    assert_eq!(served.hit(&RULES, first[0], born_ms, noon_ms), Some(Due::Daily));
    served.checked(true, noon_ms + 4);
    assert_eq!(served.hit(&RULES, first[0], born_ms, noon_ms + 5), None, "once a day");
}

proptest! {
    #[test]
    fn scheduled_numbers_are_one_and_three_of_each_decade_from_ten_on(hits in 0_u64..10_000_000) {
        let naive = (1..8).flat_map(|e| [10_u64.pow(e), 3 * 10_u64.pow(e)]).filter(|n| *n <= hits).max();
        prop_assert_eq!(last_scheduled(hits), naive.unwrap_or(0));
    }

    #[test]
    fn whatever_goes_stale_is_gone_an_hour_after_it_was_first_served_stale(
        gaps in prop::collection::vec(1_u64..9_000_000, 1..100), stale_from in 0_usize..50,
    ) {
        let (mut served, entry) = (Served::default(), entry());
        let (mut now_ms, mut first_ms) = (OLD_ENOUGH_MS, None);
        for (index, gap) in gaps.into_iter().enumerate() {
            now_ms += gap;
            let is_stale = index >= stale_from;
            if served.unchecked_ms().is_some_and(|since_ms| now_ms - since_ms >= RULES.at_most_ms) {
                // Overdue: not served, and the fresh answer takes the place of this one.
                if is_stale { break }
                served = Served::default();
                continue;
            }
            if is_stale {
                let first_ms = *first_ms.get_or_insert(now_ms);
                prop_assert!(now_ms - first_ms < RULES.at_most_ms);
            }
            if served.hit(&RULES, &entry, BORN_MS, now_ms).is_some() {
                if is_stale { break }
                served.checked(true, now_ms);
            }
        }
    }
}

#[test]
fn the_largest_numbers_do_not_overflow() {
    assert_eq!(last_scheduled(u64::MAX), 10_000_000_000_000_000_000);
}
