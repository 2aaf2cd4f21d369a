//! What an answer becomes, and why it must not be kept.

use serde_json::{Value as Json, json};
use zlrs_wire::{Answer, Protocol, Reason};

use crate::samples::{barrier, chat_chunks, message_events, sse, to_json};

#[test]
fn a_messages_stream_becomes_its_message() {
    let answer = Answer::from_stream(Protocol::Messages, &sse(&message_events()));
    assert_eq!(barrier(&answer), None, "{:?}", answer.facts);
    assert!(answer.facts.usage && answer.facts.text && !answer.facts.thinking);
    assert_eq!(
        to_json(&answer),
        json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": "Hello 😀 world"}],
            "stop_reason": "end_turn", "stop_sequence": null,
            "usage": {"input_tokens": 25, "cache_read_input_tokens": 3, "output_tokens": 15}})
    );
}

#[test]
fn a_chat_stream_becomes_its_completion() {
    let answer = Answer::from_stream(Protocol::Chat, &chat_chunks());
    assert_eq!(barrier(&answer), None, "{:?}", answer.facts);
    assert!(answer.facts.usage);
    assert_eq!(
        to_json(&answer),
        json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 5, "model": "m", "system_fingerprint": "f",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello world", "refusal": null}, "logprobs": null, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}})
    );
}

#[test]
fn tool_calls_and_their_input_are_assembled() {
    let mut events = message_events();
    events[1]["content_block"] = json!({"type": "tool_use", "id": "t", "name": "n", "input": {}});
    events[3]["delta"] = json!({"type": "input_json_delta", "partial_json": "{\"a\":"});
    events[4]["delta"] = json!({"type": "input_json_delta", "partial_json": "[1,2]}"});
    events[6]["delta"]["stop_reason"] = json!("tool_use");
    let answer = Answer::from_stream(Protocol::Messages, &sse(&events));
    assert_eq!(barrier(&answer), Some(Reason::Tools));
    assert_eq!(to_json(&answer)["content"][0]["input"], json!({"a": [1, 2]}));
}

/// A change of a list of events.
type Change = fn(&mut Vec<Json>);

#[test]
fn what_must_not_be_kept_is_seen_in_a_messages_stream() {
    let cases: &[(Change, Reason)] = &[
        (|events| events.truncate(7), Reason::Incomplete),
        (|events| events.truncate(4), Reason::Incomplete),
        (|events| events.truncate(0), Reason::Incomplete),
        (|events| events[6]["delta"]["stop_reason"] = json!("max_tokens"), Reason::StopReason),
        (|events| events[6]["delta"]["stop_reason"] = json!("pause_turn"), Reason::StopReason),
        (|events| events[6]["delta"]["stop_reason"] = json!(null), Reason::StopReason),
        (|events| events[6]["delta"]["stop_reason"] = json!("refusal"), Reason::Refused),
        (|events| events[6]["delta"]["container"] = json!({"id": "c"}), Reason::Stateful),
        (|events| drop(events.drain(3..5)), Reason::Empty),
        (|events| drop(events.drain(1..6)), Reason::Empty),
        (
            |events| events.insert(4, json!({"type": "error", "error": {"type": "overloaded_error"}})),
            Reason::StreamError,
        ),
        (|events| events.insert(8, json!({"type": "error", "error": {}})), Reason::Malformed),
        (|events| events.insert(4, json!({"type": "new_event"})), Reason::UnknownContent),
        (|events| events[4]["delta"]["type"] = json!("new_delta"), Reason::UnknownContent),
        (|events| events[1]["content_block"]["type"] = json!("new_block"), Reason::UnknownContent),
        (|events| events[4]["index"] = json!(1), Reason::Malformed),
        (|events| drop(events.remove(0)), Reason::Malformed),
        (|events| drop(events.remove(1)), Reason::Malformed),
        (|events| drop(events.remove(5)), Reason::Malformed),
        (|events| events.insert(1, events[0].clone()), Reason::Malformed),
        (|events| events.push(events[4].clone()), Reason::Malformed),
        (|events| events[0]["message"]["role"] = json!("user"), Reason::Malformed),
        (|events| events[4]["delta"]["text"] = json!(5), Reason::Malformed),
    ];
    for (index, (change, reason)) in cases.iter().enumerate() {
        let mut events = message_events();
        change(&mut events);
        let answer = Answer::from_stream(Protocol::Messages, &sse(&events));
        assert_eq!(barrier(&answer), Some(*reason), "case {index}: {:?}", answer.facts);
    }
}

