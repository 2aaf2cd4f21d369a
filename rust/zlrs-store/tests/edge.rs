//! The edge route over real request bytes: what is looked at, what is counted, what is served.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test stops at what is wrong")]

mod common;
#[path = "common/wire.rs"]
mod wire;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use common::NOW_MS;
use serde_json::Value;
use wire::{Ask, answer_json, kind, settings, settle_whole, teach};
use zlrs_fingerprint::Network;
use zlrs_graph::{Mode, Preset, Settings, Step};
use zlrs_store::{Appointed, Decision, Graph, Judge, Purge, Topic, Verdict, repeat, verify_audit};
use zlrs_wire::header::DecisionKind;

fn open(path: Option<&Path>, edge: Mode) -> Graph {
    let settings = Settings { canonical: Mode::Shadow, edge, preset: Preset::Trial, ..settings() };
    Graph::open(path, settings, NOW_MS).unwrap()
}

fn stats(graph: &Graph) -> HashMap<&'static str, u64> {
    graph.stats().into_iter().collect()
}

fn ask(text: &str) -> Ask {
    Ask { text: text.to_owned(), ..Ask::default() }
}

/// The form that is known, and another that asks the same.
fn known(order: u64) -> Ask {
    ask(&format!("What is the status of order {order}?"))
}

fn other(order: u64) -> Ask {
    ask(&format!("Tell me the status of order {order}."))
}

fn answer(order: u64) -> Vec<u8> {
    answer_json(&format!("Order {order} was shipped on 2 March."))
}

fn served_text(decision: &Decision) -> String {
    let body: Value = serde_json::from_slice(&decision.pieces().concat()).unwrap();
    body["content"][0]["text"].as_str().unwrap().to_owned()
}

/// Makes the answer to the known form stable: asked twice, in two spellings.
fn settle_known(graph: &Graph, order: u64, now_ms: u64) {
    teach(graph, &known(order), &answer(order), now_ms);
    let again = ask(&format!("what is the status of order {order}"));
    teach(graph, &again, &answer(order), now_ms + 1);
}

/// Opens the edge: clean comparisons on several entries.
fn opened(graph: &Graph, orders: std::ops::Range<u64>, now_ms: u64) {
    for order in orders {
        settle_known(graph, order, now_ms);
        teach(graph, &other(order), &answer(order), now_ms + 2);
    }
}

#[test]
fn an_edge_is_learnt_on_five_comparisons_then_counted_and_served_once_its_bound_holds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("graph");
    let graph = open(Some(&path), Mode::Bounded);
    opened(&graph, 1000..1005, NOW_MS);
    assert_eq!(stats(&graph)["edge_comparisons"], 5);
    assert!(
        graph.pools().iter().all(|pool| pool.label.route != "edge"),
        "learning counts for the edge alone"
    );

    settle_known(&graph, 1005, NOW_MS + 10);
    let decision = other(1005).decide(&graph, NOW_MS + 20);
    let header = decision.header();
    assert!(header.starts_with("miss;route=edge;node=") && header.contains(";stage=shadow;"), "{header}");
    // 324 clean trials prove 1 %.
    opened(&graph, 1005..1330, NOW_MS + 30);
    let pools = graph.pools();
    let pool = pools.iter().find(|pool| pool.label.route == "edge").unwrap();
    assert!(
        (pool.pool.trials, pool.pool.wrong, pool.pool.progress.step) >= (324, 0, Step::Canary),
        "{pool:?}"
    );

    // The last trials may have been served: the draw is nobody's.
    let before = stats(&graph)["edge_hits"];
    let mut hits = 0;
    for order in 2000..2200 {
        settle_known(&graph, order, NOW_MS + 40);
        let decision = other(order).decide(&graph, NOW_MS + 50);
        if decision.kind() == DecisionKind::Hit {
            hits += 1;
            assert!(decision.header().starts_with("hit;route=edge;node="), "{}", decision.header());
            assert_eq!(served_text(&decision), format!("Order {order} was shipped on 2 March."));
            assert!(decision.recheck(), "in canary every hit is checked");
            assert_eq!(
                settle_whole(&graph, &decision, 200, &answer(order), true, NOW_MS + 51),
                "recheck_agree"
            );
        }
    }
    assert!((1..40).contains(&hits), "a twentieth is served: {hits}");
    assert_eq!(stats(&graph)["edge_hits"] - before, hits);
    graph.flush().unwrap();

    // Every decision over the edge can be made again from its record.
    let audit = graph.audit_path().unwrap().to_owned();
    verify_audit(&audit, None).unwrap();
    let (mut over_edge, mut repeated) = (0, 0);
    for line in std::fs::read_to_string(audit).unwrap().lines() {
        let body = serde_json::from_str::<Value>(line).unwrap()["body"].clone();
        if body["kind"] == "decision" && body.get("edge").is_some() {
            over_edge += 1;
            repeated += u64::from(repeat(&body).unwrap().holds());
        }
    }
    assert!(over_edge > 400 && over_edge == repeated, "{over_edge} {repeated}");

    // What was learnt is there after a start: forms, edge, evidence.
    let forms = stats(&graph)["forms"];
    graph.close();
    let graph = open(Some(&path), Mode::Bounded);
    assert_eq!(stats(&graph)["forms"], forms);
    teach(&graph, &ask("hello there"), &answer(1), NOW_MS + 60);
    let header = kind(&graph, &other(2000 + 300), NOW_MS + 70);
    assert!(header.starts_with("miss;route=same;"), "nothing is stored for it: {header}");
    settle_known(&graph, 2300, NOW_MS + 80);
    assert!(kind(&graph, &other(2300), NOW_MS + 90).contains("route=edge;"));
}

