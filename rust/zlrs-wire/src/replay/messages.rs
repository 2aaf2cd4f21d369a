//! The Messages protocol's order of events.

use super::{Form, Fresh, corrupt, slices};
use crate::json::Value;
use crate::reason::Refusal;
use crate::sse::write_event;

pub(super) fn replay(mut message: Value<'_>, form: Form, fresh: Fresh) -> Result<Vec<Vec<u8>>, Refusal> {
    message.get("content").and_then(Value::as_array).ok_or_else(|| corrupt("content"))?;
    message.set("id", Value::text(fresh.id("msg_")));
    if form == Form::Json {
        return Ok(vec![message.to_json()]);
    }
    let Some(Value::Array(content)) =
        message.get_mut("content").map(|content| std::mem::replace(content, Value::Array(Vec::new())))
    else {
        return Err(corrupt("content"));
    };
    let mut events = Events::default();
    events.start(&message);
    for (index, block) in content.into_iter().enumerate() {
        events.block(index, block)?;
    }
    events.end(&message);
    Ok(events.0)
}

#[derive(Default)]
struct Events(Vec<Vec<u8>>);

impl Events {
    fn push<'a>(&mut self, name: &'a str, members: impl IntoIterator<Item = (&'a str, Value<'a>)>) {
        let event = Value::object([("type", Value::text(name))].into_iter().chain(members));
        let mut bytes = Vec::with_capacity(160);
        write_event(name, &event.to_json(), &mut bytes);
        self.0.push(bytes);
    }

    /// The message before its content: no stop reason yet, no output tokens yet.
    fn start(&mut self, message: &Value<'_>) {
        let mut message = message.clone();
        for key in ["stop_reason", "stop_sequence"] {
            if message.get(key).is_some() {
                message.set(key, Value::Null);
            }
        }
        if let Some(usage) = message.get_mut("usage")
            && usage.get("output_tokens").is_some()
        {
            usage.set("output_tokens", Value::integer(0));
        }
        self.push("message_start", [("message", message)]);
    }

    fn block(&mut self, index: usize, mut block: Value<'_>) -> Result<(), Refusal> {
        let at = || corrupt(&format!("content[{index}]"));
        let kind = block.get("type").and_then(Value::as_str).ok_or_else(at)?.to_owned();
        let mut deltas = Vec::new();
        match kind.as_str() {
            "text" => {
                deltas.push(("text_delta", "text", take_text(&mut block, "text").ok_or_else(at)?));
            }
            "thinking" => {
                deltas.push((
                    "thinking_delta",
                    "thinking",
                    take_text(&mut block, "thinking").ok_or_else(at)?,
                ));
                if let Some(signature) = take_text(&mut block, "signature") {
                    deltas.push(("signature_delta", "signature", signature));
                }
            }
            "redacted_thinking" => {}
            _ => return Err(at()),
        }
        let citations = match block.get_mut("citations") {
            Some(Value::Array(citations)) => std::mem::take(citations),
            _ => Vec::new(),
        };
        let number = || Value::integer(index as u64);
        self.push("content_block_start", [("index", number()), ("content_block", block)]);
        for (kind, key, text) in &deltas {
            let mut delta = |piece: &str| {
                let delta =
                    Value::object([("type", Value::text(*kind)), (*key, Value::text(piece.to_owned()))]);
                self.push("content_block_delta", [("index", number()), ("delta", delta)]);
            };
            // A signature is one opaque value.
            if *kind == "signature_delta" {
                delta(text);
            } else {
                slices(text).for_each(delta);
            }
        }
        for citation in citations {
            let delta = Value::object([("type", Value::text("citations_delta")), ("citation", citation)]);
            self.push("content_block_delta", [("index", number()), ("delta", delta)]);
        }
        self.push("content_block_stop", [("index", number())]);
        Ok(())
    }

    fn end(&mut self, message: &Value<'_>) {
        let field = |key: &str| message.get(key).cloned().unwrap_or(Value::Null);
        let delta =
            Value::object([("stop_reason", field("stop_reason")), ("stop_sequence", field("stop_sequence"))]);
        let usage = message.get("usage").map(|usage| ("usage", usage.clone()));
        self.push("message_delta", [("delta", delta)].into_iter().chain(usage));
        self.push("message_stop", []);
    }
}

/// Takes a text out of a block and leaves an empty one.
fn take_text(block: &mut Value<'_>, key: &str) -> Option<String> {
    match block.get_mut(key)? {
        Value::String(text) => Some(std::mem::take(text).into_owned()),
        _ => None,
    }
}
