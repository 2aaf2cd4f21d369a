//! Answers off the wire, and back onto it.

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use zlrs_wire::replay::{Form, Fresh, replay, slices};
use zlrs_wire::{Answer, Assembler, Protocol, Reason};

const FRESH: Fresh = Fresh { unique: [0x5a; 16], created_s: 1_700_000_000 };
const STREAM: Form = Form::Stream { include_usage: true };

fn sse(events: &[Json]) -> Vec<u8> {
    events
        .iter()
        .flat_map(|event| match event["type"].as_str() {
            Some(name) => format!("event: {name}\ndata: {event}\n\n").into_bytes(),
            None => format!("data: {event}\n\n").into_bytes(),
        })
        .collect()
}

fn to_json(answer: &Answer) -> Json {
    serde_json::from_slice(&answer.message.to_json()).expect("json")
}

fn barrier(answer: &Answer) -> Option<Reason> {
    answer.facts.barrier().map(|refusal| refusal.reason)
}

fn message_events() -> Vec<Json> {
    vec![
        json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 25, "cache_read_input_tokens": 3, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "ping"}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello 😀"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": " world"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {"input_tokens": 0, "output_tokens": 15},
            "zlrs": {"mode": "exact"}}),
        json!({"type": "message_stop"}),
    ]
}

