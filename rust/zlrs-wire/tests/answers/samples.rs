//! One plain answer of each protocol.

use serde_json::{Value as Json, json};
use zlrs_wire::{Answer, Reason};

pub(crate) fn sse(events: &[Json]) -> Vec<u8> {
    events
        .iter()
        .flat_map(|event| match event["type"].as_str() {
            Some(name) => format!("event: {name}\ndata: {event}\n\n").into_bytes(),
            None => format!("data: {event}\n\n").into_bytes(),
        })
        .collect()
}

pub(crate) fn to_json(answer: &Answer) -> Json {
    serde_json::from_slice(&answer.message.to_json()).expect("json")
}

pub(crate) fn barrier(answer: &Answer) -> Option<Reason> {
    answer.facts.barrier().map(|refusal| refusal.reason)
}

pub(crate) fn message_events() -> Vec<Json> {
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

pub(crate) fn chat_chunks() -> Vec<u8> {
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
