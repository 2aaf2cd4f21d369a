//! The graph at work: what is a hit and what never is, over real request and answer bytes.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test stops at what is wrong")]

mod common;
#[path = "common/wire.rs"]
mod wire;

use std::path::Path;

use common::NOW_MS;
use proptest::prelude::*;
use serde_json::{Value, json};
use wire::{Ask, answer_json, answer_stream, chat_json, chat_stream, kind, settings, settle_whole, teach};
use zlrs_graph::Settings;
use zlrs_store::{Graph, Purge};
use zlrs_wire::header::DecisionKind;

const HOUR_MS: u64 = 3_600_000;

fn memory() -> Graph {
    Graph::open(None, settings(), NOW_MS).unwrap()
}

fn on_disk(directory: &Path) -> Graph {
    Graph::open(Some(directory), settings(), NOW_MS).unwrap()
}

#[test]
fn the_repeat_of_a_request_is_a_hit_in_the_form_it_asks_for() {
    let folder = tempfile::tempdir().unwrap();
    for graph in [memory(), on_disk(&folder.path().join("graph"))] {
        assert_eq!(graph.state(), "ready");
        let ask = Ask::default();
        let first = ask.decide(&graph, NOW_MS);
        assert_eq!(first.kind(), DecisionKind::Miss);
        let node = first.node().unwrap().short();
        assert_eq!(first.header(), format!("miss;route=same;node={node}"));
        assert_eq!(settle_whole(&graph, &first, 200, &answer_json("42 days"), true, NOW_MS + 5), "stored");
        let hit = ask.decide(&graph, NOW_MS + 10);
        assert_eq!(hit.header(), format!("hit;route=same;node={node};stage=full;bound=replay"));
        assert_eq!(hit.pieces().len(), 1);
        let body: Value = serde_json::from_slice(&hit.pieces()[0]).unwrap();
        assert_eq!(body["content"][0]["text"], "42 days");
        assert_eq!(body["usage"]["output_tokens"], 4);
        assert_ne!(body["id"], "msg_upstream");
        let again = ask.decide(&graph, NOW_MS + 11);
        let other: Value = serde_json::from_slice(&again.pieces()[0]).unwrap();
        assert_ne!(body["id"], other["id"], "ids are fresh for every replay");

        // The same request as a stream is the same request, in another form.
        let streaming = Ask { stream: true, ..Ask::default() };
        let hit = streaming.decide(&graph, NOW_MS + 12);
        assert_eq!(hit.kind(), DecisionKind::Hit);
        assert!(hit.form().content_type().starts_with("text/event-stream"));
        let text = String::from_utf8(hit.pieces().concat()).unwrap();
        assert!(text.starts_with("event: message_start\n") && text.contains("event: message_stop"), "{text}");
        graph.close();
    }
}

#[test]
fn a_streamed_answer_is_replayed_as_json_and_as_a_stream() {
    let graph = memory();
    let ask = Ask { stream: true, ..Ask::default() };
    let decision = ask.decide(&graph, NOW_MS);
    let stored = settle_whole(&graph, &decision, 200, &answer_stream("It is 42 days."), true, NOW_MS);
    assert_eq!(stored, "stored");
    let hit = Ask::default().decide(&graph, NOW_MS + 1);
    let body: Value = serde_json::from_slice(&hit.pieces().concat()).unwrap();
    assert_eq!(body["content"][0]["text"], "It is 42 days.");
}

#[test]
fn chat_answers_are_replayed_and_a_missing_token_count_is_a_miss_where_it_is_needed() {
    let graph = memory();
    let ask = Ask { chat: true, ..Ask::default() };
    assert_eq!(teach(&graph, &ask, &chat_json("yes"), NOW_MS), "stored");
    let body: Value = serde_json::from_slice(&ask.decide(&graph, NOW_MS + 2).pieces().concat()).unwrap();
    assert_eq!(body["choices"][0]["message"]["content"], "yes");

    let other = Ask { chat: true, stream: true, text: "And that one?".into(), ..Ask::default() };
    assert_eq!(teach(&graph, &other, &chat_stream("no"), NOW_MS), "stored");
    assert_eq!(other.decide(&graph, NOW_MS + 2).kind(), DecisionKind::Hit);
    let as_json = Ask { stream: false, ..other };
    assert!(kind(&graph, &as_json, NOW_MS + 2).ends_with("reason=usage_unknown:usage"));
}

