//! What a stored answer becomes on the wire.

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use zlrs_wire::replay::{Form, Fresh, replay, slices};
use zlrs_wire::{Answer, Assembler, Protocol, Reason};

use crate::samples::{barrier, chat_chunks, message_events, sse, to_json};

const FRESH: Fresh = Fresh { unique: [0x5a; 16], created_s: 1_700_000_000 };
const STREAM: Form = Form::Stream { include_usage: true };

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
        // A piece that is neither the last nor the longest allowed ends after white space.
        for piece in pieces.iter().rev().skip(1).filter(|piece| piece.chars().count() < 48) {
            prop_assert!(piece.ends_with(char::is_whitespace), "{:?}", piece);
        }
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
