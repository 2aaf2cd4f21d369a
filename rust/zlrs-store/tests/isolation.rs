//! Nobody is served what another has asked for: over every field that matters, and against a tenant that writes as
//! much as it likes.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test stops at what is wrong")]

mod common;
#[path = "common/wire.rs"]
mod wire;

use common::NOW_MS;
use serde_json::Value;
use wire::{Ask, answer_json, settings, teach};
use zlrs_graph::{Mode, Settings};
use zlrs_store::{Decision, Graph};
use zlrs_wire::header::DecisionKind;

const TENANTS: usize = 20;
const PROMPTS: usize = 200;
const CRAFTED: usize = 10_000;

/// All routes on.
fn graph() -> Graph {
    let settings = Settings { canonical: Mode::Bounded, max_ask_chars: 4000, ..settings() };
    Graph::open(None, settings, NOW_MS).unwrap()
}

fn prompt(number: usize) -> String {
    match number % 4 {
        0 => format!("What is the balance of account {number}?"),
        1 => format!("When does contract {number} end?"),
        2 => format!("Which plan does customer {number} have?"),
        _ => format!("How many open tickets does team {number} have?"),
    }
}

fn ask(tenant: usize, number: usize) -> Ask {
    Ask { api_key: format!("sk-tenant-{tenant}"), text: prompt(number), ..Ask::default() }
}

fn said(decision: &Decision) -> String {
    let body: Value = serde_json::from_slice(&decision.pieces().concat()).unwrap();
    body["content"][0]["text"].as_str().unwrap().to_owned()
}

/// The request with one field changed: seven ways to be another request.
fn mutated(base: &Ask, field: usize) -> Ask {
    let base = base.clone();
    match field {
        0 => Ask { model: "other".into(), ..base },
        1 => Ask { system: Some("Answer in French.".into()), ..base },
        2 => Ask { max_tokens: 65, ..base },
        3 => Ask { temperature: Some(0.01), ..base },
        4 => Ask { upstream: "http://other.example".into(), ..base },
        5 => Ask { headers: vec![("anthropic-beta", "context-1m")], ..base },
        _ => Ask { earlier: vec![("user", "Hi"), ("assistant", "Hello")], ..base },
    }
}

#[test]
fn twenty_tenants_ask_two_hundred_questions_with_seven_fields_changed_and_none_crosses() {
    let graph = graph();
    for tenant in 0..TENANTS {
        for number in 0..PROMPTS {
            let answer = answer_json(&format!("tenant {tenant} answer {number}"));
            assert_eq!(teach(&graph, &ask(tenant, number), &answer, NOW_MS), "stored");
        }
        // Every upstream accepts every tenant, so that keys alone keep requests from each other's answers.
        let other = Ask { upstream: "http://other.example".into(), text: "Hello".into(), ..ask(tenant, 0) };
        teach(&graph, &other, &answer_json("Hi."), NOW_MS);
    }
    let mut own = 0;
    for tenant in 0..TENANTS {
        for number in 0..PROMPTS {
            let hit = ask(tenant, number).decide(&graph, NOW_MS + 10);
            assert_eq!(hit.kind(), DecisionKind::Hit);
            assert_eq!(said(&hit), format!("tenant {tenant} answer {number}"));
            own += 1;
            for field in 0..7 {
                let decision = mutated(&ask(tenant, number), field).decide(&graph, NOW_MS + 10);
                assert_eq!(decision.kind(), DecisionKind::Miss, "field {field}: {}", decision.header());
                assert!(decision.header().starts_with("miss;route=same;"), "{}", decision.header());
            }
        }
    }
    assert_eq!(own, TENANTS * PROMPTS);
}

#[test]
fn ten_thousand_entries_crafted_by_one_tenant_serve_no_other() {
    let graph = graph();
    let noise =
        ["", " ", "?", ".", " please", "!", " 0", "\u{200b}", " (confirmed)", " ignore the account above"];
    for crafted in 0..CRAFTED {
        let text = format!(
            "{}{}",
            prompt(crafted % PROMPTS),
            noise[crafted / PROMPTS % noise.len()].repeat(1 + crafted / 2000)
        );
        let attacker = Ask { api_key: "sk-attacker".into(), text, ..Ask::default() };
        teach(&graph, &attacker, &answer_json("poison"), NOW_MS + crafted as u64 / 16);
    }
    let now_ms = NOW_MS + CRAFTED as u64;
    let victim = |text: &str| Ask { api_key: "sk-victim".into(), text: text.to_owned(), ..Ask::default() };
    teach(&graph, &victim("Hello"), &answer_json("Hi."), now_ms);
    for number in 0..PROMPTS {
        for end in noise {
            let decision = victim(&format!("{}{end}", prompt(number))).decide(&graph, now_ms + 10);
            assert_ne!(decision.kind(), DecisionKind::Hit, "{}", decision.header());
            assert!(!decision.header().contains("route=canonical"), "{}", decision.header());
        }
    }
}
