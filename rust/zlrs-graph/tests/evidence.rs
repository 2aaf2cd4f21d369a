//! Pools, causes, the gates of single entries and edges, and what all of it comes to over simulated traffic.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test stops at what is wrong")]

mod common;

use common::Random;
use zlrs_graph::{
    Agreement, AnswerKind, Cause, Class, Digest, Draw, EdgeRecord, Mode, Policy, Pool, Preset, Proposal,
    ProposalInputs, Route, Stability, Standing, Step, Trial, Versions, explore_threshold,
};

const STRICT: Policy = Policy { may_serve: true, preset: Preset::Strict };
const CLEAN: Trial = Trial { wrong: None, was_served: false };
const SERVED: Trial = Trial { wrong: None, was_served: true };
const WRONG: Trial = Trial { wrong: Some(Cause::Stale), was_served: false };

fn model(name: &str) -> Digest {
    Digest::of(name.as_bytes())
}

fn after(mut pool: Pool, trial: Trial, times: u64) -> Pool {
    for _ in 0..times {
        pool.observe(trial, STRICT, 1);
    }
    pool
}

#[test]
fn the_canary_begins_with_the_trial_that_proves_the_limit() {
    let pool = after(Pool::new(model("m"), 0), CLEAN, 3231);
    assert_eq!(pool.progress.step, Step::Shadow);
    let pool = after(pool, CLEAN, 1);
    assert_eq!((pool.progress.step, pool.trials, pool.wrong), (Step::Canary, 3232, 0));
    let pool = after(pool, SERVED, 900);
    assert_eq!(pool.progress.step, Step::Full);
}

#[test]
fn an_error_sends_a_young_full_class_to_shadow_and_it_comes_back_with_more_trials() {
    let pool = after(after(Pool::new(model("m"), 0), CLEAN, 3232), SERVED, 900);
    let pool = after(pool, WRONG, 1);
    assert_eq!((pool.progress.step, pool.demotions, pool.wrong), (Step::Shadow, 1, 1));
    let before_the_last = 7160 - pool.trials - 1;
    let pool = after(pool, CLEAN, before_the_last);
    assert_eq!(pool.progress.step, Step::Shadow);
    assert_eq!(after(pool, CLEAN, 1).progress.step, Step::Canary);
}

#[test]
fn an_old_class_bears_an_error_but_not_two_at_once() {
    let old = after(after(Pool::new(model("m"), 0), CLEAN, 50_000), SERVED, 900);
    let one = after(old.clone(), WRONG, 1);
    assert_eq!((one.progress.step, one.demotions), (Step::Full, 0));
    let two = after(one, WRONG, 1);
    assert!(old.upper() < 0.001, "the average would still allow it");
    assert_eq!((two.progress.step, two.trials, two.restarts), (Step::Shadow, 0, 1), "the alarm does not");
    assert_eq!((two.total_trials, two.causes), (50_902, [0, 2, 0, 0]), "totals stay");
}

#[test]
fn shadow_only_counts_and_never_climbs() {
    let mut pool = Pool::new(model("m"), 0);
    for _ in 0..5000 {
        pool.observe(CLEAN, Policy { may_serve: false, ..STRICT }, 1);
    }
    assert_eq!((pool.progress.step, pool.trials), (Step::Shadow, 5000));
    pool.observe(CLEAN, STRICT, 1);
    assert_eq!(pool.progress.step, Step::Canary);
}

#[test]
fn another_version_of_the_model_or_of_the_rules_begins_anew() {
    let mut pool = after(Pool::new(model("m-1"), 0), CLEAN, 4000);
    assert!(pool.speaks_for(&model("m-1")) && !pool.speaks_for(&model("m-2")));
    pool.note_model(&model("m-1"), 5);
    assert_eq!(pool.trials, 4000);
    pool.note_model(&model("m-2"), 5);
    assert_eq!((pool.trials, pool.progress.step, pool.since_ms), (0, Step::Shadow, 5));
    assert_eq!((pool.total_trials, pool.restarts, pool.demotions), (4000, 1, 1));

    let mut old = after(Pool::new(model("m"), 0), CLEAN, 4000);
    old.versions = Versions { comparator: u16::MAX, ..Versions::CURRENT };
    assert!(!old.speaks_for(&model("m")));
    old.note_model(&model("m"), 6);
    assert_eq!((old.trials, old.versions), (0, Versions::CURRENT));
}

#[test]
fn a_pool_is_the_same_after_being_written_and_read() {
    let pool = after(after(Pool::new(model("m"), 3), CLEAN, 100), WRONG, 1);
    let text = serde_json::to_string(&pool).unwrap();
    assert_eq!(serde_json::from_str::<Pool>(&text).unwrap(), pool);
}

