//! Events of the Messages protocol to its message.

use super::{AnswerFacts, append, merge_usage, put, says_something};
use crate::json::{self, Value};
use crate::reason::Reason;

/// The message so far.
#[derive(Debug, Default)]
pub(super) struct MessageState {
    message: Option<Value<'static>>,
    content: Vec<Value<'static>>,
    open: Option<OpenBlock>,
}

#[derive(Debug)]
struct OpenBlock {
    block: Value<'static>,
    /// Pieces of a tool's input, which are JSON only together.
    input: String,
}

impl MessageState {
    /// Takes one event; gives back whether it was the last.
    pub(super) fn event(&mut self, name: &str, event: Value<'_>, facts: &mut AnswerFacts) -> bool {
        let Some(kind) = event.get("type").and_then(Value::as_str).map(str::to_owned) else {
            facts.blame(Reason::Malformed, "type");
            return false;
        };
        if !name.is_empty() && name != kind {
            facts.blame(Reason::Malformed, "event name");
        }
        match kind.as_str() {
            "ping" => return false,
            "error" => {
                facts.error = true;
                return false;
            }
            "message_start"
            | "content_block_start"
            | "content_block_delta"
            | "content_block_stop"
            | "message_delta"
            | "message_stop" => {}
            other => {
                facts.blame(Reason::UnknownContent, other);
                return false;
            }
        }
        if self.message.is_none() != (kind == "message_start") {
            facts.blame(Reason::Malformed, kind);
            return false;
        }
        let is_last = kind == "message_stop";
        if self.take(&kind, event.into_owned(), facts).is_none() {
            facts.blame(Reason::Malformed, kind);
        }
        is_last
    }

    /// `None` where the event does not fit what came before.
    fn take(&mut self, kind: &str, mut event: Value<'static>, facts: &mut AnswerFacts) -> Option<()> {
        match kind {
            "message_start" => {
                let message = event.remove("message")?;
                message.as_object()?;
                if message.get("content")?.as_array()?.is_empty() {
                    self.message = Some(message);
                    return Some(());
                }
                None
            }
            "content_block_start" => {
                self.check_index(&event, self.open.is_none())?;
                let block = event.remove("content_block")?;
                block.get("type")?.as_str()?;
                self.open = Some(OpenBlock { block, input: String::new() });
                Some(())
            }
            "content_block_delta" => {
                self.check_index(&event, self.open.is_some())?;
                self.delta(event.remove("delta")?, facts)
            }
            "content_block_stop" => {
                self.check_index(&event, self.open.is_some())?;
                let OpenBlock { mut block, input } = self.open.take()?;
                if !input.is_empty() {
                    block.set("input", json::parse(input.as_bytes()).ok()?.into_owned());
                }
                self.content.push(block);
                Some(())
            }
            "message_delta" => self.message_delta(event, facts),
            _ => self.open.is_none().then_some(()),
        }
    }

    /// Blocks come one after the other, numbered from 0.
    fn check_index(&self, event: &Value<'_>, in_order: bool) -> Option<()> {
        let index: usize = event.get("index")?.as_number()?.parse().ok()?;
        (in_order && index == self.content.len()).then_some(())
    }

    fn delta(&mut self, mut delta: Value<'static>, facts: &mut AnswerFacts) -> Option<()> {
        let open = self.open.as_mut()?;
        match delta.get("type")?.as_str()?.to_owned().as_str() {
            "text_delta" => append(&mut open.block, "text", delta.get("text")?.as_str()?),
            "thinking_delta" => append(&mut open.block, "thinking", delta.get("thinking")?.as_str()?),
            "signature_delta" => append(&mut open.block, "signature", delta.get("signature")?.as_str()?),
            "input_json_delta" => open.input.push_str(delta.get("partial_json")?.as_str()?),
            "citations_delta" => {
                let citation = delta.remove("citation")?;
                if let Some(Value::Array(citations)) = open.block.get_mut("citations") {
                    citations.push(citation);
                } else {
                    open.block.set("citations", Value::Array(vec![citation]));
                }
            }
            other => facts.blame(Reason::UnknownContent, other),
        }
        Some(())
    }

    fn message_delta(&mut self, event: Value<'static>, facts: &mut AnswerFacts) -> Option<()> {
        let message = self.message.as_mut()?;
        let Value::Object(members) = event else { return None };
        for (name, value) in members {
            match name.as_ref() {
                "type" | "zlrs" => {}
                "usage" => {
                    if message.get("usage").is_none() {
                        message.set("usage", Value::Null);
                    }
                    merge_usage(message.get_mut("usage")?, value, facts);
                }
                "delta" => {
                    let Value::Object(fields) = value else { return None };
                    for (field, value) in fields {
                        put(message, &field, value, facts);
                    }
                }
                other => put(message, other, value, facts),
            }
        }
        Some(())
    }

    pub(super) fn finish(self) -> Value<'static> {
        let Some(mut message) = self.message else { return Value::Null };
        message.remove("zlrs");
        message.set("content", Value::Array(self.content));
        message
    }
}

/// Facts of a final message.
pub(super) fn inspect(message: &Value<'_>, facts: &mut AnswerFacts) {
    let text = |key: &str| message.get(key).and_then(Value::as_str);
    if text("type") == Some("error") {
        facts.error = true;
        return;
    }
    let Some(blocks) = message.get("content").and_then(Value::as_array) else {
        if facts.complete {
            facts.blame(Reason::Malformed, "content");
        }
        return;
    };
    if text("type") != Some("message") || text("role") != Some("assistant") {
        facts.blame(Reason::Malformed, "role");
    }
    facts.choices = 1;
    facts.stop_reason = text("stop_reason").map(str::to_owned);
    facts.refusal |= facts.stop_reason.as_deref() == Some("refusal");
    facts.stateful |= message.get("container").is_some_and(|container| !container.is_null());
    let counted =
        |key: &str| message.get("usage").and_then(|usage| usage.get(key)).and_then(Value::as_number);
    facts.usage = counted("input_tokens").is_some() && counted("output_tokens").is_some();
    for (index, block) in blocks.iter().enumerate() {
        match block.get("type").and_then(Value::as_str) {
            Some("text") => {
                if block.get("text").and_then(Value::as_str).is_none() {
                    facts.blame(Reason::Malformed, format_args!("content[{index}].text"));
                }
                facts.text |= says_something(block.get("text"));
            }
            Some("thinking" | "redacted_thinking") => facts.thinking = true,
            Some(kind) if kind.ends_with("tool_use") || kind.ends_with("tool_result") => {
                facts.tool_use = true;
            }
            Some(_) => facts.blame(Reason::UnknownContent, format_args!("content[{index}].type")),
            None => facts.blame(Reason::Malformed, format_args!("content[{index}].type")),
        }
    }
}
