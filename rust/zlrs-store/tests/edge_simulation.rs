//! The edge route in a world whose truth is known: near forms that always share answers, and near forms that nearly
//! always do. What is served is counted against the truth.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test stops at what is wrong")]

mod common;
#[path = "common/wire.rs"]
mod wire;

use common::NOW_MS;
use serde_json::Value;
use wire::{Ask, answer_json, settings, settle_whole};
use zlrs_graph::{Mode, Preset, Settings};
use zlrs_store::Graph;
use zlrs_wire::header::DecisionKind;

/// Forms in groups; the forms of a group are near and no guard keeps them apart.
const FORMS: [&[&str]; 3] = [
    &["What is the status of order {}?", "Tell me the status of order {}.", "status of order {}"],
    &["What is the price of order {}?", "Tell me the price of order {}.", "price of order {}"],
    &["What is the address of order {}?", "Tell me the address of order {}.", "address of order {}"],
];

/// Numbers without a pattern.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

/// What is true: the same for every form of a group, but for one order in `differs_one_in` under its last form.
fn truth(group: usize, form: usize, order: u64, differs_one_in: u64) -> String {
    let differs = form == 2 && differs_one_in != 0 && order.is_multiple_of(differs_one_in);
    format!("Order {order} has the value {}.", order % 97 + group as u64 * 100 + u64::from(differs) * 1000)
}

struct Seen {
    requests: u64,
    served: u64,
    wrong: u64,
}

/// Traffic over `orders` orders, each asked in some wordings; everything that is forwarded is settled.
fn run(requests: u64, differs_one_in: u64, seed: u64) -> Seen {
    let settings = Settings {
        canonical: Mode::Shadow,
        edge: Mode::Bounded,
        preset: Preset::Trial,
        audit: false,
        ..settings()
    };
    let graph = Graph::open(None, settings, NOW_MS).unwrap();
    let mut numbers = Numbers(seed);
    let mut seen = Seen { requests: 0, served: 0, wrong: 0 };
    for at in 0..requests / 5 {
        let (group, order) = ((numbers.next() % 3) as usize, 10_000 + at);
        let first = (numbers.next() % 3) as usize;
        // One form in three spellings, then another form: what any busy desk sees, in a short while.
        let spell = |form: usize, spelling: u64| {
            let text = FORMS[group][form].replace("{}", &order.to_string());
            match spelling % 3 {
                0 => text,
                1 => text.trim_end_matches(['.', '?']).to_owned(),
                _ => format!("Please, {text}"),
            }
        };
        let mut asked: Vec<(usize, u64)> = vec![(first, 0), (first, 2)];
        for _ in 0..3 {
            asked.push(((numbers.next() % 3) as usize, numbers.next()));
        }
        for (step, (form, spelling)) in asked.into_iter().enumerate() {
            let now_ms = NOW_MS + at * 10 + step as u64;
            let ask = Ask { text: spell(form, spelling), ..Ask::default() };
            let decision = ask.decide(&graph, now_ms);
            let right = truth(group, form, order, differs_one_in);
            seen.requests += 1;
            if decision.kind() == DecisionKind::Hit && decision.header().contains("route=edge") {
                let body: Value = serde_json::from_slice(&decision.pieces().concat()).unwrap();
                seen.served += 1;
                seen.wrong += u64::from(body["content"][0]["text"] != right.as_str());
            }
            if decision.kind() == DecisionKind::Miss || decision.recheck() {
                settle_whole(&graph, &decision, 200, &answer_json(&right), true, now_ms);
            }
        }
    }
    seen
}

#[test]
fn forms_that_share_answers_come_to_be_served_and_none_is_wrong() {
    let seen = run(8_000, 0, 1);
    assert!(seen.served > seen.requests / 50, "{} of {}", seen.served, seen.requests);
    assert_eq!(seen.wrong, 0);
}

#[test]
fn forms_that_differ_now_and_then_stay_within_one_wrong_answer_in_a_hundred() {
    let (mut served, mut wrong) = (0, 0);
    for (differs_one_in, seed) in [(5, 1), (50, 3), (1000, 5)] {
        let seen = run(6_000, differs_one_in, seed);
        eprintln!("one in {differs_one_in}: {} served over edges, {} wrong", seen.served, seen.wrong);
        served += seen.served;
        wrong += seen.wrong;
    }
    assert!(served > 60, "{served}");
    assert!(wrong * 100 <= served, "{wrong} of {served}");
}
