//! The canonical route over real request bytes: what is compared, what is counted, what is served.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test stops at what is wrong")]

mod common;
#[path = "common/wire.rs"]
mod wire;

use std::collections::HashMap;
use std::path::Path;

use common::NOW_MS;
use serde_json::Value;
use wire::{Ask, answer_json, kind, settings, settle_whole, teach};
use zlrs_graph::{Mode, Settings, Step};
use zlrs_store::{Decision, Graph, repeat, verify_audit};
use zlrs_wire::header::DecisionKind;

fn open(path: Option<&Path>, mode: Mode) -> Graph {
    Graph::open(path, Settings { canonical: mode, ..settings() }, NOW_MS).unwrap()
}

fn stats(graph: &Graph) -> HashMap<&'static str, u64> {
    graph.stats().into_iter().collect()
}

fn ask(text: &str) -> Ask {
    Ask { text: text.to_owned(), ..Ask::default() }
}

fn order(number: u64, wording: u64) -> Ask {
    let text = match wording % 4 {
        0 => format!("When was order {number} shipped?"),
        1 => format!("when was order {number} shipped"),
        2 => format!("Please, when was order {number} shipped?"),
        _ => format!("When was  order {number} shipped?"),
    };
    ask(&text)
}

fn served_text(decision: &Decision) -> String {
    let body: Value = serde_json::from_slice(&decision.pieces().concat()).unwrap();
    body["content"][0]["text"].as_str().unwrap().to_owned()
}

const ANSWER: &[u8] = br#"{"id":"msg_upstream","type":"message","role":"assistant","model":"small","content":[{"type":"text","text":"It was shipped on 2 March."}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":4}}"#;

#[test]
fn another_wording_is_learnt_first_and_counted_then() {
    let folder = tempfile::tempdir().unwrap();
    for graph in [open(None, Mode::Shadow), open(Some(&folder.path().join("graph")), Mode::Shadow)] {
        teach(&graph, &order(1042, 0), ANSWER, NOW_MS);
        graph.flush().unwrap();
        let second = order(1042, 1).decide(&graph, NOW_MS + 10);
        assert!(
            second.header().starts_with("miss;route=same;"),
            "nothing confirmed yet: {}",
            second.header()
        );
        assert_eq!(settle_whole(&graph, &second, 200, ANSWER, true, NOW_MS + 11), "stored");
        graph.flush().unwrap();
        assert_eq!((stats(&graph)["learned"], stats(&graph)["trials"]), (1, 0));

        let third = order(1042, 2).decide(&graph, NOW_MS + 20);
        let header = third.header();
        assert!(header.starts_with("miss;route=canonical;node="), "{header}");
        assert!(header.ends_with(";stage=shadow;bound=1.00000;n=0;s=0"), "{header}");
        assert_eq!(settle_whole(&graph, &third, 200, ANSWER, true, NOW_MS + 21), "stored");
        graph.flush().unwrap();
        let fourth = kind(&graph, &order(1042, 3), NOW_MS + 30);
        assert!(fourth.ends_with(";n=1;s=0"), "{fourth}");
        let pools = graph.pools();
        assert_eq!(pools.len(), 1);
        let (label, pool) = (&pools[0].label, &pools[0].pool);
        assert_eq!(
            (label.route.as_str(), label.kind.as_str(), label.language.as_str()),
            ("canonical", "prose", "english")
        );
        assert_eq!((pool.trials, pool.wrong, pool.progress.step), (1, 0, Step::Shadow));
    }
}

