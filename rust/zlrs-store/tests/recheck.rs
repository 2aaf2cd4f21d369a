//! Served answers beside what the upstream says now.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test stops at what is wrong")]

mod common;
#[path = "common/wire.rs"]
mod wire;

use std::collections::HashMap;

use common::NOW_MS;
use serde_json::Value;
use wire::{Ask, answer_json, settle_whole, teach};
use zlrs_graph::Settings;
use zlrs_store::{Graph, verify_audit};
use zlrs_wire::header::DecisionKind;

const MINUTE_MS: u64 = 60_000;
/// When the first hit of an answer is checked: three quarters of…
const DUE_MS: u64 = 3 * MINUTE_MS;
/// …the time after which an unchecked answer is overdue.
const OVERDUE_MS: u64 = 4 * MINUTE_MS;

fn settings() -> Settings {
    Settings { recheck_every_s: OVERDUE_MS / 1000, ..wire::settings() }
}

fn stats(graph: &Graph) -> HashMap<&'static str, u64> {
    graph.stats().into_iter().collect()
}

/// The text of a hit.
fn text(graph: &Graph, now_ms: u64) -> String {
    let hit = Ask::default().decide(graph, now_ms);
    assert_eq!(hit.kind(), DecisionKind::Hit, "{}", hit.header());
    let body: Value = serde_json::from_slice(&hit.pieces().concat()).unwrap();
    body["content"][0]["text"].as_str().unwrap().to_owned()
}

fn taught() -> Graph {
    let graph = Graph::open(None, settings(), NOW_MS).unwrap();
    assert_eq!(teach(&graph, &Ask::default(), &answer_json("It takes 30 days."), NOW_MS), "stored");
    graph
}

#[test]
fn the_immediate_repeat_owes_a_check_and_a_later_hit_makes_it() {
    let graph = taught();
    let ask = Ask::default();
    assert!(!ask.decide(&graph, NOW_MS + 2).recheck(), "it is young");
    let later = NOW_MS + DUE_MS + 2;
    let hit = ask.decide(&graph, later);
    assert!(hit.recheck());
    assert!(!ask.decide(&graph, later + 1).recheck(), "one at a time");
    assert_eq!(
        settle_whole(&graph, &hit, 200, &answer_json("It takes 30 days."), true, later + 5),
        "recheck_agree"
    );
    assert!(!ask.decide(&graph, later + 6).recheck());
    let counts = stats(&graph);
    assert_eq!((counts["rechecks_due"], counts["rechecks_agreed"]), (1, 1));
    // Written anew: it lives its whole time from when it was asked for again.
    let hit = ask.decide(&graph, later + 10);
    assert_eq!(hit.age().unwrap().as_millis(), 10);
}

#[test]
fn a_contradiction_withdraws_the_answer_and_what_the_canonical_route_kept_of_it() {
    let graph = taught();
    let later = NOW_MS + DUE_MS + 2;
    let hit = Ask::default().decide(&graph, later);
    assert_eq!(
        settle_whole(&graph, &hit, 200, &answer_json("It takes 14 days."), true, later + 5),
        "recheck_contradict"
    );
    let after = Ask::default().decide(&graph, later + 10);
    assert_eq!(after.kind(), DecisionKind::Miss);
    assert!(after.header().starts_with("miss;route=same;"), "{}", after.header());
    let counts = stats(&graph);
    assert_eq!((counts["rechecks_contradicted"], counts["tombstones"], counts["entries"]), (1, 2, 0));
    assert_eq!(
        settle_whole(&graph, &after, 200, &answer_json("It takes 14 days."), true, later + 20),
        "stored"
    );
    assert_eq!(text(&graph, later + 30), "It takes 14 days.");
}

#[test]
fn an_answer_that_cannot_be_told_from_the_old_one_takes_its_place() {
    let graph = taught();
    let later = NOW_MS + DUE_MS + 2;
    let hit = Ask::default().decide(&graph, later);
    let other = "Parcels usually reach our customers about a month after they have ordered something.";
    assert_eq!(settle_whole(&graph, &hit, 200, &answer_json(other), true, later + 5), "recheck_undecided");
    assert_eq!(text(&graph, later + 6), other);
}

#[test]
fn an_upstream_that_gives_no_answer_proves_nothing_and_is_asked_again() {
    let graph = taught();
    let ask = Ask::default();
    let mut now_ms = NOW_MS + DUE_MS + 2;
    let cut = answer_json("It takes").split_off(40);
    for (status, body, complete) in
        [(500, b"{}".to_vec(), true), (200, cut, true), (200, answer_json("no"), false)]
    {
        let hit = ask.decide(&graph, now_ms);
        assert!(hit.recheck());
        assert_eq!(settle_whole(&graph, &hit, status, &body, complete, now_ms + 1), "recheck_inconclusive");
        assert!(!ask.decide(&graph, now_ms + 2).recheck(), "not at once");
        now_ms += MINUTE_MS;
    }
    assert_eq!(text(&graph, now_ms), "It takes 30 days.");
    assert_eq!(stats(&graph)["rechecks_inconclusive"], 3);
}

