//! Every field of the tables, one by one.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use zlrs_wire::Protocol;
use zlrs_wire::request::fields::{self, Field, Rule, rule_of};

use crate::samples::{keys, plain};

/// Values of many shapes for one field, all different.
fn values() -> Vec<Json> {
    vec![
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(1),
        json!(0.5),
        json!(2),
        json!("a"),
        json!("b"),
        json!(""),
        json!([]),
        json!(["text"]),
        json!(["a"]),
        json!({}),
        json!({"type": "ephemeral"}),
        json!({"type": "a"}),
        json!({"include_usage": true}),
        json!([{"type": "text", "text": "a"}]),
        json!([{"role": "user", "content": "a"}]),
        json!([{"role": "user", "content": "b"}]),
        json!([{"role": "user", "content": [{"type": "text", "text": "a"}]}]),
    ]
}

/// Of two values of one field: equal keys only where the field is ignored.
fn check_field(protocol: Protocol, (name, rule): &Field, place: impl Fn(&Json, Option<&Json>) -> Json) {
    let (mut eligible, mut seen) = (0, BTreeMap::<([u8; 32], [u8; 32]), Json>::new());
    let base = plain();
    for value in std::iter::once(None).chain(values().iter().map(Some)) {
        let body = place(&base, value);
        let Some(key) = keys(protocol, &body) else { continue };
        eligible += 1;
        if let Some(other) = seen.insert(key, body.clone()) {
            assert!(rule.is_ignored(), "{name}: {other} and {body} have one key");
        }
    }
    if rule.is_ignored() {
        assert_eq!(seen.len(), 1, "{name} is not ignored");
        assert!(eligible > 1, "{name} was never eligible");
    }
    let never = matches!(rule, Rule::Never(_));
    assert!(eligible > 0 || never || matches!(rule, Rule::Model | Rule::Turns), "{name} was never eligible");
}

#[test]
fn every_top_level_field_is_in_the_scope_or_on_the_ignore_list() {
    for protocol in [Protocol::Messages, Protocol::Chat] {
        for field in fields::body(protocol) {
            check_field(protocol, field, |base, value| {
                let mut body = base.clone();
                if let Some(value) = value {
                    body[field.0] = value.clone();
                }
                body
            });
        }
    }
}

#[test]
fn every_field_of_a_turn_and_of_a_block_is_in_the_scope_or_on_the_ignore_list() {
    for protocol in [Protocol::Messages, Protocol::Chat] {
        for field in fields::turn(protocol) {
            check_field(protocol, field, |_, value| {
                let mut turn = json!({"role": "assistant", "content": "a"});
                if let Some(value) = value {
                    turn[field.0] = value.clone();
                }
                json!({"model": "m", "messages": [turn, {"role": "user", "content": "b"}]})
            });
        }
        for (kind, rule) in fields::blocks(protocol) {
            if matches!(rule, Rule::Never(_)) {
                let body = json!({"model": "m", "messages": [{"role": "user", "content": [{"type": kind}, {"type": "text", "text": "a"}]}]});
                assert_eq!(keys(protocol, &body), None, "{kind}");
            }
            for field in fields::block_fields(protocol, kind) {
                check_field(protocol, field, |_, value| {
                    let mut block = json!({"type": kind});
                    if ["text", "thinking", "refusal"].contains(kind) {
                        block[*kind] = json!("t");
                    }
                    if let Some(value) = value {
                        block[field.0] = value.clone();
                    }
                    json!({"model": "m", "messages": [{"role": "assistant", "content": [block]}, {"role": "user", "content": "b"}]})
                });
            }
        }
    }
}

/// The tests above take the tables' word for what is ignored; this list is written a second time on purpose.
#[test]
fn the_ignore_list_is_this_and_nothing_else() {
    let ignored = |table: &[Field]| -> Vec<&str> {
        table.iter().filter(|(_, rule)| rule.is_ignored()).map(|(name, _)| *name).collect()
    };
    assert_eq!(ignored(fields::MESSAGES_BODY), ["stream", "metadata", "cache_control"]);
    assert_eq!(ignored(fields::CHAT_BODY), ["stream", "stream_options", "metadata"]);
    for protocol in [Protocol::Messages, Protocol::Chat] {
        assert!(ignored(fields::turn(protocol)).is_empty());
        for (kind, _) in fields::blocks(protocol) {
            let expected: &[&str] =
                if (protocol, *kind) == (Protocol::Messages, "text") { &["cache_control"] } else { &[] };
            assert_eq!(ignored(fields::block_fields(protocol, kind)), expected, "{kind}");
        }
    }
}

/// What may never be answered from the graph, written a second time on purpose.
#[test]
fn what_is_never_eligible_is_at_least_this() {
    for name in ["tools", "tool_choice", "container", "previous_response_id", "conversation", "session"] {
        let rule = rule_of(fields::MESSAGES_BODY, name);
        assert!(matches!(rule, Some(Rule::Never(_))), "{name}");
    }
    for name in [
        "tools",
        "tool_choice",
        "functions",
        "function_call",
        "audio",
        "store",
        "previous_response_id",
        "conversation",
    ] {
        let rule = rule_of(fields::CHAT_BODY, name);
        assert!(matches!(rule, Some(Rule::Never(_))), "{name}");
    }
    for (protocol, kinds) in [
        (Protocol::Messages, &["image", "document", "tool_use", "tool_result"][..]),
        (Protocol::Chat, &["image_url", "input_audio", "file"][..]),
    ] {
        for kind in kinds {
            assert!(matches!(rule_of(fields::blocks(protocol), kind), Some(Rule::Never(_))), "{kind}");
        }
    }
}