#[test]
fn a_request_that_differs_in_anything_is_another_request() {
    let graph = memory();
    let base = Ask::default();
    assert_eq!(teach(&graph, &base, &answer_json("the first"), NOW_MS), "stored");
    let others = [
        Ask { text: "How long is the return period".into(), ..base.clone() },
        Ask { text: "how long is the return period?".into(), ..base.clone() },
        Ask { system: Some("Answer in French.".into()), ..base.clone() },
        Ask { model: "another".into(), ..base.clone() },
        Ask { api_key: "sk-other".into(), ..base.clone() },
        Ask { upstream: "http://other.example".into(), ..base.clone() },
        Ask { query: "beta=true".into(), ..base.clone() },
        Ask { max_tokens: 65, ..base.clone() },
        Ask { temperature: Some(0.05), ..base.clone() },
        Ask { earlier: vec![("user", "Hi"), ("assistant", "Hello")], ..base.clone() },
        Ask { headers: vec![("anthropic-beta", "x")], ..base.clone() },
        Ask { chat: true, ..base.clone() },
    ];
    for other in &others {
        // The upstream accepts that tenant for something else, so that only the key keeps it from a hit.
        let aside = Ask { text: "Something else entirely".into(), ..other.clone() };
        teach(&graph, &aside, if other.chat { chat_json("x") } else { answer_json("x") }.as_slice(), NOW_MS);
        let decision = other.decide(&graph, NOW_MS + 2);
        assert_eq!(decision.kind(), DecisionKind::Miss, "{other:?}");
        assert_ne!(decision.node(), base.decide(&graph, NOW_MS + 2).node(), "{other:?}");
    }
    let harmless = [
        Ask { headers: vec![("user-agent", "curl"), ("x-stainless-lang", "python")], ..base.clone() },
        Ask { headers: vec![("traceparent", "00-1-2-01")], ..base.clone() },
        Ask { metadata: Some("user-7"), ..base.clone() },
    ];
    for same in &harmless {
        assert_eq!(same.decide(&graph, NOW_MS + 2).kind(), DecisionKind::Hit, "{same:?}");
    }
}

#[test]
fn an_answer_lives_as_long_as_its_time_and_never_on_a_clock_that_ran_back() {
    let ttl_ms = settings().ttl_s * 1000;
    let folder = tempfile::tempdir().unwrap();
    for graph in [
        Graph::open(None, Settings { credential_check: false, recheck: false, ..settings() }, NOW_MS)
            .unwrap(),
        Graph::open(
            Some(&folder.path().join("g")),
            Settings { credential_check: false, recheck: false, ..settings() },
            NOW_MS,
        )
        .unwrap(),
    ] {
        let ask = Ask::default();
        let decision = ask.decide(&graph, NOW_MS);
        assert_eq!(settle_whole(&graph, &decision, 200, &answer_json("x"), true, NOW_MS), "stored");
        assert!(kind(&graph, &ask, NOW_MS).starts_with("hit"));
        assert!(kind(&graph, &ask, NOW_MS + ttl_ms - 1).starts_with("hit"));
        assert!(kind(&graph, &ask, NOW_MS + ttl_ms).ends_with("reason=expired"));
        // The clock is set back into the entry's life: its age cannot be known any more.
        assert!(kind(&graph, &ask, NOW_MS + HOUR_MS).ends_with("reason=clock_backward"));
        assert!(kind(&graph, &ask, NOW_MS - HOUR_MS).ends_with("reason=clock_backward"));
    }
}