#[test]
fn every_part_of_a_class_makes_a_pool_of_its_own() {
    let (tenant, other) = (Digest::of(b"a"), Digest::of(b"b"));
    let class = Class {
        route: Route::Canonical,
        rules: 2,
        kind: AnswerKind::Prose,
        language: "en",
        tenant: &tenant,
        upstream: "http://one",
        model: "m",
        means: b"",
    };
    let classes = [
        class,
        Class { route: Route::Edge, ..class },
        Class { rules: 1, ..class },
        Class { kind: AnswerKind::Closed, ..class },
        Class { language: "zh", ..class },
        Class { tenant: &other, ..class },
        Class { upstream: "http://two", ..class },
        Class { model: "n", ..class },
        Class { means: b"a judge", ..class },
        Class { language: "enh", upstream: "ttp://one", ..class },
    ];
    let pools: std::collections::BTreeSet<Digest> =
        classes.iter().map(|class| class.pool(&[1; 32])).collect();
    assert_eq!(pools.len(), classes.len());
    assert_ne!(class.pool(&[1; 32]), class.pool(&[2; 32]), "the key counts");
}

#[test]
fn the_cause_is_read_from_a_fresh_answer_to_the_stored_wording() {
    use Agreement::{Agree, Contradict, Undecided};
    assert_eq!(Cause::of(None), Cause::Unknown);
    assert_eq!(Cause::of(Some((Agree, Contradict))), Cause::Merge);
    assert_eq!(Cause::of(Some((Contradict, Agree))), Cause::Stale);
    assert_eq!(Cause::of(Some((Contradict, Undecided))), Cause::Unstable);
}

#[test]
fn an_entry_is_stable_after_two_answers_that_agree_later_than_any_doubt() {
    let fresh = Stability::default();
    assert!(!fresh.is_stable(None));
    let twice = fresh.after(true, 100);
    assert!(twice.is_stable(None) && twice.is_stable(Some(99)));
    assert!(!twice.is_stable(Some(100)));
    assert!(!twice.after(false, 101).is_stable(None), "the latest two differ");
    assert!(twice.after(true, 102).is_stable(Some(100)));
}

#[test]
fn an_edge_opens_after_five_clean_trials_on_two_entries_and_closes_for_ever() {
    let (one, two) = (Digest::of(b"1"), Digest::of(b"2"));
    let mut edge = EdgeRecord::default();
    for _ in 0..10 {
        edge.observe(&one, false);
    }
    assert!(!edge.is_open(), "one entry alone");
    edge.observe(&two, false);
    assert!(edge.is_open());
    edge.observe(&one, true);
    for _ in 0..1000 {
        edge.observe(&two, false);
    }
    assert!(!edge.is_open());

    let mut quick = EdgeRecord::default();
    for entry in [&one, &two, &one, &two] {
        quick.observe(entry, false);
        assert!(!quick.is_open());
    }
    quick.observe(&one, false);
    assert!(quick.is_open());
}

#[test]
fn load_lowers_the_threshold_of_exploring_within_its_limits() {
    assert_eq!(explore_threshold(0.0), 0.85);
    assert!((explore_threshold(0.375) - 0.785).abs() < 1e-12);
    for load in [0.75, 0.9, 1.0, 7.0, f64::INFINITY] {
        assert!((explore_threshold(load) - 0.72).abs() < 1e-12);
    }
    for load in [-1.0, f64::NAN] {
        assert_eq!(explore_threshold(load), 0.85);
    }
}

/// Traffic of one class through propose and observe: what is served wrong, when the true rate is known.
#[test]
fn simulated_classes_serve_when_they_are_good_and_hardly_ever_when_they_are_bad() {
    let mut random = Random(21);
    let mut serve = |rate: f64, requests: u64| -> (u64, u64) {
        let mut pool = Pool::new(model("m"), 0);
        let (mut served, mut wrong_served) = (0, 0);
        for request in 0..requests {
            let draw = Draw::of(&[3; 32], &request.to_le_bytes());
            let inputs = proposal_inputs(&pool, draw);
            let is_wrong = random.happens(rate);
            let (is_served, is_checked) = match zlrs_graph::propose(&inputs) {
                Proposal::Serve { recheck } => (true, recheck),
                Proposal::Trial => (false, true),
                other => panic!("{other:?}"),
            };
            served += u64::from(is_served);
            wrong_served += u64::from(is_served && is_wrong);
            if is_checked {
                let wrong = is_wrong.then_some(Cause::Unknown);
                pool.observe(Trial { wrong, was_served: is_served }, STRICT, 1);
            }
        }
        (served, wrong_served)
    };
    let (served, wrong) = serve(0.0, 60_000);
    assert!(served > 30_000, "a perfect class is served: {served}");
    assert_eq!(wrong, 0);
    // Ten classes that are ten times as bad as accepted.
    let (mut served, mut wrong) = (0, 0);
    for _ in 0..10 {
        let (more, bad) = serve(0.01, 20_000);
        served += more;
        wrong += bad;
    }
    assert!(served < 2000 && wrong <= 10, "{wrong} wrong of {served} served");
}