#[test]
fn a_refused_credential_locks_the_tenant() {
    let graph = taught();
    let hit = Ask::default().decide(&graph, NOW_MS + DUE_MS + 2);
    assert_eq!(settle_whole(&graph, &hit, 401, b"{}", true, NOW_MS + DUE_MS + 3), "recheck_inconclusive");
    let after = Ask::default().decide(&graph, NOW_MS + DUE_MS + 4);
    assert!(after.header().ends_with("reason=credential_locked"), "{}", after.header());
}

#[test]
fn a_hit_that_is_not_due_changes_nothing_when_it_is_settled() {
    let graph = taught();
    let hit = Ask::default().decide(&graph, NOW_MS + 2);
    assert_eq!(
        settle_whole(&graph, &hit, 200, &answer_json("It takes 14 days."), true, NOW_MS + 3),
        "upstream_replay"
    );
    assert_eq!(text(&graph, NOW_MS + 4), "It takes 30 days.");
}

#[test]
fn checks_can_be_switched_off_and_hurried() {
    let off = Graph::open(None, Settings { recheck: false, ..settings() }, NOW_MS).unwrap();
    teach(&off, &Ask::default(), &answer_json("x y z"), NOW_MS);
    assert!(!Ask::default().decide(&off, NOW_MS + 10 * MINUTE_MS).recheck());
    let hurried = Settings { recheck_least_age_s: 0, recheck_every_s: 1, ..wire::settings() };
    let graph = Graph::open(None, hurried, NOW_MS).unwrap();
    teach(&graph, &Ask::default(), &answer_json("x y z"), NOW_MS);
    let first = Ask::default().decide(&graph, NOW_MS + 752);
    assert!(first.recheck());
    settle_whole(&graph, &first, 200, &answer_json("x y z"), true, NOW_MS + 753);
    assert!(!Ask::default().decide(&graph, NOW_MS + 754).recheck());
    assert!(Ask::default().decide(&graph, NOW_MS + 1553).recheck());
}

#[test]
fn an_answer_that_was_served_unchecked_is_overdue_after_its_time_and_asked_for_again() {
    let folder = tempfile::tempdir().unwrap();
    let graph = Graph::open(Some(&folder.path().join("graph")), settings(), NOW_MS).unwrap();
    let ask = Ask::default();
    teach(&graph, &ask, &answer_json("It takes 30 days."), NOW_MS);
    assert!(!ask.decide(&graph, NOW_MS + 10).recheck(), "served, and young");
    let last_ms = NOW_MS + 10 + OVERDUE_MS;
    assert_eq!(ask.decide(&graph, last_ms - 1).kind(), DecisionKind::Hit);
    let overdue = ask.decide(&graph, last_ms);
    assert_eq!(overdue.kind(), DecisionKind::Miss);
    assert!(overdue.header().ends_with(";reason=recheck"), "{}", overdue.header());
    assert_eq!(
        settle_whole(&graph, &overdue, 200, &answer_json("It takes 14 days."), true, last_ms + 5),
        "stored"
    );
    assert_eq!(text(&graph, last_ms + 6), "It takes 14 days.");
    graph.flush().unwrap();
    for line in std::fs::read_to_string(graph.audit_path().unwrap()).unwrap().lines() {
        let body = serde_json::from_str::<Value>(line).unwrap()["body"].clone();
        if body["kind"] == "decision" {
            assert!(zlrs_store::repeat(&body).unwrap().holds(), "{body}");
        }
    }
}

#[test]
fn an_answer_that_nobody_was_served_is_never_overdue() {
    let graph = taught();
    teach(
        &graph,
        &Ask { text: "hello there".into(), ..Ask::default() },
        &answer_json("Hi."),
        NOW_MS + 10 * OVERDUE_MS,
    );
    let hit = Ask::default().decide(&graph, NOW_MS + 10 * OVERDUE_MS + 5);
    assert_eq!(hit.kind(), DecisionKind::Hit, "{}", hit.header());
    assert!(hit.recheck());
}

#[test]
fn checks_stand_in_the_audit_log() {
    let folder = tempfile::tempdir().unwrap();
    let graph = Graph::open(Some(&folder.path().join("graph")), settings(), NOW_MS).unwrap();
    teach(&graph, &Ask::default(), &answer_json("It takes 30 days."), NOW_MS);
    let hit = Ask::default().decide(&graph, NOW_MS + DUE_MS + 2);
    settle_whole(&graph, &hit, 200, &answer_json("It takes 14 days."), true, NOW_MS + DUE_MS + 3);
    graph.flush().unwrap();
    let path = graph.audit_path().unwrap().to_owned();
    verify_audit(&path, None).unwrap();
    let lines: Vec<Value> = std::fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let decided = lines.iter().find(|line| line["body"]["id"] == hit.audit()).unwrap();
    assert_eq!(decided["body"]["recheck"], "time");
    let of = |kind: &str| {
        lines
            .iter()
            .find(|line| line["body"]["kind"] == kind && line["body"]["decision"] == hit.audit())
            .unwrap()
    };
    assert_eq!(of("recheck")["body"]["agreement"], "contradict");
    assert_eq!(of("withdrawn")["body"]["reason"], "contradicted");
}