#[test]
fn what_differs_in_a_value_a_guard_a_scope_or_a_tenant_is_never_looked_at() {
    let graph = open(None, Mode::Bounded);
    opened(&graph, 1000..1010, NOW_MS);
    // Asked again, it is answered by its own entry; another spelling of it shows that the edge is open.
    settle_known(&graph, 1500, NOW_MS + 5);
    assert!(kind(&graph, &other(1500), NOW_MS + 9).contains("route=edge"));
    for stranger in [
        other(4711),
        Ask { api_key: "sk-two".into(), ..other(1500) },
        Ask { model: "large".into(), ..other(1500) },
        Ask { system: Some("Answer in French.".into()), ..other(1500) },
        Ask { upstream: "http://other.example".into(), ..other(1500) },
        Ask { factors: vec![("stock".into(), "7".into())], ..other(1500) },
        ask("Tell me the price of order 1500."),
        ask("Do not tell me the status of order 1500."),
        ask("Tell me the status of her order 1500."),
        ask("Tell me the status of order 1500 and 1501."),
    ] {
        let header = stranger.decide(&graph, NOW_MS + 10).header();
        assert!(!header.contains("route=edge"), "{stranger:?}: {header}");
    }
}

#[test]
fn one_error_closes_an_edge_for_good_and_in_service_withdraws_the_entry() {
    let graph = open(None, Mode::Bounded);
    opened(&graph, 1000..1006, NOW_MS);
    settle_known(&graph, 1100, NOW_MS + 10);
    settle_known(&graph, 1101, NOW_MS + 10);
    let wrong = answer_json("Order 1100 was shipped on 9 April.");
    teach(&graph, &other(1100), &wrong, NOW_MS + 20);
    let pools = graph.pools();
    let pool = pools.iter().find(|pool| pool.label.route == "edge").unwrap();
    assert_eq!((pool.pool.trials, pool.pool.wrong), (2, 1));
    assert!(!kind(&graph, &other(1101), NOW_MS + 30).contains("route=edge"), "closed");
    for order in 1200..1210 {
        settle_known(&graph, order, NOW_MS + 40);
        teach(&graph, &other(order), &answer(order), NOW_MS + 42);
    }
    settle_known(&graph, 1300, NOW_MS + 50);
    assert!(!kind(&graph, &other(1300), NOW_MS + 60).contains("route=edge"), "and never opens again");
}