fn proposal_inputs(pool: &Pool, draw: Draw) -> ProposalInputs {
    use zlrs_graph::{Credential, EntryFacts, Inputs, LookupFacts};
    let facts = EntryFacts {
        created_ms: 1000,
        expires_ms: 100_000,
        answer_hash: Digest::default(),
        versions: Versions::CURRENT,
    };
    ProposalInputs {
        mode: Mode::Bounded,
        base: Inputs {
            refusal: None,
            in_service: true,
            lookup: LookupFacts::Found(facts),
            unfit: None,
            credential: Credential::default(),
            credential_window_ms: None,
            ttl_ms: 100_000,
            unchecked_ms: None,
            check_within_ms: Some(500),
            now_ms: 2000,
            latest_ms: 2000,
        },
        stability: Stability { agreements: 1, agreed_ms: 1500 },
        doubted_ms: None,
        guard: None,
        is_due: false,
        standing: Standing {
            step: pool.progress.step,
            trials: pool.trials,
            wrong: pool.wrong,
            clean_run: pool.clean_run,
            is_current: pool.speaks_for(&model("m")),
        },
        limit: Preset::Strict.limit(),
        draw,
        evidence_in_service: true,
    }
}

#[test]
fn each_condition_alone_keeps_an_answer_from_being_served() {
    use zlrs_graph::{LookupFacts, Nothing};
    let pool = after(after(Pool::new(model("m"), 0), CLEAN, 3232), SERVED, 900);
    let good = proposal_inputs(&pool, Draw { serve: 0, check: u32::MAX });
    let propose = |change: &dyn Fn(&mut ProposalInputs)| {
        let mut inputs = good.clone();
        change(&mut inputs);
        let text = serde_json::to_string(&inputs).unwrap();
        let again: ProposalInputs = serde_json::from_str(&text).unwrap();
        assert_eq!(again, inputs, "a record repeats its inputs");
        zlrs_graph::propose(&inputs)
    };
    assert_eq!(propose(&|_| {}), Proposal::Serve { recheck: false });
    assert_eq!(propose(&|inputs| inputs.draw.check = 0), Proposal::Serve { recheck: true });
    assert_eq!(propose(&|inputs| inputs.is_due = true), Proposal::Serve { recheck: true });
    assert_eq!(propose(&|inputs| inputs.base.unchecked_ms = Some(1501)), Proposal::Serve { recheck: false });
    assert_eq!(propose(&|inputs| inputs.base.unchecked_ms = Some(1500)), Proposal::Trial, "overdue");
    assert_eq!(propose(&|inputs| inputs.mode = Mode::Off), Proposal::Nothing(Nothing::Off));
    assert_eq!(propose(&|inputs| inputs.mode = Mode::Shadow), Proposal::Trial);
    assert_eq!(propose(&|inputs| inputs.evidence_in_service = false), Proposal::Trial);
    assert_eq!(propose(&|inputs| inputs.standing.is_current = false), Proposal::Trial);
    assert_eq!(propose(&|inputs| inputs.standing.wrong = 3), Proposal::Trial);
    assert_eq!(propose(&|inputs| inputs.standing.step = Step::Shadow), Proposal::Trial);
    assert_eq!(propose(&|inputs| inputs.limit = 0.0001), Proposal::Trial);
    assert_eq!(propose(&|inputs| inputs.stability = Stability::default()), Proposal::Learn);
    assert_eq!(propose(&|inputs| inputs.doubted_ms = Some(1500)), Proposal::Learn);
    let guard = propose(&|inputs| inputs.guard = Some("negation".to_owned()));
    assert_eq!(guard, Proposal::Nothing(Nothing::Guard));
    let absent = propose(&|inputs| inputs.base.lookup = LookupFacts::Absent);
    assert_eq!(absent, Proposal::Nothing(Nothing::NoEntry));
    let not_servable = [
        propose(&|inputs| inputs.base.now_ms = 100_000),
        propose(&|inputs| inputs.base.lookup = LookupFacts::Slow),
        propose(&|inputs| inputs.base.credential_window_ms = Some(1000)),
        propose(&|inputs| {
            if let LookupFacts::Found(facts) = &mut inputs.base.lookup {
                facts.versions.canon = u16::MAX;
            }
        }),
    ];
    assert_eq!(not_servable, [Proposal::Nothing(Nothing::NotServable); 4]);
}
