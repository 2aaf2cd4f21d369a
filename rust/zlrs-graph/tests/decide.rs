//! Decisions: equal inputs give equal outcomes, and a hit means that every condition held.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test stops at what is wrong")]

use proptest::prelude::*;
use zlrs_graph::{
    CLOCK_SLACK_MS, Credential, Digest, EntryFacts, Inputs, LookupFacts, Outcome, Versions, decide,
};
use zlrs_wire::{Reason, Refusal};

const NOW_MS: u64 = 1_800_000_000_000;
const TTL_MS: u64 = 86_400_000;
const WINDOW_MS: u64 = 900_000;
const HOUR_MS: u64 = 3_600_000;

fn entry(created_ms: u64) -> LookupFacts {
    LookupFacts::Found(EntryFacts {
        created_ms,
        expires_ms: created_ms + TTL_MS,
        answer_hash: Digest::of(b"answer"),
        versions: Versions::CURRENT,
    })
}

/// Inputs of a hit.
fn good() -> Inputs {
    Inputs {
        refusal: None,
        in_service: true,
        lookup: entry(NOW_MS - 1000),
        unfit: None,
        credential: Credential { accepted_ms: Some(NOW_MS - 500), refused_ms: None },
        credential_window_ms: Some(WINDOW_MS),
        ttl_ms: TTL_MS,
        unchecked_ms: None,
        check_within_ms: Some(HOUR_MS),
        now_ms: NOW_MS,
        latest_ms: NOW_MS,
    }
}

fn miss(reason: Reason) -> Outcome {
    Outcome::Miss(Refusal::whole(reason))
}

#[test]
fn each_condition_alone_prevents_the_hit() {
    let volatile = Refusal::whole(Reason::Volatile);
    let unfit = Refusal::new(Reason::UsageUnknown, "usage");
    let changed = |change: &dyn Fn(&mut Inputs)| {
        let mut inputs = good();
        change(&mut inputs);
        decide(&inputs)
    };
    assert_eq!(decide(&good()), Outcome::Hit);
    let cases: Vec<(Outcome, Outcome)> = vec![
        (changed(&|i| i.refusal = Some(volatile.clone())), Outcome::Skipped(volatile.clone())),
        (changed(&|i| i.in_service = false), Outcome::Skipped(Refusal::whole(Reason::StoreUnavailable))),
        (changed(&|i| i.unfit = Some(unfit.clone())), Outcome::Miss(unfit.clone())),
        (changed(&|i| i.lookup = LookupFacts::Absent), miss(Reason::NoEntry)),
        (changed(&|i| i.lookup = LookupFacts::NotAsked), miss(Reason::NoEntry)),
        (changed(&|i| i.lookup = LookupFacts::Expired), miss(Reason::Expired)),
        (changed(&|i| i.lookup = LookupFacts::Corrupt), miss(Reason::StoreCorrupt)),
        (changed(&|i| i.lookup = LookupFacts::Slow), miss(Reason::StoreUnavailable)),
        (changed(&|i| i.lookup = LookupFacts::Behind), miss(Reason::StoreUnavailable)),
        (changed(&|i| i.lookup = LookupFacts::Unavailable), miss(Reason::StoreUnavailable)),
        (changed(&|i| i.credential = Credential::default()), miss(Reason::CredentialUnproven)),
        (changed(&|i| i.credential.refused_ms = Some(NOW_MS - 400)), miss(Reason::CredentialLocked)),
        (changed(&|i| i.credential.refused_ms = i.credential.accepted_ms), miss(Reason::CredentialLocked)),
        (
            changed(&|i| {
                i.credential.accepted_ms = None;
                i.credential.refused_ms = Some(0);
            }),
            miss(Reason::CredentialLocked),
        ),
        (changed(&|i| i.latest_ms = NOW_MS + CLOCK_SLACK_MS + 1), miss(Reason::ClockBackward)),
        (changed(&|i| i.lookup = entry(NOW_MS + 1)), miss(Reason::ClockBackward)),
        (changed(&|i| i.lookup = entry(NOW_MS - TTL_MS)), miss(Reason::Expired)),
        (changed(&|i| i.ttl_ms = 1000), miss(Reason::Expired)),
        (changed(&|i| i.unchecked_ms = Some(NOW_MS - HOUR_MS)), miss(Reason::Recheck)),
    ];
    for (number, (given, expected)) in cases.into_iter().enumerate() {
        assert_eq!(given, expected, "case {number}");
    }
    let other_rules = |versions| {
        let LookupFacts::Found(facts) = entry(NOW_MS - 1000) else { unreachable!() };
        decide(&Inputs { lookup: LookupFacts::Found(EntryFacts { versions, ..facts }), ..good() })
    };
    let current = Versions::CURRENT;
    assert_eq!(other_rules(Versions { guards: current.guards + 1, ..current }), miss(Reason::NoEntry));
    assert_eq!(other_rules(Versions { answer: current.answer + 1, ..current }), miss(Reason::NoEntry));
    // The same route merges no wordings, so their rules do not matter to it.
    assert_eq!(other_rules(Versions { canon: 9, comparator: 9, ..current }), Outcome::Hit);
}