#[test]
fn other_values_other_scopes_and_other_tenants_never_meet() {
    let graph = open(None, Mode::Bounded);
    teach(&graph, &order(1042, 0), ANSWER, NOW_MS);
    teach(&graph, &order(1042, 1), ANSWER, NOW_MS + 1);
    for other in [
        order(1043, 1),
        Ask { api_key: "sk-two".into(), ..order(1042, 2) },
        Ask { model: "large".into(), ..order(1042, 2) },
        Ask { system: Some("Answer in French.".into()), ..order(1042, 2) },
        Ask { upstream: "http://other.example".into(), ..order(1042, 2) },
        Ask { max_tokens: 65, ..order(1042, 2) },
        ask("When was order 1042 not shipped?"),
        ask("When was my order 1042 shipped?"),
        ask(&format!("When was order 1042 shipped?{}", " x".repeat(1001))),
    ] {
        let decision = other.decide(&graph, NOW_MS + 10);
        assert!(decision.header().starts_with("miss;route=same;"), "{other:?}: {}", decision.header());
    }
}

#[test]
fn a_wrong_trial_counts_withdraws_and_sends_the_siblings_back_to_learning() {
    let graph = open(None, Mode::Shadow);
    for number in [1042, 1043] {
        teach(&graph, &order(number, 0), ANSWER, NOW_MS);
        teach(&graph, &order(number, 1), ANSWER, NOW_MS + 10);
        assert!(kind(&graph, &order(number, 2), NOW_MS + 20).contains("route=canonical"));
    }
    assert_eq!(
        teach(&graph, &order(1042, 2), &answer_json("It was shipped on 9 April."), NOW_MS + 30),
        "stored"
    );
    let counts = stats(&graph);
    assert_eq!((counts["trials"], counts["trials_wrong"]), (1, 1));
    assert_eq!(graph.pools()[0].pool.causes, [0, 0, 0, 1]);
    for number in [1042, 1043] {
        let header = kind(&graph, &order(number, 3), NOW_MS + 40);
        assert!(header.starts_with("miss;route=same;"), "{number}: {header}");
    }
    // A later answer confirms the sibling again.
    teach(&graph, &order(1043, 3), ANSWER, NOW_MS + 50);
    teach(&graph, &order(1043, 2), ANSWER, NOW_MS + 60);
    assert_eq!(stats(&graph)["trials"], 2, "it is compared again");
}

#[test]
fn an_upstream_that_rewords_every_answer_is_never_counted() {
    let graph = open(None, Mode::Bounded);
    let answers = [
        "It was shipped on 2 March.",
        "That parcel left the warehouse in the first days of spring, as far as anyone could possibly tell you.",
        "Our records of deliveries hold no further details about this, so a colleague has to look into the matter.",
    ];
    for (round, text) in (0_u64..).zip(answers.iter().cycle().take(12)) {
        teach(&graph, &order(7001, round), &answer_json(text), NOW_MS + round * 7);
        // The same route would answer the repeat of a wording.
        graph.purge(zlrs_store::Purge::Expired(0), 0).unwrap();
    }
    assert_eq!(stats(&graph)["trials_wrong"], 0);
}

/// Brings the class of the ask above to its bound with clean trials.
fn proven(graph: &Graph, numbers: u64) -> u64 {
    let mut now_ms = NOW_MS;
    for number in 0..numbers {
        for wording in 0..4 {
            now_ms += 1;
            let decision = order(100_000 + number, wording).decide(graph, now_ms);
            if decision.kind() == DecisionKind::Miss {
                settle_whole(graph, &decision, 200, ANSWER, true, now_ms);
            }
        }
    }
    now_ms
}

#[test]
fn a_class_that_has_proven_itself_is_served_a_twentieth_and_every_hit_is_checked() {
    let graph = open(None, Mode::Bounded);
    // Two trials a number: the third and the fourth wording.
    let now_ms = proven(&graph, 1617);
    let pool = &graph.pools()[0].pool;
    assert!(pool.trials >= 3232, "{}", pool.trials);
    assert_eq!((pool.wrong, pool.progress.step), (0, Step::Canary));
    let before = stats(&graph)["canonical_hits"];
    let (mut hits, mut forwarded) = (0, 0);
    for number in 0..290 {
        teach(&graph, &order(200_000 + number, 0), ANSWER, now_ms + 10);
        teach(&graph, &order(200_000 + number, 1), ANSWER, now_ms + 20);
        let decision = order(200_000 + number, 2).decide(&graph, now_ms + 30);
        let header = decision.header();
        assert!(
            header.contains("route=canonical;") && header.contains(";stage=canary;bound=0.00"),
            "{header}"
        );
        if decision.kind() == DecisionKind::Hit {
            hits += 1;
            assert!(decision.recheck(), "{header}");
            assert_eq!(served_text(&decision), "It was shipped on 2 March.");
            let ended = settle_whole(&graph, &decision, 200, ANSWER, true, now_ms + 31);
            assert_eq!(ended, "recheck_agree");
        } else {
            forwarded += 1;
        }
    }
    assert!((3..40).contains(&hits), "{hits} of {}", hits + forwarded);
    let pool = &graph.pools()[0].pool;
    assert_eq!(pool.progress.step, Step::Canary);
    assert_eq!(stats(&graph)["canonical_hits"] - before, hits);
}

