//! What a request view finds.
#![expect(clippy::expect_used, reason = "helpers of tests stand outside the test functions")]

use std::borrow::Cow;

use proptest::prelude::*;
use serde_json::json;
use zlrs_wire::{Protocol, Reason, RequestView, Temperature};

fn barrier(protocol: Protocol, body: &serde_json::Value) -> Option<(Reason, String)> {
    let text = body.to_string();
    let view = RequestView::parse(protocol, text.as_bytes()).expect(&text);
    view.barrier.map(|refusal| (refusal.reason, refusal.path))
}

fn with(field: &str, value: serde_json::Value) -> serde_json::Value {
    let mut body = json!({"model": "m", "max_tokens": 9, "temperature": 0, "messages": [{"role": "user", "content": "hi"}]});
    body[field] = value;
    body
}

#[test]
fn endpoints() {
    assert_eq!(Protocol::of_endpoint("POST", "/v1/messages"), Some(Protocol::Messages));
    assert_eq!(Protocol::of_endpoint("POST", "/team/v1/chat/completions"), Some(Protocol::Chat));
    for (method, path) in [
        ("GET", "/v1/messages"),
        ("POST", "/v1/messages/count_tokens"),
        ("POST", "/v1/messages/"),
        ("post", "/v1/messages"),
    ] {
        assert_eq!(Protocol::of_endpoint(method, path), None, "{method} {path}");
    }
}

#[test]
fn facts_of_a_plain_request() {
    let body = br#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"temperature":0.0,"max_tokens":5,
        "reasoning_effort":"low","response_format":{"type":"json_object"},
        "messages":[{"role":"system","content":"s"},{"role":"user","content":"what \u00e9"}]}"#;
    let view = RequestView::parse(Protocol::Chat, body).expect("a request");
    assert_eq!((view.model.as_ref(), view.ask.as_deref()), ("m", Some("what é")));
    assert!(view.stream && view.include_usage && view.thinking && view.response_format && !view.attribution);
    assert_eq!((view.turns, view.temperature, view.barrier), (2, Temperature::Given(0.0), None));
}

#[test]
fn the_ask_is_the_last_block_of_the_last_turn() {
    let ask = |content: serde_json::Value| {
        let body = with("messages", json!([{"role": "user", "content": content}])).to_string();
        RequestView::parse(Protocol::Messages, body.as_bytes()).expect("a request").ask.map(Cow::into_owned)
    };
    assert_eq!(ask(json!("a")), Some("a".to_owned()));
    assert_eq!(
        ask(json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])),
        Some("b".to_owned())
    );
    for content in [json!(""), json!(" \n"), json!([]), json!([{"type": "text", "text": ""}]), json!(null)] {
        assert_eq!(ask(content.clone()), None, "{content}");
    }
}

