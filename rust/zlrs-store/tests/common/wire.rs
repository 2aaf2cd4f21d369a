//! Requests and answers of both protocols as bytes.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test stops at what is wrong")]
#![allow(dead_code, reason = "every test file uses its own part")]

use serde_json::{Value, json};
use zlrs_graph::{Response, Settings};
use zlrs_store::{Decision, Factors, Graph, GraphRequest};

/// A request, by the parts that tests vary.
#[derive(Clone, Debug)]
pub struct Ask {
    pub chat: bool,
    pub text: String,
    pub system: Option<String>,
    pub model: String,
    pub api_key: String,
    pub upstream: String,
    pub query: String,
    pub max_tokens: u32,
    pub temperature: Option<f64>,
    pub stream: bool,
    pub earlier: Vec<(&'static str, &'static str)>,
    pub headers: Vec<(&'static str, &'static str)>,
    pub metadata: Option<&'static str>,
    pub unknown_field: Option<&'static str>,
    pub factors: Vec<(String, String)>,
}

impl Default for Ask {
    fn default() -> Self {
        Self {
            chat: false,
            text: "How long is the return period?".into(),
            system: None,
            model: "small".into(),
            api_key: "sk-one".into(),
            upstream: "http://upstream.example".into(),
            query: String::new(),
            max_tokens: 64,
            temperature: Some(0.0),
            stream: false,
            earlier: Vec::new(),
            headers: Vec::new(),
            metadata: None,
            unknown_field: None,
            factors: Vec::new(),
        }
    }
}

impl Ask {
    fn body(&self) -> Vec<u8> {
        let mut turns: Vec<Value> =
            self.earlier.iter().map(|(role, text)| json!({"role": role, "content": text})).collect();
        turns.push(json!({"role": "user", "content": self.text}));
        let mut body = json!({"model": self.model, "max_tokens": self.max_tokens, "messages": turns});
        if let Some(system) = &self.system {
            body["system"] = json!(system);
        }
        if let Some(temperature) = self.temperature {
            body["temperature"] = json!(temperature);
        }
        if self.stream {
            body["stream"] = json!(true);
        }
        if let Some(user) = self.metadata {
            body["metadata"] = json!({"user_id": user});
        }
        if let Some(name) = self.unknown_field {
            body[name] = json!(1);
        }
        body.to_string().into_bytes()
    }

    /// What the graph decides about it.
    pub fn decide(&self, graph: &Graph, now_ms: u64) -> Decision {
        let headers: Vec<(&[u8], &[u8])> = [("x-api-key", self.api_key.as_str())]
            .iter()
            .chain(&self.headers)
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
            .collect();
        let request = GraphRequest {
            method: "POST",
            path: if self.chat { "/v1/chat/completions" } else { "/v1/messages" },
            query: &self.query,
            headers: &headers,
            body: &self.body(),
            upstream: &self.upstream,
            factors: Factors::Known(&self.factors),
        };
        graph.decide(&request, now_ms)
    }
}

/// Default settings with time enough for a busy machine.
pub fn settings() -> Settings {
    Settings { read_deadline_ms: 1000, ..Settings::default() }
}

/// Decides and settles with the answer, as for a request that went upstream.
pub fn teach(graph: &Graph, ask: &Ask, answer: &[u8], now_ms: u64) -> String {
    let decision = ask.decide(graph, now_ms);
    settle_whole(graph, &decision, 200, answer, true, now_ms + 1)
}

/// The header of a decision.
pub fn kind(graph: &Graph, ask: &Ask, now_ms: u64) -> String {
    ask.decide(graph, now_ms).header()
}

/// What the graph decides about raw bytes.
pub fn decide_raw(
    graph: &Graph,
    path: &str,
    headers: &[(&[u8], &[u8])],
    body: &[u8],
    now_ms: u64,
) -> Decision {
    let request = GraphRequest {
        method: "POST",
        path,
        query: "",
        headers,
        body,
        upstream: "http://upstream.example",
        factors: Factors::NONE,
    };
    graph.decide(&request, now_ms)
}

/// Settles with an answer whose form shows in its first bytes.
pub fn settle_whole(
    graph: &Graph,
    decision: &Decision,
    status: u16,
    body: &[u8],
    complete: bool,
    now_ms: u64,
) -> String {
    let media = if body.starts_with(b"{") { "application/json" } else { "text/event-stream; charset=utf-8" };
    settle(graph, decision, status, &[("Content-Type", media)], body, complete, now_ms)
}

/// Settles with raw bytes.
pub fn settle(
    graph: &Graph,
    decision: &Decision,
    status: u16,
    headers: &[(&str, &str)],
    body: &[u8],
    complete: bool,
    now_ms: u64,
) -> String {
    let headers: Vec<(&[u8], &[u8])> =
        headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    graph.settle(decision, &Response { status, headers: &headers, body, complete }, now_ms).name()
}

/// A whole Messages answer.
pub fn answer_json(text: &str) -> Vec<u8> {
    json!({
        "id": "msg_upstream", "type": "message", "role": "assistant", "model": "small",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn", "stop_sequence": null,
        "usage": {"input_tokens": 9, "output_tokens": 4},
    })
    .to_string()
    .into_bytes()
}

/// The same as a stream, a word in each event.
pub fn answer_stream(text: &str) -> Vec<u8> {
    let start = json!({"type": "message_start", "message": {
        "id": "msg_upstream", "type": "message", "role": "assistant", "model": "small", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 9, "output_tokens": 1},
    }});
    let block =
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}});
    let mut events = vec![("message_start", start), ("content_block_start", block)];
    for word in text.split_inclusive(' ') {
        let delta =
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}});
        events.push(("content_block_delta", delta));
    }
    events.push(("content_block_stop", json!({"type": "content_block_stop", "index": 0})));
    let end = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null},
                     "usage": {"output_tokens": 4}});
    events.push(("message_delta", end));
    events.push(("message_stop", json!({"type": "message_stop"})));
    events.iter().fold(Vec::new(), |mut bytes, (name, data)| {
        bytes.extend_from_slice(format!("event: {name}\ndata: {data}\n\n").as_bytes());
        bytes
    })
}

/// A whole Chat answer.
pub fn chat_json(text: &str) -> Vec<u8> {
    json!({
        "id": "chatcmpl-upstream", "object": "chat.completion", "created": 1, "model": "small",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13},
    })
    .to_string()
    .into_bytes()
}

/// A Chat stream without the usage chunk, as most clients ask for it.
pub fn chat_stream(text: &str) -> Vec<u8> {
    let chunk = |delta: Value, finish: Value| {
        let chunk = json!({
            "id": "chatcmpl-upstream", "object": "chat.completion.chunk", "created": 1, "model": "small",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        });
        format!("data: {chunk}\n\n")
    };
    let mut stream = chunk(json!({"role": "assistant", "content": ""}), Value::Null);
    stream += &chunk(json!({"content": text}), Value::Null);
    stream += &chunk(json!({}), json!("stop"));
    stream += "data: [DONE]\n\n";
    stream.into_bytes()
}
