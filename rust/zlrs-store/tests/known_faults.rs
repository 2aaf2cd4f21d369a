//! Faults that other caches have been reported with, each as the smallest requests that show it. The table in
//! `docs/known-faults.md` says which test stands for which.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test stops at what is wrong")]

mod common;
#[path = "common/wire.rs"]
mod wire;

use common::NOW_MS;
use serde_json::Value;
use wire::{Ask, answer_json, decide_raw, settings, settle_whole, teach};
use zlrs_graph::{Mode, Settings};
use zlrs_store::Graph;
use zlrs_wire::header::DecisionKind;

const KEY: [(&[u8], &[u8]); 2] = [(b"x-api-key", b"sk-one"), (b"content-type", b"application/json")];

fn graph() -> Graph {
    Graph::open(None, Settings { canonical: Mode::Bounded, ..settings() }, NOW_MS).unwrap()
}

fn ask(text: &str) -> Ask {
    Ask { text: text.to_owned(), ..Ask::default() }
}

/// After `stored` is known and confirmed, `asked` must not meet it over any route.
fn never_meet(stored: &str, asked: &str) {
    let graph = graph();
    for (round, wording) in [stored.to_owned(), format!("Please, {stored}")].iter().enumerate() {
        teach(&graph, &ask(wording), &answer_json("the answer"), NOW_MS + round as u64);
    }
    let decision = ask(asked).decide(&graph, NOW_MS + 10);
    let header = decision.header();
    assert!(header.starts_with("miss;route=same;"), "{stored:?} and {asked:?}: {header}");
}

#[test]
fn opposite_words_do_not_share_an_answer() {
    never_meet("How do I enable 2FA?", "How do I disable 2FA?");
    never_meet("How do I turn on notifications?", "How do I turn off notifications?");
    never_meet("Is the shop open on Sunday?", "Is the shop not open on Sunday?");
    never_meet("怎么开启通知?", "怎么关闭通知?");
}

#[test]
fn turned_round_relations_do_not_share_an_answer() {
    never_meet("convert USD to EUR", "convert EUR to USD");
    never_meet("Which trains go from Oslo to Bergen?", "Which trains go from Bergen to Oslo?");
    never_meet("把美元换成欧元", "把欧元换成美元");
}

#[test]
fn possessives_do_not_share_an_answer() {
    never_meet("delete my branch", "delete your branch");
    never_meet("review my changes", "review your changes");
    never_meet("删除我的分支", "删除你的分支");
}

#[test]
fn one_digit_one_date_one_unit_one_version_do_not_share_an_answer() {
    never_meet("What is 17*23?", "What is 17*28?");
    never_meet("What happened on 3 May 2019?", "What happened on 8 May 2019?");
    never_meet("How far is 10 km?", "How far is 10 miles?");
    never_meet("What is new in Python 3.12?", "What is new in Python 3.13?");
    never_meet("What is 10² divided by 2?", "What is 102 divided by 2?");
}

#[test]
fn values_that_are_written_alike_do_not_share_an_answer() {
    never_meet("中午12点可以送货吗？", "凌晨12点可以送货吗？");
    never_meet("晚上12点可以送货吗？", "下午12点可以送货吗？");
    never_meet("If a 20% tax rises by 5%?", "If a 20% tax rises by 5 percentage points?");
    never_meet("Which city has the postcode 01067?", "Which city has the postcode 1067?");
    never_meet("一亿三千万元够吗？", "十三万亿元够吗？");
    never_meet("Is the $20 day pass valid?", "Is the $20 week pass valid?");
    never_meet("Is 5g safe?", "Is 5 grams safe?");
}

#[test]
fn three_questions_have_three_answers() {
    let graph = graph();
    let texts = ["Hello", "1+1?", "Which colour has the sky?"];
    for (number, text) in texts.iter().enumerate() {
        assert_eq!(ask(text).decide(&graph, NOW_MS).kind(), DecisionKind::Miss);
        teach(&graph, &ask(text), &answer_json(&format!("answer {number}")), NOW_MS);
    }
    for (number, text) in texts.iter().enumerate() {
        let hit = ask(text).decide(&graph, NOW_MS + 5);
        let body: Value = serde_json::from_slice(&hit.pieces().concat()).unwrap();
        assert_eq!(body["content"][0]["text"], format!("answer {number}"));
    }
}