#[test]
fn what_just_holds_is_a_hit() {
    for change in [
        (|i| i.lookup = entry(NOW_MS)) as fn(&mut Inputs),
        |i| i.lookup = entry(NOW_MS - TTL_MS + 1),
        |i| i.latest_ms = NOW_MS + CLOCK_SLACK_MS,
        |i| i.credential.accepted_ms = Some(NOW_MS - WINDOW_MS),
        |i| i.credential.accepted_ms = Some(NOW_MS + CLOCK_SLACK_MS),
        |i| i.credential.refused_ms = Some(NOW_MS - 501),
        |i| i.unchecked_ms = Some(NOW_MS - HOUR_MS + 1),
        |i| (i.unchecked_ms, i.check_within_ms) = (Some(0), None),
        |i| {
            i.credential_window_ms = None;
            i.credential = Credential { accepted_ms: None, refused_ms: Some(NOW_MS) };
        },
    ] {
        let mut inputs = good();
        change(&mut inputs);
        assert_eq!(decide(&inputs), Outcome::Hit, "{inputs:?}");
    }
}

fn time() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => (NOW_MS - 2 * TTL_MS)..(NOW_MS + 2 * TTL_MS),
        2 => (NOW_MS - 3000)..(NOW_MS + 3000),
        1 => prop_oneof![Just(0), Just(u64::MAX), Just(u64::MAX - 1)],
    ]
}

fn lookup() -> impl Strategy<Value = LookupFacts> {
    let found = (time(), time(), any::<[u16; 4]>()).prop_map(|(created_ms, expires_ms, [canon, a, b, c])| {
        let current = Versions::CURRENT;
        let versions = Versions {
            canon,
            guards: if a % 8 == 0 { a } else { current.guards },
            comparator: b,
            answer: if c % 8 == 0 { c } else { current.answer },
        };
        LookupFacts::Found(EntryFacts { created_ms, expires_ms, answer_hash: Digest::of(b"x"), versions })
    });
    let nothing = prop_oneof![
        Just(LookupFacts::Absent),
        Just(LookupFacts::Expired),
        Just(LookupFacts::Corrupt),
        Just(LookupFacts::Slow),
        Just(LookupFacts::Behind),
        Just(LookupFacts::Unavailable),
        Just(LookupFacts::NotAsked),
    ];
    prop_oneof![8 => found, 1 => nothing]
}

fn refusal() -> impl Strategy<Value = Option<Refusal>> {
    let some = (prop::sample::select(Reason::ALL), "[ -~]{0,12}")
        .prop_map(|(reason, path)| Some(Refusal::new(reason, path)));
    prop_oneof![6 => Just(None), 1 => some]
}

fn inputs() -> impl Strategy<Value = Inputs> {
    let credential = (prop::option::of(time()), prop::option::weighted(0.2, time()))
        .prop_map(|(accepted_ms, refused_ms)| Credential { accepted_ms, refused_ms });
    let window = prop_oneof![Just(None), Just(Some(WINDOW_MS)), any::<u64>().prop_map(Some)];
    let ttl = prop_oneof![Just(TTL_MS), any::<u64>()];
    let check = (prop::option::of(time()), prop::option::of(1_u64..10_000_000));
    (
        refusal(),
        prop::bool::weighted(0.9),
        lookup(),
        refusal(),
        credential,
        window,
        ttl,
        (time(), time()),
        check,
    )
        .prop_map(
            |(
                refusal,
                in_service,
                lookup,
                unfit,
                credential,
                credential_window_ms,
                ttl_ms,
                (now_ms, latest_ms),
                (unchecked_ms, check_within_ms),
            )| {
                let latest_ms = latest_ms.max(now_ms);
                Inputs {
                    refusal,
                    in_service,
                    lookup,
                    unfit,
                    credential,
                    credential_window_ms,
                    ttl_ms,
                    unchecked_ms,
                    check_within_ms,
                    now_ms,
                    latest_ms,
                }
            },
        )
}

/// The conditions of a hit as the definition lists them, in wide arithmetic.
fn may_hit(inputs: &Inputs) -> bool {
    let LookupFacts::Found(entry) = inputs.lookup else { return false };
    let wide = |value: u64| i128::from(value);
    let (now, slack) = (wide(inputs.now_ms), wide(CLOCK_SLACK_MS));
    let credential = inputs.credential_window_ms.is_none_or(|window| {
        inputs.credential.accepted_ms.is_some_and(|accepted| {
            let accepted_after = inputs.credential.refused_ms.is_none_or(|refused| accepted > refused);
            let age = now - wide(accepted);
            accepted_after && age >= -slack && age <= wide(window)
        })
    });
    inputs.refusal.is_none()
        && inputs.in_service
        && inputs.unfit.is_none()
        && entry.versions.guards == Versions::CURRENT.guards
        && entry.versions.answer == Versions::CURRENT.answer
        && credential
        && wide(inputs.latest_ms) - now <= slack
        && (0..wide(inputs.ttl_ms)).contains(&(now - wide(entry.created_ms)))
        && now < wide(entry.expires_ms)
        && inputs
            .unchecked_ms
            .zip(inputs.check_within_ms)
            .is_none_or(|(since, within)| now - wide(since) < wide(within))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_hit_is_exactly_what_the_definition_says(inputs in inputs()) {
        prop_assert_eq!(decide(&inputs) == Outcome::Hit, may_hit(&inputs));
    }

    #[test]
    fn a_recorded_decision_repeats(inputs in inputs()) {
        let recorded = serde_json::to_string(&inputs).unwrap();
        let read: Inputs = serde_json::from_str(&recorded).unwrap();
        prop_assert_eq!(&read, &inputs);
        prop_assert_eq!(decide(&read), decide(&inputs));
    }

    /// Only a skipped request may hide that nothing was looked at.
    #[test]
    fn every_refusal_has_its_reason(inputs in inputs()) {
        match decide(&inputs) {
            Outcome::Hit => {}
            Outcome::Skipped(refusal) => {
                prop_assert!(inputs.refusal == Some(refusal) || !inputs.in_service);
            }
            Outcome::Miss(_) => prop_assert!(inputs.refusal.is_none() && inputs.in_service),
        }
    }
}