#[test]
fn off_by_default_and_never_without_canonical_entries() {
    assert_eq!(Settings::default().edge, Mode::Off);
    assert!(Settings::from_json(br#"{"canonical": "off", "edge": "shadow"}"#).is_err());
    let graph = Graph::open(None, settings(), NOW_MS).unwrap();
    opened(&graph, 1000..1010, NOW_MS);
    assert_eq!((stats(&graph)["edge_comparisons"], stats(&graph)["forms"]), (0, 0));
}

#[test]
fn an_edge_of_one_conversation_says_nothing_in_another() {
    let graph = open(None, Mode::Bounded);
    opened(&graph, 1000..1006, NOW_MS);
    let later =
        |ask: Ask, first: &'static str| Ask { earlier: vec![("user", first), ("assistant", "Sure.")], ..ask };
    for first in ["Hello.", "Answer with the warehouse's name from now on."] {
        teach(&graph, &later(known(1400), first), &answer(1400), NOW_MS + 10);
        let again = ask("what is the status of order 1400");
        teach(&graph, &later(again, first), &answer(1400), NOW_MS + 11);
        let header = kind(&graph, &later(other(1400), first), NOW_MS + 20);
        assert!(header.starts_with("miss;route=same;"), "{header}");
    }
}

/// Says what it was told to say.
struct Told(Verdict);

impl Judge for Told {
    fn verdict(&self, _ask: &str, _one: &str, _other: &str) -> Verdict {
        self.0
    }
}

#[test]
fn a_judge_counts_where_its_error_is_known_and_nowhere_else() {
    let reworded = |order: u64| {
        answer_json(&format!(
            "We handed parcel {order} to our carrier this spring; it is on its way to you now."
        ))
    };
    for (verdict, false_equivalent, counts) in [
        (Verdict::Equivalent, Some(0.001), true),
        (Verdict::Equivalent, None, false),
        (Verdict::Equivalent, Some(0.2), false),
        (Verdict::Different, Some(0.001), false),
        (Verdict::Failed, Some(0.001), false),
    ] {
        let graph = open(None, Mode::Bounded);
        let judge = Arc::new(Told(verdict));
        graph.appoint(Some(Appointed { judge, name: "told/1".into(), false_equivalent }));
        for order in 1000..1008 {
            settle_known(&graph, order, NOW_MS);
            teach(&graph, &other(order), &reworded(order), NOW_MS + 2);
        }
        let counted = stats(&graph);
        assert!(counted["judge_calls"] > 0);
        settle_known(&graph, 1100, NOW_MS + 10);
        let header = kind(&graph, &other(1100), NOW_MS + 20);
        assert_eq!(header.contains("route=edge"), counts, "{verdict:?} {false_equivalent:?}: {header}");
    }
}

/// A hill climb in the fingerprint's own space: texts as near as can be made to a known ask, which ask something else.
#[test]
fn colliding_wordings_are_served_nothing() {
    let network = Network::shipped().unwrap();
    let graph = open(None, Mode::Bounded);
    opened(&graph, 1000..1400, NOW_MS);
    // As far as the route ever looks.
    graph.note_load(1.0);
    settle_known(&graph, 1500, NOW_MS + 5);
    assert!(kind(&graph, &other(1500), NOW_MS + 9).contains(";s=0"), "the honest form is counted");
    let target = network.fingerprint("What is the status of order 1500?").unwrap();
    let near = |text: &str| network.fingerprint(text).map_or(-1.0, |found| found.cosine(&target));
    let words = [
        "cancel",
        "delete",
        "refund",
        "status",
        "order",
        "the",
        "of",
        "what",
        "is",
        "check",
        "send",
        "to",
        "my",
        "not",
        "address",
        "password",
        "please",
        "can",
        "you",
        "all",
        "customers",
        "price",
    ];
    let (mut tried, mut close, mut served, mut counted) = (0, 0, 0, 0);
    for seed in [
        "Cancel order 1500.",
        "Send order 1500 to another address.",
        "What is the password of order 1500?",
        "Delete the account of order 1500.",
        "What is the status of her order 1500?",
        "Who has paid for order 1500?",
    ] {
        let mut best = seed.to_owned();
        for _ in 0..4 {
            let mut better = (near(&best), best.clone());
            for at in 0..=best.split(' ').count() {
                for word in words {
                    let mut parts: Vec<&str> = best.split(' ').collect();
                    parts.insert(at, word);
                    let text = parts.join(" ");
                    tried += 1;
                    let cosine = near(&text);
                    if cosine >= 0.72 {
                        close += 1;
                        let decision = ask(&text).decide(&graph, NOW_MS + 10);
                        served += u32::from(decision.kind() == DecisionKind::Hit);
                        counted += u32::from(decision.header().contains("route=edge"));
                    }
                    if cosine > better.0 {
                        better = (cosine, text);
                    }
                }
            }
            best = better.1;
        }
    }
    assert!(tried > 1000 && close > 100, "the search finds collisions: {close} of {tried}");
    assert_eq!((served, counted), (0, 0), "no edge was proven for any of them");
}

#[test]
fn answers_under_a_fact_are_purged_by_it_on_every_route() {
    let graph = open(None, Mode::Shadow);
    let under = |tier: &str| Ask { factors: vec![("tier".into(), tier.into())], ..known(1000) };
    for tier in ["gold", "silver"] {
        teach(&graph, &under(tier), &answer(1000), NOW_MS);
    }
    assert_eq!(stats(&graph)["entries"], 4);
    let tags = graph.purge_tags(Topic::Factor, "tier=gold");
    assert_eq!(tags.len(), 1);
    assert_eq!(graph.purge(Purge::Tag(tags[0]), NOW_MS).unwrap(), 2);
    assert!(kind(&graph, &under("gold"), NOW_MS + 5).starts_with("miss"));
    assert!(kind(&graph, &under("silver"), NOW_MS + 5).starts_with("hit"));
}