#[test]
fn what_is_proven_serves_nothing_in_shadow_and_stops_at_an_error_and_at_another_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("graph");
    let graph = open(Some(&path), Mode::Bounded);
    let now_ms = NOW_MS + 1_000_000;
    for number in [1, 2, 3] {
        teach(&graph, &order(number, 0), ANSWER, now_ms);
        teach(&graph, &order(number, 1), ANSWER, now_ms + 5);
    }
    teach(&graph, &order(1, 2), ANSWER, now_ms + 10);
    graph.flush().unwrap();
    let name = graph.pools()[0].name;
    graph.close();

    // Evidence as if it had been gathered: the pool's name and seal are the graph's own.
    let secrets = zlrs_store::Secrets::open(&path.join("graph.key")).unwrap();
    let evidence = zlrs_store::Evidence::open(
        &path.join("evidence.sqlite3"),
        secrets.derived("evidence rows"),
        zlrs_store::Notices::default(),
        NOW_MS,
    )
    .unwrap();
    let label = evidence.pools()[0].label.clone();
    let full = |pool: &mut zlrs_graph::Pool| {
        pool.trials = 10_000;
        pool.progress = zlrs_graph::Progress { step: Step::Full, clean: 0 };
    };
    evidence.change(&name, &label, || panic!("it is there"), full).unwrap();
    drop(evidence);

    let shadow = open(Some(&path), Mode::Shadow);
    teach(&shadow, &ask("hello there"), ANSWER, now_ms + 20);
    let decision = order(2, 2).decide(&shadow, now_ms + 20);
    assert_eq!(decision.kind(), DecisionKind::Miss);
    assert!(decision.header().contains("stage=full;bound=0.00032;n=10000;s=0"), "{}", decision.header());
    shadow.close();

    let graph = open(Some(&path), Mode::Bounded);
    teach(&graph, &ask("hello there"), ANSWER, now_ms + 30);
    let decision = order(2, 2).decide(&graph, now_ms + 31);
    assert_eq!(decision.kind(), DecisionKind::Hit, "{}", decision.header());
    assert_eq!(served_text(&decision), "It was shipped on 2 March.");
    graph.flush().unwrap();

    // Two processes: what one has sent to shadow, the other does not serve.
    let other = open(Some(&path), Mode::Bounded);
    teach(&other, &ask("hello there"), ANSWER, now_ms + 40);
    let evidence_of = |wrong: u64| {
        let spoil = move |pool: &mut zlrs_graph::Pool| pool.wrong = wrong;
        let evidence = zlrs_store::Evidence::open(
            &path.join("evidence.sqlite3"),
            secrets.derived("evidence rows"),
            zlrs_store::Notices::default(),
            NOW_MS,
        )
        .unwrap();
        evidence.change(&name, &label, || panic!("it is there"), spoil).unwrap();
    };
    evidence_of(9);
    for graph in [&graph, &other] {
        assert_eq!(order(3, 2).decide(graph, now_ms + 50).kind(), DecisionKind::Miss);
    }
    evidence_of(0);
    assert_eq!(order(3, 2).decide(&other, now_ms + 51).kind(), DecisionKind::Hit);

    // The upstream's model has another name now: what it said before proves nothing about it.
    let renamed = String::from_utf8(ANSWER.to_vec()).unwrap().replace("\"small\"", "\"small-2\"");
    let drawn = (0_u64..100_000).find(|step| {
        let decision = order(3, 2).decide(&other, now_ms + 60 + step);
        decision.recheck()
            && settle_whole(&other, &decision, 200, renamed.as_bytes(), true, now_ms + 61 + step)
                == "recheck_agree"
    });
    assert!(drawn.is_some());
    let pool = &other.pools()[0].pool;
    assert_eq!((pool.trials, pool.restarts, pool.progress.step), (1, 1, Step::Shadow));
    assert_eq!(order(2, 3).decide(&graph, now_ms + 1_000_000).kind(), DecisionKind::Miss);
}

