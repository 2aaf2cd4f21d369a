//! Answers that are on their way while what they answer is withdrawn or purged: none of them is served.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test stops at what is wrong")]

mod common;
#[path = "common/wire.rs"]
mod wire;

use std::path::Path;
use std::time::Duration;

use common::{NOW_MS, digest, entry_at, found, open};
use wire::{Ask, answer_json, kind, settings, settle_whole, teach};
use zlrs_graph::Settings;
use zlrs_store::{Graph, MemoryStore, Purge, Secrets, Store, Topic, Written};
use zlrs_wire::header::DecisionKind;

const WAIT: Duration = Duration::from_secs(20);
const OLD: &str = "Order 1042 ships on Monday.";
const NEW: &str = "Order 1042 ships on Friday.";

fn order() -> Ask {
    Ask { text: "When does order 1042 ship?".into(), ..Ask::default() }
}

fn graph(directory: Option<&Path>) -> Graph {
    // The first hit is due for a check at once.
    let settings = Settings { recheck_least_age_s: 0, recheck_every_s: 1, ..settings() };
    Graph::open(directory, settings, NOW_MS).unwrap()
}

/// In both stores.
fn with_graphs(test: impl Fn(Graph)) {
    let folder = tempfile::tempdir().unwrap();
    test(graph(None));
    test(graph(Some(&folder.path().join("graph"))));
}

fn purge_entity(graph: &Graph, now_ms: u64) -> u64 {
    let tags = graph.purge_tags(Topic::Entity, "order 1042");
    tags.iter().map(|tag| graph.purge(Purge::Tag(*tag), now_ms).unwrap()).sum()
}

fn served(graph: &Graph, now_ms: u64) -> String {
    let hit = order().decide(graph, now_ms);
    assert_eq!(hit.kind(), DecisionKind::Hit, "{}", hit.header());
    String::from_utf8(hit.pieces().concat()).unwrap()
}

#[test]
fn an_answer_that_was_asked_for_before_a_purge_is_not_kept_after_it() {
    with_graphs(|graph| {
        let call = order().decide(&graph, NOW_MS);
        assert_eq!(purge_entity(&graph, NOW_MS + 10), 0, "nothing is there yet");
        let settled = settle_whole(&graph, &call, 200, &answer_json(OLD), true, NOW_MS + 20);
        assert!(settled.starts_with("tombstoned"), "{settled}");
        graph.flush().unwrap();
        assert!(kind(&graph, &order(), NOW_MS + 30).starts_with("miss"));
        assert_eq!(teach(&graph, &order(), &answer_json(NEW), NOW_MS + 40), "stored");
        assert!(served(&graph, NOW_MS + 50).contains("Friday"));
        // Other orders are not meant.
        let other = Ask { text: "When does order 7 ship?".into(), ..Ask::default() };
        let call = other.decide(&graph, NOW_MS + 60);
        purge_entity(&graph, NOW_MS + 70);
        assert_eq!(settle_whole(&graph, &call, 200, &answer_json(OLD), true, NOW_MS + 80), "stored");
    });
}

#[test]
fn a_check_that_agrees_brings_no_purged_answer_back() {
    with_graphs(|graph| {
        assert_eq!(teach(&graph, &order(), &answer_json(OLD), NOW_MS), "stored");
        let hit = order().decide(&graph, NOW_MS + 900);
        assert!(hit.recheck(), "{}", hit.header());
        graph.flush().unwrap();
        assert_eq!(
            purge_entity(&graph, NOW_MS + 910),
            2,
            "the answer, and what the canonical route kept of it"
        );
        let settled = settle_whole(&graph, &hit, 200, &answer_json(OLD), true, NOW_MS + 920);
        assert_eq!(settled, "recheck_agree");
        graph.flush().unwrap();
        assert!(kind(&graph, &order(), NOW_MS + 930).starts_with("miss"));
        assert_eq!(graph.stats().into_iter().find(|(name, _)| *name == "entries").unwrap().1, 0);
    });
}

