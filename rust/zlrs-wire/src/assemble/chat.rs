//! Chunks of the Chat protocol to its completion.

use super::{AnswerFacts, append, merge_usage, put, says_something};
use crate::json::Value;
use crate::reason::Reason;

/// Fields of a delta that grow by appending.
const TEXTS: &[&str] = &["content", "refusal", "reasoning_content", "reasoning"];
/// Fields of a choice whose last value counts, besides the protocol's own.
const CHOICE_EXTRAS: &[&str] = &["stop_reason", "content_filter_results"];

/// The completion so far.
#[derive(Debug, Default)]
pub(super) struct ChatState {
    /// Top-level fields, without `choices`.
    head: Option<Value<'static>>,
    choices: Vec<Value<'static>>,
}

impl ChatState {
    pub(super) fn chunk(&mut self, event: Value<'_>, facts: &mut AnswerFacts) {
        let Value::Object(members) = event.into_owned() else {
            facts.blame(Reason::Malformed, "chunk");
            return;
        };
        let head = self.head.get_or_insert_with(|| Value::Object(Vec::new()));
        for (name, value) in members {
            match name.as_ref() {
                "choices" => {
                    let Value::Array(choices) = value else {
                        facts.blame(Reason::Malformed, "choices");
                        continue;
                    };
                    for choice in choices {
                        if merge_choice(&mut self.choices, choice, facts).is_none() {
                            facts.blame(Reason::Malformed, "choices");
                        }
                    }
                }
                "error" => facts.error |= !value.is_null(),
                "object" => {
                    if value.as_str() != Some("chat.completion.chunk") {
                        facts.blame(Reason::Malformed, "object");
                    }
                    head.set("object", Value::text("chat.completion"));
                }
                "usage" => {
                    if !value.is_null() {
                        if head.get("usage").is_none() {
                            head.set("usage", Value::Null);
                        }
                        if let Some(usage) = head.get_mut("usage") {
                            merge_usage(usage, value, facts);
                        }
                    }
                }
                // Random padding, and receipts of ours.
                "obfuscation" | "zlrs" => {}
                other => {
                    if !value.is_null() || head.get(other).is_none() {
                        put(head, other, value, facts);
                    }
                }
            }
        }
    }

    pub(super) fn finish(self) -> Value<'static> {
        let Some(mut head) = self.head else { return Value::Null };
        head.set("choices", Value::Array(self.choices));
        head
    }
}

/// `None` where the chunk does not fit the protocol.
fn merge_choice(
    choices: &mut Vec<Value<'static>>,
    chunk: Value<'static>,
    facts: &mut AnswerFacts,
) -> Option<()> {
    let index: usize = chunk.get("index")?.as_number()?.parse().ok()?;
    // Choices may be interleaved, but each first chunk comes in order.
    if index == choices.len() {
        choices.push(Value::object([
            ("index", Value::integer(index as u64)),
            ("message", Value::Object(Vec::new())),
            ("finish_reason", Value::Null),
        ]));
    }
    let choice = choices.get_mut(index)?;
    let Value::Object(members) = chunk else { return None };
    for (name, value) in members {
        match name.as_ref() {
            "index" => {}
            "delta" => merge_delta(choice.get_mut("message")?, value, facts)?,
            "finish_reason" => {
                if !value.is_null() {
                    choice.set("finish_reason", value);
                }
            }
            "logprobs" => merge_logprobs(choice, value, facts)?,
            other => {
                if !value.is_null() && !CHOICE_EXTRAS.contains(&other) {
                    facts.blame(Reason::UnknownContent, other);
                }
                if !value.is_null() || choice.get(other).is_none() {
                    put(choice, other, value, facts);
                }
            }
        }
    }
    Some(())
}