#[test]
fn a_refusal_in_words_is_compared_and_never_kept() {
    let graph = open(None, Mode::Shadow);
    let refusal = answer_json("I'm sorry, but I can't help with that.");
    assert_eq!(teach(&graph, &order(1042, 0), &refusal, NOW_MS), "refused");
    assert_eq!(stats(&graph)["entries"], 0);
    teach(&graph, &order(1042, 0), ANSWER, NOW_MS + 10);
    teach(&graph, &order(1042, 1), ANSWER, NOW_MS + 20);
    assert_eq!(teach(&graph, &order(1042, 2), &refusal, NOW_MS + 30), "refused");
    assert_eq!((stats(&graph)["trials"], stats(&graph)["trials_wrong"]), (1, 1), "it is another answer");
}

#[test]
fn off_looks_nothing_up_and_keeps_nothing() {
    let graph = open(None, Mode::Off);
    teach(&graph, &order(1042, 0), ANSWER, NOW_MS);
    assert_eq!(stats(&graph)["entries"], 1);
    assert!(kind(&graph, &order(1042, 1), NOW_MS + 1).starts_with("miss;route=same;"));
}

#[test]
fn audit_records_of_the_route_repeat_their_decisions() {
    let folder = tempfile::tempdir().unwrap();
    let graph = open(Some(&folder.path().join("graph")), Mode::Bounded);
    for wording in 0..4 {
        teach(&graph, &order(1042, wording), ANSWER, NOW_MS + wording);
        graph.flush().unwrap();
    }
    kind(&graph, &order(1042, 0), NOW_MS + 10);
    kind(&graph, &Ask { temperature: None, ..order(1042, 0) }, NOW_MS + 10);
    graph.flush().unwrap();
    let path = graph.audit_path().unwrap().to_owned();
    verify_audit(&path, None).unwrap();
    let bodies: Vec<Value> = std::fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["body"].clone())
        .collect();
    let decisions: Vec<&Value> = bodies.iter().filter(|body| body["kind"] == "decision").collect();
    assert_eq!(decisions.len(), 6);
    let mut said = Vec::new();
    for body in &decisions {
        let repeated = repeat(body).unwrap();
        assert!(repeated.holds(), "{repeated:?}");
        said.push(repeated.repeated);
    }
    assert!(said[0].ends_with(r#"canonical={"nothing":"no_entry"}"#), "{said:?}");
    assert!(said[1].ends_with(r#"canonical="learn""#), "{said:?}");
    assert!(said[2].ends_with(r#"canonical="trial""#), "{said:?}");
    assert_eq!((said[4].as_str(), said[5].as_str()), ("hit", "skipped;reason=temperature_default"));
    let mut changed = decisions[4].clone();
    changed["outcome"] = Value::from("miss");
    assert!(!repeat(&changed).unwrap().holds());
    assert!(repeat(&bodies[0]).is_err(), "the start of a chain is no decision");
    let trials: Vec<&Value> = bodies.iter().filter(|body| body["kind"] == "trial").collect();
    assert_eq!(trials.len(), 2);
    assert_eq!((&trials[1]["agreement"], &trials[1]["trials"]), (&Value::from("agree"), &Value::from(2)));
}