#[test]
fn a_second_call_does_not_restore_what_was_withdrawn_meanwhile() {
    with_graphs(|graph| {
        let first = order().decide(&graph, NOW_MS);
        let second = order().decide(&graph, NOW_MS + 1);
        assert_eq!(settle_whole(&graph, &first, 200, &answer_json(OLD), true, NOW_MS + 10), "stored");
        graph.withdraw(&first, NOW_MS + 20, "wrong").unwrap();
        let settled = settle_whole(&graph, &second, 200, &answer_json(OLD), true, NOW_MS + 30);
        assert!(settled.starts_with("tombstoned"), "{settled}");
        graph.flush().unwrap();
        assert!(kind(&graph, &order(), NOW_MS + 40).starts_with("miss"));
        assert_eq!(teach(&graph, &order(), &answer_json(NEW), NOW_MS + 50), "stored");
        assert!(served(&graph, NOW_MS + 60).contains("Friday"));
    });
}

#[test]
fn a_purge_of_one_answer_takes_what_the_canonical_route_keeps_of_it_and_no_other() {
    with_graphs(|graph| {
        let wordings = ["When does order 1042 ship?", "when does order 1042 ship", "When does order 7 ship?"];
        let asks = wordings.map(|text| Ask { text: text.into(), ..Ask::default() });
        for ask in &asks {
            assert_eq!(teach(&graph, ask, &answer_json(OLD), NOW_MS), "stored");
        }
        graph.flush().unwrap();
        let node = asks[0].decide(&graph, NOW_MS + 10).node().unwrap();
        let call = asks[1].decide(&graph, NOW_MS + 10);
        assert_eq!(graph.purge(Purge::Node(node), NOW_MS + 20).unwrap(), 2);
        assert_eq!(call.kind(), DecisionKind::Hit);
        let left = |name| graph.stats().into_iter().find(|(other, _)| *other == name).unwrap().1;
        assert_eq!(left("entries"), 3, "two answers, and the canonical entry of the other order");
        assert!(kind(&graph, &asks[0], NOW_MS + 30).starts_with("miss;route=same"));
        assert!(kind(&graph, &asks[1], NOW_MS + 30).starts_with("hit"));
    });
}

#[test]
fn a_purge_is_remembered_by_other_processes_and_after_opening_again() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("graph");
    let ours = graph(Some(&directory));
    let call = order().decide(&ours, NOW_MS);
    let theirs = graph(Some(&directory));
    purge_entity(&theirs, NOW_MS + 10);
    theirs.close();
    let settled = settle_whole(&ours, &call, 200, &answer_json(OLD), true, NOW_MS + 20);
    assert!(settled.starts_with("tombstoned"), "{settled}");
    ours.close();
    let again = graph(Some(&directory));
    let settled = settle_whole(&again, &call, 200, &answer_json(OLD), true, NOW_MS + 30);
    assert!(settled.starts_with("tombstoned"), "{settled}");
}

#[test]
fn a_purge_of_an_earlier_time_spares_what_was_asked_for_since_and_is_done_once() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, disk_secrets, _) = open(&folder.path().join("graph")).unwrap();
    let secrets = Secrets::ephemeral().unwrap();
    let memory = MemoryStore::new(100, 1 << 20);
    for (store, secrets) in [(&memory as &dyn Store, &secrets), (&disk, &disk_secrets)] {
        for id in 0..6 {
            store.put(entry_at(id, NOW_MS + id, secrets), WAIT).unwrap();
        }
        assert_eq!(store.purge_until(Purge::All, NOW_MS + 2).unwrap(), 3);
        assert_eq!(store.purge_until(Purge::All, NOW_MS + 2).unwrap(), 0);
        assert_eq!(store.purge_until(Purge::Tenant(digest("tenant", 0)), NOW_MS + 3).unwrap(), 1);
        for id in 0..6 {
            let is_there = found(&store.get(&digest("key", id), NOW_MS + 10)).is_some();
            assert_eq!(is_there, id > 3, "entry {id}");
        }
        let late = store.put(entry_at(7, NOW_MS + 2, secrets), WAIT).unwrap();
        assert_eq!(late, Written::Superseded);
        assert_eq!(store.put(entry_at(7, NOW_MS + 3, secrets), WAIT).unwrap(), Written::Committed);
        // Clearing away what has expired refuses nothing.
        store.purge(Purge::Expired(NOW_MS), NOW_MS + 100).unwrap();
        assert_eq!(store.put(entry_at(8, NOW_MS + 9, secrets), WAIT).unwrap(), Written::Committed);
    }
}