fn chat_chunks() -> Vec<u8> {
    let chunk = |choices: Json, usage: Json| {
        json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 5, "model": "m", "system_fingerprint": "f",
            "obfuscation": "xyz", "choices": choices, "usage": usage})
    };
    let delta = |delta: Json, reason: Json| json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": reason}]);
    let mut bytes = sse(&[
        chunk(delta(json!({"role": "assistant", "content": "", "refusal": null}), json!(null)), json!(null)),
        chunk(delta(json!({"content": "Hello "}), json!(null)), json!(null)),
        chunk(delta(json!({"content": "world"}), json!(null)), json!(null)),
        chunk(delta(json!({}), json!("stop")), json!(null)),
        chunk(json!([]), json!({"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11})),
    ]);
    bytes.extend_from_slice(b"data: [DONE]\n\n");
    bytes
}

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
fn a_replay_has_a_fresh_id_and_the_form_asked_for() {
    let stored = Answer::from_stream(Protocol::Messages, &sse(&message_events())).message.to_json();
    let body = replay(Protocol::Messages, &stored, Form::Json, FRESH).expect("a body");
    assert_eq!(body.len(), 1);
    let body: Json = serde_json::from_slice(&body[0]).expect("json");
    assert_eq!(
        (body["id"].as_str(), body["content"][0]["text"].as_str()),
        (Some("msg_5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a"), Some("Hello 😀 world"))
    );

    let stored = Answer::from_stream(Protocol::Chat, &chat_chunks()).message.to_json();
    let events = replay(Protocol::Chat, &stored, STREAM, FRESH).expect("events");
    let text = String::from_utf8(events.concat()).expect("utf-8");
    assert!(!text.contains("chatcmpl-1") && text.contains("chatcmpl-5a5a"), "{text}");
    assert!(text.ends_with("data: [DONE]\n\n") && text.contains("\"created\":1700000000"));
    assert!(!text.contains("event:"));
    let silent =
        replay(Protocol::Chat, &stored, Form::Stream { include_usage: false }, FRESH).expect("events");
    assert!(!String::from_utf8(silent.concat()).expect("utf-8").contains("usage"));
}

#[test]
fn a_messages_replay_follows_the_protocols_order() {
    let stored = Answer::from_stream(Protocol::Messages, &sse(&message_events())).message.to_json();
    let events = replay(Protocol::Messages, &stored, STREAM, FRESH).expect("events");
    let names: Vec<String> = events
        .iter()
        .map(|event| {
            String::from_utf8(event.clone())
                .expect("utf-8")
                .lines()
                .next()
                .expect("a line")
                .replace("event: ", "")
        })
        .collect();
    assert_eq!(
        names,
        [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop"
        ]
    );
    let start: Json = serde_json::from_str(
        std::str::from_utf8(&events[0])
            .expect("utf-8")
            .lines()
            .nth(1)
            .expect("data")
            .strip_prefix("data: ")
            .expect("data"),
    )
    .expect("json");
    assert_eq!(start["message"]["content"], json!([]));
    assert_eq!(
        (&start["message"]["stop_reason"], &start["message"]["usage"]["output_tokens"]),
        (&json!(null), &json!(0))
    );
}

#[test]
fn what_cannot_be_replayed_is_a_miss() {
    let mut chat = to_json(&Answer::from_stream(Protocol::Chat, &chat_chunks()));
    chat.as_object_mut().expect("an object").shift_remove("usage");
    let stored = chat.to_string();
    let refused =
        |form| replay(Protocol::Chat, stored.as_bytes(), form, FRESH).map_err(|refusal| refusal.reason);
    assert_eq!(refused(Form::Json), Err(Reason::UsageUnknown));
    assert_eq!(refused(STREAM), Err(Reason::UsageUnknown));
    assert!(refused(Form::Stream { include_usage: false }).is_ok());
    for stored in [
        "",
        "{}",
        "[]",
        r#"{"content":5}"#,
        r#"{"content":[{"type":"tool_use"}]}"#,
        r#"{"content":[{"type":"text"}]}"#,
    ] {
        let error = replay(Protocol::Messages, stored.as_bytes(), STREAM, FRESH).expect_err(stored);
        assert_eq!(error.reason, Reason::StoreCorrupt, "{stored}");
    }
    for stored in ["{}", r#"{"choices":[]}"#, r#"{"choices":[5]}"#, r#"{"choices":[{}]}"#] {
        let error = replay(Protocol::Chat, stored.as_bytes(), Form::Stream { include_usage: false }, FRESH)
            .expect_err(stored);
        assert_eq!(error.reason, Reason::StoreCorrupt, "{stored}");
    }
}

/// Stored messages of every kind that may be kept.
fn stored_message() -> impl Strategy<Value = Json> {
    let text = || prop_oneof![any::<String>(), "[a-z é😀\n]{0,300}"];
    let block = prop_oneof![
        text().prop_map(|text| json!({"type": "text", "text": text})),
        text().prop_map(|text| json!({"type": "text", "text": text, "citations": null})),
        (text(), text()).prop_map(|(text, cited)| json!({"type": "text", "text": text, "citations": [{"cited_text": cited}, {"n": 1}]})),
        (text(), text()).prop_map(|(text, signature)| json!({"type": "thinking", "thinking": text, "signature": signature})),
        text().prop_map(|data| json!({"type": "redacted_thinking", "data": data})),
    ];
    (prop::collection::vec(block, 0..4), any::<u32>(), prop::option::of(text()), any::<bool>()).prop_map(|(content, tokens, sequence, extra)| {
        let mut message = json!({"id": "msg_old", "type": "message", "role": "assistant", "model": "m", "content": content,
            "stop_reason": if sequence.is_some() { "stop_sequence" } else { "end_turn" }, "stop_sequence": sequence,
            "usage": {"input_tokens": tokens, "output_tokens": tokens / 2, "cache_creation": {"a": 1}, "service_tier": "standard"}});
        if extra {
            message["context_management"] = json!({"applied": []});
        }
        message
    })
}

fn stored_completion() -> impl Strategy<Value = Json> {
    let text = || prop_oneof![any::<String>(), "[a-z é😀\n]{0,300}"];
    let logprobs = prop_oneof![
        Just(json!(null)),
        Just(json!({"content": [{"token": "a", "logprob": -0.5}], "refusal": null}))
    ];
    (text(), prop::option::of(text()), prop::option::of(logprobs), any::<u32>(), any::<bool>()).prop_map(|(content, reasoning, logprobs, tokens, extra)| {
        let mut message = json!({"role": "assistant", "content": content, "refusal": null});
        if let Some(reasoning) = reasoning {
            message["reasoning_content"] = json!(reasoning);
        }
        let mut choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
        if let Some(logprobs) = logprobs {
            choice["logprobs"] = logprobs;
        }
        if extra {
            choice["stop_reason"] = json!(null);
            choice["message"]["annotations"] = json!([{"type": "url_citation"}]);
        }
        json!({"id": "old", "object": "chat.completion", "created": 1, "model": "m", "service_tier": "default", "choices": [choice],
            "usage": {"prompt_tokens": tokens, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}}})
    })
}

/// Replays a stored message as a stream, takes it off the wire again in pieces, and compares.
fn round_trip(protocol: Protocol, stored: &Json, piece_bytes: usize) -> Result<(), TestCaseError> {
    let events = replay(protocol, stored.to_string().as_bytes(), STREAM, FRESH).unwrap();
    let mut assembler = Assembler::new(protocol, 1 << 20);
    for piece in events.concat().chunks(piece_bytes) {
        assembler.push(piece);
    }
    prop_assert!(assembler.is_terminal());
    let answer = assembler.finish();
    prop_assert_eq!(&answer.facts.defect, &None);
    let mut expected = stored.clone();
    let mut got = to_json(&answer);
    prop_assert_ne!(&expected["id"], &got["id"]);
    for fresh in ["id", "created"] {
        expected.as_object_mut().unwrap().shift_remove(fresh);
        got.as_object_mut().unwrap().shift_remove(fresh);
    }
    prop_assert_eq!(got, expected);
    prop_assert_eq!(Answer::from_json(protocol, stored.to_string().as_bytes()).facts, answer.facts);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_replayed_message_is_the_stored_one(stored in stored_message(), piece_bytes in 1..64_usize) {
        round_trip(Protocol::Messages, &stored, piece_bytes)?;
    }

    #[test]
    fn a_replayed_completion_is_the_stored_one(stored in stored_completion(), piece_bytes in 1..64_usize) {
        round_trip(Protocol::Chat, &stored, piece_bytes)?;
    }

    #[test]
    fn a_json_replay_keeps_everything_but_the_id(stored in stored_message()) {
        let body = replay(Protocol::Messages, stored.to_string().as_bytes(), Form::Json, FRESH).unwrap();
        let mut got: Json = serde_json::from_slice(&body.concat()).unwrap();
        got["id"] = stored["id"].clone();
        prop_assert_eq!(got, stored);
    }

    #[test]
    fn slices_join_to_the_text(text in prop_oneof![any::<String>(), "[a-z é😀]{0,400}"]) {
        let pieces: Vec<&str> = slices(&text).collect();
        prop_assert_eq!(pieces.concat(), text.clone());
        prop_assert!(pieces.iter().all(|piece| (1..=48).contains(&piece.chars().count())));
        prop_assert!(pieces.len() <= text.chars().count() / 16 + 1);
    }

    #[test]
    fn arbitrary_streams_never_panic(
        events in prop::collection::vec(prop_oneof![
            prop::sample::select(message_events()).prop_map(|event| event.to_string()),
            "[\\[\\]{}:,\"a-z0-9]{0,20}",
            Just("[DONE]".to_owned()),
            Just(r#"{"choices":[{"index":0,"delta":{"content":"a","x":null},"finish_reason":"stop"}]}"#.to_owned()),
        ], 0..12),
        bytes in prop::collection::vec(any::<u8>(), 0..30),
    ) {
        let mut stream: Vec<u8> = events.iter().flat_map(|event| format!("data: {event}\n\n").into_bytes()).collect();
        stream.extend_from_slice(&bytes);
        for protocol in [Protocol::Messages, Protocol::Chat] {
            let answer = Answer::from_stream(protocol, &stream);
            if barrier(&answer).is_none() {
                let form = Form::Stream { include_usage: false };
                prop_assert!(replay(protocol, &answer.message.to_json(), form, FRESH).is_ok());
            }
            let _ = Answer::from_json(protocol, &bytes);
        }
    }
}
