//! The graph on a disk: restarts, stores that cannot be used, what stands in the files.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test stops at what is wrong")]

mod common;
#[path = "common/wire.rs"]
mod wire;

use std::fs;
use std::path::Path;

use common::NOW_MS;
use serde_json::Value;
use wire::{Ask, answer_json, kind, settings, settle_whole, teach};
use zlrs_graph::{Inputs, Outcome, decide};
use zlrs_store::{Graph, verify_audit};
use zlrs_wire::header::DecisionKind;

const HOUR_MS: u64 = 3_600_000;

fn on_disk(directory: &Path) -> Graph {
    Graph::open(Some(directory), settings(), NOW_MS).unwrap()
}

#[test]
fn a_graph_survives_a_restart_but_its_credentials_must_be_proven_again() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("graph");
    let ask = Ask::default();
    let graph = on_disk(&directory);
    teach(&graph, &ask, &answer_json("kept"), NOW_MS);
    drop(graph);
    let graph = on_disk(&directory);
    assert!(kind(&graph, &ask, NOW_MS + 1).ends_with("reason=credential_unproven"));
    let other = Ask { text: "Something else".into(), ..ask.clone() };
    teach(&graph, &other, &answer_json("x"), NOW_MS + 2);
    assert!(kind(&graph, &ask, NOW_MS + 3).starts_with("hit"));
}

#[test]
fn a_store_that_cannot_be_used_is_bypassed_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, b"").unwrap();
    let graph = on_disk(&file.join("graph"));
    assert!(graph.state().starts_with("bypass: the graph directory"), "{}", graph.state());
    assert_eq!(graph.notices().len(), 1);
    let ask = Ask::default();
    let decision = ask.decide(&graph, NOW_MS);
    assert_eq!(decision.header(), "skipped;reason=store_unavailable");
    assert_eq!(settle_whole(&graph, &decision, 200, &answer_json("x"), true, NOW_MS), "store_unavailable");
    // What is not eligible anyway keeps its own reason.
    let hot = Ask { temperature: Some(1.0), ..ask.clone() };
    assert_eq!(hot.decide(&graph, NOW_MS).header(), "skipped;reason=temperature_high");

    let directory = folder.path().join("graph");
    let graph = on_disk(&directory);
    teach(&graph, &ask, &answer_json("x"), NOW_MS);
    fs::remove_file(directory.join("graph.sqlite3")).unwrap();
    // Reads look at the file once a millisecond.
    std::thread::sleep(std::time::Duration::from_millis(3));
    assert_eq!(ask.decide(&graph, NOW_MS + 2).kind(), DecisionKind::Miss);
    assert_eq!(kind(&graph, &ask, NOW_MS + 3), "skipped;reason=store_unavailable");
    assert!(graph.state().contains("deleted or replaced"));
    assert!(graph.withdraw(&decision, NOW_MS, "test").is_ok(), "a skipped request has nothing to withdraw");
}

#[test]
fn secrets_and_texts_stand_nowhere_on_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("graph");
    let graph = on_disk(&directory);
    let ask = Ask {
        api_key: "sk-canary-0123456789".into(),
        text: "canary-ask-text".into(),
        system: Some("canary-system-text".into()),
        headers: vec![("authorization", "Bearer canary-bearer"), ("x-tenant", "canary-header")],
        query: "canary-query".into(),
        ..Ask::default()
    };
    assert_eq!(teach(&graph, &ask, &answer_json("the answer itself"), NOW_MS), "stored");
    assert_eq!(ask.decide(&graph, NOW_MS + 2).kind(), DecisionKind::Hit);
    let unknown = Ask { unknown_field: Some("canary-field"), ..ask.clone() };
    let skipped = unknown.decide(&graph, NOW_MS + 3);
    assert_eq!(skipped.kind(), DecisionKind::Skipped);
    graph.flush().unwrap();
    let notices = graph.notices().join("\n");
    assert!(!notices.contains("canary"));
    assert!(!format!("{skipped:?}").contains("sk-canary"));
    let mut files = Vec::new();
    let mut folders = vec![directory];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    assert!(files.len() >= 4, "{files:?}");
    let mut answers = 0;
    for file in files {
        let bytes = fs::read(&file).unwrap();
        assert!(!bytes.windows(6).any(|window| window == b"canary"), "{}", file.display());
        answers += usize::from(bytes.windows(17).any(|window| window == b"the answer itself"));
    }
    assert!(answers > 0, "the search finds what is there");
}

#[test]
fn an_audit_record_repeats_its_decision() {
    let folder = tempfile::tempdir().unwrap();
    let graph = on_disk(&folder.path().join("graph"));
    let ask = Ask::default();
    let mut expected = Vec::new();
    teach(&graph, &ask, &answer_json("x"), NOW_MS);
    for (ask, now_ms) in [
        (ask.clone(), NOW_MS + 2),
        (Ask { temperature: None, ..ask.clone() }, NOW_MS + 3),
        (Ask { text: "new".into(), ..ask.clone() }, NOW_MS + 4),
        (ask.clone(), NOW_MS + 30 * HOUR_MS),
        (ask.clone(), NOW_MS + HOUR_MS),
    ] {
        let decision = ask.decide(&graph, now_ms);
        assert!(decision.audit().starts_with("aud_"));
        expected.push((
            decision.audit().to_owned(),
            decision.kind(),
            decision.refusal().map(|refusal| refusal.reason),
        ));
    }
    graph.flush().unwrap();
    let path = graph.audit_path().unwrap().to_owned();
    verify_audit(&path, None).unwrap();
    let lines: Vec<Value> =
        fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (id, kind, reason) in expected {
        let record = lines.iter().find(|line| line["body"]["id"] == id.as_str()).unwrap();
        let inputs: Inputs = serde_json::from_value(record["body"]["inputs"].clone()).unwrap();
        let outcome: Outcome = decide(&inputs);
        assert_eq!((outcome.kind(), outcome.refusal().map(|refusal| refusal.reason)), (kind, reason));
        assert_eq!(record["body"]["outcome"], kind.name());
    }
}