#[test]
fn what_cannot_be_read_is_an_error() {
    for (body, reason, path) in [
        ("[]", Reason::WrongType, ""),
        ("{", Reason::MalformedJson, ""),
        (r#"{"messages":[]}"#, Reason::WrongType, "model"),
        (r#"{"model":"m"}"#, Reason::WrongType, "messages"),
        (r#"{"model":7,"messages":[]}"#, Reason::WrongType, "model"),
        (r#"{"model":"m","messages":{}}"#, Reason::WrongType, "messages"),
        (r#"{"model":"m","messages":[],"stream":"semantic"}"#, Reason::WrongType, "stream"),
    ] {
        let refusal = RequestView::parse(Protocol::Messages, body.as_bytes()).expect_err(body);
        assert_eq!((refusal.reason, refusal.path.as_str()), (reason, path), "{body}");
    }
}

#[test]
fn barriers_name_reason_and_path() {
    use Protocol::{Chat, Messages};
    let user = |content: serde_json::Value| json!([{"role": "user", "content": content}]);
    let image = json!([{"type": "image", "source": {}}, {"type": "text", "text": "what"}]);
    let image_url =
        json!([{"type": "image_url", "image_url": {"url": "u"}}, {"type": "text", "text": "what"}]);
    let result = json!([{"type": "tool_result", "tool_use_id": "t", "content": "1"}]);
    let cached = json!([{"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "extra": 1}}]);
    let tool_turn =
        json!([{"role": "user", "content": "a"}, {"role": "tool", "content": "b", "tool_call_id": "c"}]);
    let calls =
        json!([{"role": "assistant", "content": null, "tool_calls": [{}]}, {"role": "user", "content": "a"}]);
    let prefill = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]);
    for (protocol, field, value, reason, path) in [
        (Messages, "foo", json!(1), Reason::UnknownField, "foo"),
        (Messages, "n", json!(1), Reason::UnknownField, "n"),
        (Messages, "tools", json!([{"name": "t"}]), Reason::Tools, "tools"),
        (Messages, "tool_choice", json!({"type": "none"}), Reason::Tools, "tool_choice"),
        (Messages, "container", json!("c"), Reason::Stateful, "container"),
        (Messages, "temperature", json!("0"), Reason::WrongType, "temperature"),
        (Messages, "metadata", json!("x"), Reason::WrongType, "metadata"),
        (Messages, "cache_control", json!({"ttl": 5}), Reason::WrongType, "cache_control.ttl"),
        (Messages, "system", json!(7), Reason::WrongType, "system"),
        (Messages, "system", json!([{"type": "image"}]), Reason::Modality, "system[0].type"),
        (Messages, "messages", json!([]), Reason::NoAsk, "messages"),
        (Messages, "messages", user(image), Reason::Modality, "messages[0].content[0].type"),
        (Messages, "messages", user(result), Reason::Tools, "messages[0].content[0].type"),
        (
            Messages,
            "messages",
            user(cached),
            Reason::UnknownField,
            "messages[0].content[0].cache_control.extra",
        ),
        (
            Messages,
            "messages",
            user(json!([{"type": "new"}])),
            Reason::UnknownValue,
            "messages[0].content[0].type",
        ),
        (
            Messages,
            "messages",
            user(json!([{"type": "text", "text": 1}])),
            Reason::WrongType,
            "messages[0].content[0].text",
        ),
        (Messages, "messages", prefill.clone(), Reason::NoAsk, "messages[1]"),
        (
            Messages,
            "messages",
            json!([{"role": "system", "content": "a"}]),
            Reason::UnknownValue,
            "messages[0].role",
        ),
        (
            Messages,
            "messages",
            json!([{"role": "user", "content": "a", "name": "b"}]),
            Reason::UnknownField,
            "messages[0].name",
        ),
        (Messages, "messages", json!(["a"]), Reason::WrongType, "messages[0]"),
        (Chat, "n", json!(2), Reason::Choices, "n"),
        (Chat, "n", json!(1.0), Reason::Choices, "n"),
        (Chat, "store", json!(true), Reason::Stateful, "store"),
        (Chat, "previous_response_id", json!("r"), Reason::Stateful, "previous_response_id"),
        (Chat, "conversation", json!({"id": "c"}), Reason::Stateful, "conversation"),
        (Chat, "modalities", json!(["text", "audio"]), Reason::Modality, "modalities"),
        (Chat, "stream_options", json!({"foo": true}), Reason::UnknownField, "stream_options.foo"),
        (Chat, "cache_control", json!(null), Reason::UnknownField, "cache_control"),
        (Chat, "messages", user(image_url), Reason::Modality, "messages[0].content[0].type"),
        (Chat, "messages", tool_turn, Reason::Tools, "messages[1].role"),
        (Chat, "messages", calls, Reason::Tools, "messages[0].tool_calls"),
        (Chat, "messages", prefill, Reason::NoAsk, "messages[1]"),
    ] {
        let body = with(field, value);
        assert_eq!(barrier(protocol, &body), Some((reason, path.to_owned())), "{body}");
    }
}

#[test]
fn what_says_nothing_is_no_barrier() {
    use Protocol::{Chat, Messages};
    let dumped = json!([
        {"role": "assistant", "content": "a", "refusal": null, "annotations": [], "audio": null, "tool_calls": null, "function_call": null},
        {"role": "user", "content": "b"},
    ]);
    for (protocol, field, value) in [
        (Messages, "tools", json!([])),
        (Messages, "container", json!(null)),
        (Messages, "temperature", json!(null)),
        (Messages, "cache_control", json!({"type": "ephemeral", "ttl": "1h"})),
        (Messages, "metadata", json!({"user_id": "u", "anything": [1]})),
        (Messages, "stream", json!(null)),
        (Chat, "n", json!(1)),
        (Chat, "store", json!(false)),
        (Chat, "modalities", json!(["text"])),
        (Chat, "stream_options", json!({"include_usage": null, "include_obfuscation": false})),
        (Chat, "messages", dumped),
    ] {
        let body = with(field, value);
        assert_eq!(barrier(protocol, &body), None, "{body}");
    }
}

#[test]
fn the_attribution_line_is_taken_off_and_nothing_else() {
    let line = "x-anthropic-billing-header: cc_version=2.1.177.01c; cc_entrypoint=sdk-cli; cch=36ee5;";
    let seen = |system: serde_json::Value| {
        let body = with("system", system).to_string();
        let view = RequestView::parse(Protocol::Messages, body.as_bytes()).expect("a request");
        (view.attribution, view.barrier.is_none())
    };
    assert_eq!(seen(json!([{"type": "text", "text": line}, {"type": "text", "text": "s"}])), (true, true));
    assert_eq!(seen(json!([{"type": "text", "text": format!("{line}\n")}])), (true, true));
    assert_eq!(seen(json!(format!("{line}\nYou are helpful."))), (true, true));
    for other in [
        format!(" {line}"),
        format!("You are helpful.\n{line}"),
        line.replace("36ee5", "tell a joke"),
        line.replace("cch", "other"),
        line.replace("36ee5", &"a".repeat(33)),
        line.replace("cch=36ee5", "cc_version=1"),
        "x-anthropic-billing-header:".to_owned(),
        "x-anthropic-billing-header: hello".to_owned(),
    ] {
        assert_eq!(seen(json!(other.clone())), (false, true), "{other}");
        assert_eq!(seen(json!([{"type": "text", "text": other}])), (false, true));
    }
    // A block with more than the line, and a line that is not in the first block.
    assert_eq!(seen(json!([{"type": "text", "text": format!("{line}\nYou are helpful.")}])), (false, true));
    assert_eq!(seen(json!([{"type": "text", "text": "s"}, {"type": "text", "text": line}])), (false, true));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = RequestView::parse(Protocol::Messages, &bytes);
        let _ = RequestView::parse(Protocol::Chat, &bytes);
    }

    #[test]
    fn damaged_requests_never_panic(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let body = with("system", json!([{"type": "text", "text": "é\u{1F600}"}])).to_string();
        let mut bytes = body.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let cut = cut.index(bytes.len());
        for protocol in [Protocol::Messages, Protocol::Chat] {
            let _ = RequestView::parse(protocol, &bytes);
            let _ = RequestView::parse(protocol, &bytes[..cut]);
        }
    }
}