#[test]
fn hits_need_a_credential_that_the_upstream_accepted_lately() {
    let graph = memory();
    let ask = Ask::default();
    assert_eq!(teach(&graph, &ask, &answer_json("x"), NOW_MS), "stored");
    let window_ms = 900_000;
    assert!(kind(&graph, &ask, NOW_MS + window_ms).starts_with("hit"));
    let late = NOW_MS + window_ms + 10_000;
    assert!(kind(&graph, &ask, late).ends_with("reason=credential_unproven"));
    // Any accepted request of the tenant proves it, eligible or not.
    let other = Ask { temperature: None, ..ask.clone() };
    let skipped = other.decide(&graph, late);
    assert_eq!(settle_whole(&graph, &skipped, 200, &answer_json("y"), true, late), "temperature_default");
    assert!(kind(&graph, &ask, late + 1).starts_with("hit"));

    for (late, status) in [(late, 401), (late + 1000, 403)] {
        let refused = other.decide(&graph, late + 10);
        settle_whole(&graph, &refused, status, b"{}", true, late + 11);
        assert!(kind(&graph, &ask, late + 12).ends_with("reason=credential_locked"), "{status}");
        // An answer to an older request that arrives late does not unlock.
        settle_whole(&graph, &skipped, 200, &answer_json("y"), true, late + 13);
        assert!(kind(&graph, &ask, late + 14).ends_with("reason=credential_locked"), "{status}");
        let accepted = other.decide(&graph, late + 20);
        settle_whole(&graph, &accepted, 200, &answer_json("y"), true, late + 21);
        assert!(kind(&graph, &ask, late + 22).starts_with("hit"), "{status}");
    }
    // Errors that say nothing about the credential change nothing.
    let late = late + 2000;
    for status in [400, 404, 429, 500, 529] {
        let failed = other.decide(&graph, late + 30);
        settle_whole(&graph, &failed, status, b"{}", true, late + 31);
        assert!(kind(&graph, &ask, late + 32).starts_with("hit"), "{status}");
    }
    // Another upstream's acceptance is not this one's.
    let elsewhere = Ask { upstream: "http://other.example".into(), text: "New".into(), ..ask.clone() };
    let fresh = memory();
    teach(&fresh, &elsewhere, &answer_json("x"), NOW_MS);
    assert_eq!(fresh.stats().iter().find(|(name, _)| *name == "stored").unwrap().1, 1);
}

#[test]
fn answers_that_may_not_be_kept_are_not() {
    let graph = memory();
    let ask = Ask::default();
    let whole = answer_json("x");
    let changed = |change: fn(&mut Value)| {
        let mut value: Value = serde_json::from_slice(&whole).unwrap();
        change(&mut value);
        value.to_string().into_bytes()
    };
    let stream = answer_stream("one two three");
    let cases: Vec<(&str, u16, Vec<u8>, bool)> = vec![
        ("status", 500, whole.clone(), true),
        ("status", 404, whole.clone(), true),
        ("incomplete", 200, whole.clone(), false),
        ("malformed:", 200, whole[..whole.len() - 1].to_vec(), true),
        ("stop_reason", 200, changed(|v| v["stop_reason"] = json!("max_tokens")), true),
        ("stop_reason", 200, changed(|v| v["stop_reason"] = json!("pause_turn")), true),
        ("refused", 200, changed(|v| v["stop_reason"] = json!("refusal")), true),
        (
            "tools",
            200,
            changed(|v| v["content"][0] = json!({"type": "tool_use", "id": "t", "name": "n", "input": {}})),
            true,
        ),
        ("empty", 200, changed(|v| v["content"][0]["text"] = json!(" \n")), true),
        (
            "stream_error",
            200,
            br#"{"type":"error","error":{"type":"overloaded_error","message":"x"}}"#.to_vec(),
            true,
        ),
        ("incomplete", 200, stream[..stream.len() / 2].to_vec(), true),
    ];
    for (reason, status, body, complete) in cases {
        let decision = ask.decide(&graph, NOW_MS);
        let said = settle_whole(&graph, &decision, status, &body, complete, NOW_MS);
        assert!(
            said.starts_with(reason.trim_end_matches(':')),
            "{said} for {}",
            String::from_utf8_lossy(&body)
        );
        assert_eq!(ask.decide(&graph, NOW_MS).kind(), DecisionKind::Miss);
    }
    let decision = ask.decide(&graph, NOW_MS);
    let small = Graph::open(None, Settings { max_answer_bytes: 300, ..settings() }, NOW_MS).unwrap();
    let decision_small = ask.decide(&small, NOW_MS);
    assert_eq!(
        settle_whole(&small, &decision_small, 200, &answer_json(&"x".repeat(300)), true, NOW_MS),
        "too_large"
    );
    for header in [("x-zlrs-decision", "hit;route=same"), ("x-zero-layer-bypass", "true")] {
        let headers = [("content-type", "application/json"), header];
        assert_eq!(wire::settle(&graph, &decision, 200, &headers, &whole, true, NOW_MS), "upstream_replay");
    }
    assert_eq!(wire::settle(&graph, &decision, 200, &[], &whole, true, NOW_MS), "malformed:content-type");
}