fn merge_delta(message: &mut Value<'static>, delta: Value<'static>, facts: &mut AnswerFacts) -> Option<()> {
    let Value::Object(members) = delta else { return None };
    for (name, value) in members {
        let key = name.as_ref();
        match value {
            Value::Null => {
                if message.get(key).is_none() {
                    put(message, key, Value::Null, facts);
                }
            }
            Value::String(text) if TEXTS.contains(&key) => append(message, key, &text),
            Value::String(_) if key == "role" => message.set("role", value),
            Value::Array(items) if key == "annotations" => {
                if let Some(Value::Array(known)) = message.get_mut(key) {
                    known.extend(items);
                } else {
                    message.set(key, Value::Array(items));
                }
            }
            // Such an answer is never kept; that there was a call is all that matters.
            Value::Array(_) if key == "tool_calls" => facts.tool_use = true,
            Value::Object(_) if key == "function_call" => facts.tool_use = true,
            Value::Object(_) if key == "audio" => facts.modality = true,
            _ => facts.blame(Reason::UnknownContent, key),
        }
    }
    Some(())
}

/// Token probabilities come in lists that are joined.
fn merge_logprobs(choice: &mut Value<'static>, value: Value<'static>, facts: &mut AnswerFacts) -> Option<()> {
    let Value::Object(members) = value else {
        if choice.get("logprobs").is_none() {
            choice.set("logprobs", Value::Null);
        }
        return Some(());
    };
    if choice.get("logprobs").is_none_or(Value::is_null) {
        choice.set("logprobs", Value::Object(Vec::new()));
    }
    let known = choice.get_mut("logprobs")?;
    for (name, value) in members {
        match (known.get_mut(&name), value) {
            (Some(Value::Array(items)), Value::Array(more)) => items.extend(more),
            (Some(_), Value::Null) => {}
            (_, value) => put(known, &name, value, facts),
        }
    }
    Some(())
}

/// Facts of a final completion.
pub(super) fn inspect(message: &Value<'_>, facts: &mut AnswerFacts) {
    if message.get("error").is_some_and(|error| !error.is_null()) {
        facts.error = true;
        return;
    }
    let Some(choices) = message.get("choices").and_then(Value::as_array) else {
        if facts.complete {
            facts.blame(Reason::Malformed, "choices");
        }
        return;
    };
    if message.get("object").and_then(Value::as_str) != Some("chat.completion") {
        facts.blame(Reason::Malformed, "object");
    }
    facts.choices = choices.len();
    let counted =
        |key: &str| message.get("usage").and_then(|usage| usage.get(key)).and_then(Value::as_number);
    facts.usage = counted("prompt_tokens").is_some() && counted("completion_tokens").is_some();
    for choice in choices {
        let reason = choice.get("finish_reason").and_then(Value::as_str);
        facts.stop_reason = reason.map(str::to_owned);
        facts.refusal |= reason == Some("content_filter");
        facts.tool_use |= matches!(reason, Some("tool_calls" | "function_call"));
        let Some(members) = choice.get("message").and_then(Value::as_object) else {
            facts.blame(Reason::Malformed, "message");
            continue;
        };
        for (name, value) in members.iter().filter(|(_, value)| !value.is_null()) {
            match (name.as_ref(), value) {
                ("role", Value::String(role)) if role == "assistant" => {}
                ("content", Value::String(_)) => facts.text |= says_something(Some(value)),
                ("refusal", Value::String(_)) => facts.refusal |= says_something(Some(value)),
                ("reasoning_content" | "reasoning", Value::String(_)) => {
                    facts.thinking |= says_something(Some(value));
                }
                ("annotations", Value::Array(_)) => {}
                ("tool_calls", Value::Array(calls)) => facts.tool_use |= !calls.is_empty(),
                ("function_call", _) => facts.tool_use = true,
                ("audio", _) => facts.modality = true,
                ("role" | "content" | "refusal" | "annotations", _) => facts.blame(Reason::Malformed, name),
                (other, _) => facts.blame(Reason::UnknownContent, other),
            }
        }
        if choice.get("message").and_then(|message| message.get("role")).is_none() {
            facts.blame(Reason::Malformed, "role");
        }
    }
}