fn body(more: &str, turns: &str) -> Vec<u8> {
    format!(r#"{{"model":"m","max_tokens":9,"temperature":0,"messages":[{turns}]{more}}}"#).into_bytes()
}

const TOOL: &str = r#""tools":[{"name":"look","input_schema":{"type":"object"}}]"#;

#[test]
fn tools_their_choice_and_their_results_are_never_answered_from_the_graph() {
    let graph = graph();
    let user = r#"{"role":"user","content":"Where is order 7?"}"#;
    let used = r#"{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"look","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"in Oslo"}]}"#;
    for (more, turns) in [
        (format!(",{TOOL},\"tool_choice\":{{\"type\":\"none\"}}"), user.to_owned()),
        (format!(",{TOOL},\"tool_choice\":{{\"type\":\"any\"}}"), user.to_owned()),
        (format!(",{TOOL}"), format!("{user},{used}")),
        (String::new(), format!("{user},{used}")),
    ] {
        for round in 0..3 {
            let decision = decide_raw(&graph, "/v1/messages", &KEY, &body(&more, &turns), NOW_MS + round);
            assert_eq!(decision.kind(), DecisionKind::Skipped, "{more} {turns}: {}", decision.header());
            assert_ne!(
                settle_whole(&graph, &decision, 200, &answer_json("x"), true, NOW_MS + round),
                "stored"
            );
        }
    }
}

#[test]
fn pictures_are_never_answered_from_the_graph() {
    let graph = graph();
    for colour in ["cmVk", "Ymx1ZQ=="] {
        let turn = format!(
            r#"{{"role":"user","content":[{{"type":"text","text":"describe this"}},{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{colour}"}}}}]}}"#
        );
        let decision = decide_raw(&graph, "/v1/messages", &KEY, &body("", &turn), NOW_MS);
        assert_eq!(decision.kind(), DecisionKind::Skipped, "{}", decision.header());
    }
}

#[test]
fn a_sampling_request_is_asked_every_time() {
    let graph = graph();
    let sampling = Ask { temperature: Some(1.0), ..ask("Tell me a story.") };
    for round in 0..2 {
        assert_eq!(sampling.decide(&graph, NOW_MS + round).kind(), DecisionKind::Skipped);
        assert_eq!(teach(&graph, &sampling, &answer_json("once"), NOW_MS + round), "temperature_high");
    }
}

#[test]
fn a_long_common_beginning_tells_users_apart() {
    let graph = graph();
    let long = "The customer has written to us about the delivery of the books. ".repeat(60);
    let of = |user: &str| Ask { system: Some(format!("{long}User: {user}")), ..ask("What is my balance?") };
    teach(&graph, &of("alice"), &answer_json("100"), NOW_MS);
    assert_eq!(of("alice").decide(&graph, NOW_MS + 2).kind(), DecisionKind::Hit);
    assert_eq!(of("bob").decide(&graph, NOW_MS + 2).kind(), DecisionKind::Miss);
}

#[test]
fn the_order_of_keys_and_a_changing_attribution_line_make_no_other_request() {
    let graph = graph();
    let turn = r#"{"role":"user","content":"Where is order 7?"}"#;
    let line = |hash: &str| {
        format!(r#","system":"x-anthropic-billing-header: cc_version=2.1; cch={hash};\nBe brief.""#)
    };
    let first = body(&line("aaaa1"), turn);
    let decision = decide_raw(&graph, "/v1/messages", &KEY, &first, NOW_MS);
    assert_eq!(settle_whole(&graph, &decision, 200, &answer_json("in Oslo"), true, NOW_MS), "stored");
    let turned = format!(
        r#"{{"messages":[{{"content":"Where is order 7?","role":"user"}}],"temperature":0{},"max_tokens":9,"model":"m"}}"#,
        line("bbbb2")
    );
    for again in [body(&line("bbbb2"), turn), turned.into_bytes()] {
        let decision = decide_raw(&graph, "/v1/messages", &KEY, &again, NOW_MS + 5);
        assert_eq!(decision.kind(), DecisionKind::Hit, "{}", decision.header());
    }
}

#[test]
fn what_a_caller_sends_never_loosens_a_decision() {
    let graph = graph();
    teach(&graph, &ask("How do I enable 2FA?"), &answer_json("Like this."), NOW_MS);
    for header in [
        ("x-cache-threshold", "0.1"),
        ("x-zlrs-preset", "trial"),
        ("x-zlrs-tau", "0.1"),
        ("x-cache-namespace", "shared"),
        ("x-semantic-threshold", "0"),
    ] {
        let asked = Ask { headers: vec![header], ..ask("How do I disable 2FA?") };
        assert_eq!(asked.decide(&graph, NOW_MS + 5).kind(), DecisionKind::Miss, "{header:?}");
    }
}

#[test]
fn a_long_answer_is_replayed_in_many_pieces() {
    let graph = graph();
    let text = "It takes a few days, and the parcel is tracked all the way. ".repeat(20);
    teach(&graph, &ask("How long does it take?"), &answer_json(&text), NOW_MS);
    let hit = Ask { stream: true, ..ask("How long does it take?") }.decide(&graph, NOW_MS + 5);
    let deltas: Vec<&[u8]> = hit
        .pieces()
        .iter()
        .map(Vec::as_slice)
        .filter(|piece| piece.windows(19).any(|bytes| bytes == b"content_block_delta"))
        .collect();
    assert!(deltas.len() >= 10, "{} deltas", deltas.len());
    let longest = deltas.iter().map(|piece| piece.len()).max().unwrap();
    assert!(longest < text.len() / 2, "{longest} bytes in one piece");
}