#[test]
fn an_ask_about_what_changes_by_itself_is_never_looked_up() {
    let graph = memory();
    let steady = Ask::default();
    teach(&graph, &steady, &answer_json("x"), NOW_MS);
    for text in ["What is the weather today?", "Who is the president now?", "What time is it?"] {
        let ask = Ask { text: text.into(), ..steady.clone() };
        for later_ms in 2..5 {
            let decision = ask.decide(&graph, NOW_MS + later_ms);
            assert_eq!(decision.header(), "skipped;reason=volatile", "{text}");
            let said = settle_whole(&graph, &decision, 200, &answer_json("x"), true, NOW_MS);
            assert_eq!(said, "volatile", "{text} is not kept");
            assert_eq!(steady.decide(&graph, NOW_MS + later_ms).kind(), DecisionKind::Hit);
        }
    }
}

#[test]
fn a_withdrawn_answer_is_gone_and_a_fresh_one_may_follow() {
    let folder = tempfile::tempdir().unwrap();
    for graph in [memory(), on_disk(&folder.path().join("graph"))] {
        let ask = Ask::default();
        teach(&graph, &ask, &answer_json("wrong"), NOW_MS);
        let hit = ask.decide(&graph, NOW_MS + 2);
        assert_eq!(hit.kind(), DecisionKind::Hit);
        graph.withdraw(&hit, NOW_MS + 3, "test").unwrap();
        assert_eq!(ask.decide(&graph, NOW_MS + 4).kind(), DecisionKind::Miss);
        // The answer of a request from before the withdrawal is not taken; one from after it is.
        assert_eq!(
            settle_whole(&graph, &ask.decide(&graph, NOW_MS + 3), 200, &answer_json("x"), true, NOW_MS + 3),
            "tombstoned"
        );
        assert_eq!(teach(&graph, &ask, &answer_json("right"), NOW_MS + 10), "stored");
        assert_eq!(ask.decide(&graph, NOW_MS + 12).kind(), DecisionKind::Hit);
        // The answer, and what the canonical route keeps of it.
        assert_eq!(graph.purge(Purge::All, NOW_MS).unwrap(), 2);
        assert_eq!(ask.decide(&graph, NOW_MS + 13).kind(), DecisionKind::Miss);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Nothing that comes from outside makes the graph panic, or hit where nothing was stored.
    #[test]
    fn any_bytes_are_decided(body in prop::collection::vec(any::<u8>(), 0..300), name in "[ -~]{0,20}", value in prop::collection::vec(any::<u8>(), 0..40)) {
        let graph = memory();
        let headers = [(name.as_bytes(), value.as_slice())];
        let decision = wire::decide_raw(&graph, "/v1/messages", &headers, &body, NOW_MS);
        prop_assert_eq!(decision.kind(), DecisionKind::Skipped);
        prop_assert!(decision.header().bytes().all(|byte| (0x20..0x7f).contains(&byte)));
        let said = wire::settle(&graph, &decision, 200, &[("content-type", "application/json")], &body, true, NOW_MS);
        prop_assert!(said != "stored");
    }
}