#[test]
fn a_cut_or_damaged_byte_stream_is_never_kept() {
    for (protocol, bytes) in [(Protocol::Messages, sse(&message_events())), (Protocol::Chat, chat_chunks())] {
        for end in 0..bytes.len() {
            let answer = Answer::from_stream(protocol, &bytes[..end]);
            assert!(barrier(&answer).is_some(), "{protocol:?} cut at {end}");
        }
    }
    let text = String::from_utf8(sse(&message_events())).expect("utf-8");
    for (from, to) in [
        ("event: message_stop", "event: message_stopped"),
        ("\"type\":\"text_delta\"", "\"type\":\"text_delta\",\"type\":\"x\""),
    ] {
        let answer = Answer::from_stream(Protocol::Messages, text.replace(from, to).as_bytes());
        assert_eq!(barrier(&answer), Some(Reason::Malformed), "{to}");
    }
}

#[test]
fn what_must_not_be_kept_is_seen_in_a_chat_stream() {
    let text = String::from_utf8(chat_chunks()).expect("utf-8");
    for (from, to, reason) in [
        ("data: [DONE]\n\n", "", Reason::Incomplete),
        ("\"stop\"", "\"length\"", Reason::StopReason),
        ("\"stop\"", "\"content_filter\"", Reason::Refused),
        ("\"stop\"", "\"tool_calls\"", Reason::Tools),
        ("\"content\":\"world\"", "\"tool_calls\":[{\"index\":0}]", Reason::Tools),
        ("\"content\":\"world\"", "\"refusal\":\"no\"", Reason::Refused),
        ("\"content\":\"world\"", "\"audio\":{\"id\":\"a\"}", Reason::Modality),
        ("\"content\":\"world\"", "\"new\":\"x\"", Reason::UnknownContent),
        ("\"content\":\"world\"", "\"content\":5", Reason::UnknownContent),
        ("data: [DONE]", "data: {\"error\":{\"message\":\"x\"}}\n\ndata: [DONE]", Reason::StreamError),
        ("data: [DONE]", "data: [DONE]\n\ndata: [DONE]", Reason::Malformed),
        ("data: [DONE]", "data: nonsense\n\ndata: [DONE]", Reason::Malformed),
        ("chat.completion.chunk", "text_completion", Reason::Malformed),
        ("\"index\":0", "\"index\":1", Reason::Malformed),
    ] {
        assert!(text.contains(from), "{from}");
        let answer = Answer::from_stream(Protocol::Chat, text.replace(from, to).as_bytes());
        assert_eq!(barrier(&answer), Some(reason), "{to}: {:?}", answer.facts);
    }
    let two = text.replace("data: [DONE]", "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":1,\"delta\":{\"role\":\"assistant\",\"content\":\"b\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]");
    assert_eq!(barrier(&Answer::from_stream(Protocol::Chat, two.as_bytes())), Some(Reason::Choices));
}

