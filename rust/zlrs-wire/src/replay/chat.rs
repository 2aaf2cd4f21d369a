//! The Chat protocol's order of chunks.

use std::borrow::Cow;

use super::{Form, Fresh, corrupt, slices};
use crate::json::{Member, Value};
use crate::reason::{Reason, Refusal};
use crate::sse::write_event;

/// Texts of a message that are streamed, in this order.
const STREAMED: &[&str] = &["reasoning_content", "reasoning", "content"];

pub(super) fn replay(mut message: Value<'_>, form: Form, fresh: Fresh) -> Result<Vec<Vec<u8>>, Refusal> {
    let choices = message.get("choices").and_then(Value::as_array).ok_or_else(|| corrupt("choices"))?;
    if choices.len() != 1 {
        return Err(corrupt("choices"));
    }
    let usage = message.get("usage").filter(|usage| !usage.is_null()).cloned();
    message.set("id", Value::text(fresh.id("chatcmpl-")));
    message.set("created", Value::integer(fresh.created_s));
    match form {
        Form::Json if usage.is_none() => Err(Refusal::new(Reason::UsageUnknown, "usage")),
        Form::Json => Ok(vec![message.to_json()]),
        Form::Stream { include_usage } => match usage {
            None if include_usage => Err(Refusal::new(Reason::UsageUnknown, "usage")),
            usage => stream(message, usage.filter(|_| include_usage)),
        },
    }
}

/// `usage` is given where the usage chunk was asked for.
fn stream<'a>(mut message: Value<'a>, usage: Option<Value<'a>>) -> Result<Vec<Vec<u8>>, Refusal> {
    let Some(Value::Array(mut choices)) = message.remove("choices") else { return Err(corrupt("choices")) };
    let mut choice = choices.pop().ok_or_else(|| corrupt("choices"))?;
    let mut first = choice.remove("message").ok_or_else(|| corrupt("choices[0].message"))?;
    message.remove("usage");
    message.set("object", Value::text("chat.completion.chunk"));
    let index = choice.remove("index").unwrap_or_else(|| Value::integer(0));
    let finish_reason = choice.remove("finish_reason").unwrap_or(Value::Null);
    let logprobs = choice.remove("logprobs");

    let mut texts = Vec::new();
    for key in STREAMED {
        if let Some(Value::String(text)) = first.get_mut(key) {
            texts.push((*key, std::mem::take(text).into_owned()));
        }
    }
    let mut chunks = Chunks {
        head: message,
        index,
        has_logprobs: logprobs.is_some(),
        usage: usage.is_some(),
        out: Vec::new(),
    };
    chunks.delta(first, None, Value::Null, Vec::new());
    // Probabilities belong to tokens, whose borders are not stored: the text is then one piece.
    let mut whole = logprobs.filter(|logprobs| !logprobs.is_null());
    for (key, text) in &texts {
        if *key == "content" && whole.is_some() {
            chunks.delta(
                Value::object([(*key, Value::text(text.as_str()))]).into_owned(),
                whole.take(),
                Value::Null,
                Vec::new(),
            );
            continue;
        }
        for piece in slices(text) {
            chunks.delta(
                Value::object([(*key, Value::text(piece))]).into_owned(),
                None,
                Value::Null,
                Vec::new(),
            );
        }
    }
    let Value::Object(extras) = choice else { return Err(corrupt("choices[0]")) };
    chunks.delta(Value::Object(Vec::new()), whole, finish_reason, extras);
    if let Some(usage) = usage {
        chunks.push(Vec::new(), usage);
    }
    let mut done = Vec::new();
    write_event("", b"[DONE]", &mut done);
    chunks.out.push(done);
    Ok(chunks.out)
}

struct Chunks<'a> {
    /// The fields that every chunk repeats.
    head: Value<'a>,
    index: Value<'a>,
    has_logprobs: bool,
    /// Whether chunks carry `usage`, `null` but for the last.
    usage: bool,
    out: Vec<Vec<u8>>,
}

impl<'a> Chunks<'a> {
    fn delta(
        &mut self,
        delta: Value<'a>,
        logprobs: Option<Value<'a>>,
        finish_reason: Value<'a>,
        extras: Vec<Member<'a>>,
    ) {
        let mut members: Vec<Member<'a>> =
            vec![(Cow::Borrowed("index"), self.index.clone()), (Cow::Borrowed("delta"), delta)];
        if self.has_logprobs {
            members.push((Cow::Borrowed("logprobs"), logprobs.unwrap_or(Value::Null)));
        }
        members.push((Cow::Borrowed("finish_reason"), finish_reason));
        members.extend(extras);
        self.push(vec![Value::Object(members)], Value::Null);
    }

    fn push(&mut self, choices: Vec<Value<'a>>, usage: Value<'a>) {
        let mut chunk = self.head.clone();
        chunk.set("choices", Value::Array(choices));
        if self.usage {
            chunk.set("usage", usage);
        }
        let mut bytes = Vec::with_capacity(256);
        write_event("", &chunk.to_json(), &mut bytes);
        self.out.push(bytes);
    }
}