#[test]
fn json_bodies_are_judged_alike() {
    let message = to_json(&Answer::from_stream(Protocol::Messages, &sse(&message_events())));
    let chat = to_json(&Answer::from_stream(Protocol::Chat, &chat_chunks()));
    let judge = |protocol, body: &Json| barrier(&Answer::from_json(protocol, body.to_string().as_bytes()));
    assert_eq!(judge(Protocol::Messages, &message), None);
    assert_eq!(judge(Protocol::Chat, &chat), None);
    assert_eq!(judge(Protocol::Messages, &json!({"type": "error", "error": {}})), Some(Reason::StreamError));
    assert_eq!(judge(Protocol::Chat, &json!({"error": {"message": "x"}})), Some(Reason::StreamError));
    assert_eq!(judge(Protocol::Messages, &chat), Some(Reason::Malformed));
    assert_eq!(judge(Protocol::Chat, &message), Some(Reason::Malformed));
    assert_eq!(judge(Protocol::Messages, &json!([])), Some(Reason::Malformed));
    assert_eq!(
        barrier(&Answer::from_json(Protocol::Messages, b"{\"a\":1,\"a\":1}")),
        Some(Reason::Malformed)
    );
    assert_eq!(barrier(&Answer::from_json(Protocol::Messages, b"")), Some(Reason::Malformed));
    let mut empty = message.clone();
    empty["content"] = json!([{"type": "text", "text": " "}]);
    assert_eq!(judge(Protocol::Messages, &empty), Some(Reason::Empty));
    let mut receipt = message.clone();
    receipt["zlrs"] = json!({"mode": "exact"});
    assert_eq!(to_json(&Answer::from_json(Protocol::Messages, receipt.to_string().as_bytes())), message);
}

#[test]
fn an_answer_that_grows_in_names_is_not_kept() {
    let names: Vec<String> = (0..1_000).map(|name| format!("\"n{name}\":{name}")).collect();
    let wide = names.join(",");
    let mut events = message_events();
    events[6]["usage"] = serde_json::from_str(&format!("{{{wide}}}")).unwrap();
    let answer = Answer::from_stream(Protocol::Messages, &sse(&events));
    assert_eq!(barrier(&answer), Some(Reason::TooLarge));
    let text = String::from_utf8(chat_chunks()).expect("utf-8").replacen(
        "\"model\"",
        &format!("{wide},\"model\""),
        1,
    );
    assert_eq!(barrier(&Answer::from_stream(Protocol::Chat, text.as_bytes())), Some(Reason::TooLarge));
}

#[test]
fn bytes_after_the_end_that_are_no_event_are_a_cut() {
    let mut bytes = sse(&message_events());
    bytes.extend_from_slice(b"data: x");
    assert_eq!(barrier(&Answer::from_stream(Protocol::Messages, &bytes)), Some(Reason::Incomplete));
    bytes.truncate(bytes.len() - 7);
    bytes.extend_from_slice(b": a comment\n\n");
    assert_eq!(barrier(&Answer::from_stream(Protocol::Messages, &bytes)), None);
}

#[test]
fn token_probabilities_are_joined() {
    let text = String::from_utf8(chat_chunks()).expect("utf-8");
    let with =
        |token: &str| format!("\"logprobs\":{{\"content\":[{{\"token\":\"{token}\",\"logprob\":-0.10}}]}}");
    let text = text.replacen("\"logprobs\":null", &with("a"), 2).replacen(&with("a"), "\"logprobs\":null", 1);
    let text = text.replacen(
        "\"logprobs\":null,\"finish_reason\":\"stop\"",
        &format!("{},\"finish_reason\":\"stop\"", with("b")),
        1,
    );
    let answer = Answer::from_stream(Protocol::Chat, text.as_bytes());
    assert_eq!(barrier(&answer), None, "{:?}", answer.facts);
    let tokens: Vec<Json> =
        to_json(&answer)["choices"][0]["logprobs"]["content"].as_array().expect("a list").clone();
    assert_eq!(
        tokens.iter().map(|token| token["token"].as_str()).collect::<Vec<_>>(),
        [Some("a"), Some("b")]
    );
    // Numbers keep their text.
    assert!(String::from_utf8(answer.message.to_json()).expect("utf-8").contains("-0.10"));
}
