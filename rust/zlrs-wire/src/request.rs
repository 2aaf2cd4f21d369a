//! A request body, read once: what is asked, what must be equal, what forbids an answer from the graph.

mod attribution;
pub mod fields;
mod turns;

use std::borrow::Cow;

use crate::json::{self, Path, Value};
use crate::reason::{Reason, Refusal};
use fields::{Rule, rule_of};

/// A protocol whose requests are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// `POST /v1/messages`
    Messages,
    /// `POST /v1/chat/completions`
    Chat,
}

impl Protocol {
    /// The protocol of a request line, or `None` for what is only relayed. The path may carry a prefix
    /// (`/team-a/v1/messages`); it has no query and must match to the last byte.
    #[must_use]
    pub fn of_endpoint(method: &str, path: &str) -> Option<Protocol> {
        match method {
            "POST" if path.ends_with("/v1/messages") => Some(Protocol::Messages),
            "POST" if path.ends_with("/v1/chat/completions") => Some(Protocol::Chat),
            _ => None,
        }
    }

    /// `messages` or `chat`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Messages => "messages",
            Protocol::Chat => "chat",
        }
    }
}

/// The `temperature` of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Temperature {
    /// Absent or `null`: 1.0 in both protocols.
    Absent,
    /// As given; not checked against the protocol's range.
    Given(f64),
}

/// A request as the graph sees it.
///
/// The **ask** is the text of the last content block of the last turn, which must be the user's; everything else
/// is scope: system blocks, every earlier turn, earlier blocks of the last turn, and every field that is not on
/// the ignore list. A plain string and a list of one text block are *different* scopes: that they mean the same
/// to every upstream is not proven, and a miss costs little.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not states")]
pub struct RequestView<'b> {
    /// Which protocol the body was read as.
    pub protocol: Protocol,
    /// The `model` field.
    pub model: Cow<'b, str>,
    /// Whether an event stream is asked for.
    pub stream: bool,
    /// Chat: whether `stream_options.include_usage` asks for the usage chunk.
    pub include_usage: bool,
    /// The text asked for; `None` where [`Self::barrier`] says why.
    pub ask: Option<Cow<'b, str>>,
    /// The sampling temperature.
    pub temperature: Temperature,
    /// The first thing found that makes the request never eligible.
    pub barrier: Option<Refusal>,
    /// Number of turns, system turns included where the protocol has them as turns.
    pub turns: usize,
    /// Whether a thinking or reasoning effort is set.
    pub thinking: bool,
    /// Whether a response format is set.
    pub response_format: bool,
    /// Whether a client's attribution line was taken off the head of the system prompt.
    pub attribution: bool,
    /// Scope fields, sorted by name; ignored fields and the ask are taken out.
    pub(crate) scope: Vec<json::Member<'b>>,
}

impl<'b> RequestView<'b> {
    /// Reads a request body.
    ///
    /// Linear in the length of `body`; text without escapes is borrowed from it.
    ///
    /// # Errors
    /// A [`Refusal`] where the body cannot be read with certainty: not strict JSON (see [`json::parse`]), or
    /// `model`, `messages` or `stream` missing or of another type. Such a request is still relayed. What is read
    /// well but never eligible is an `Ok` with a [`Self::barrier`].
    pub fn parse(protocol: Protocol, body: &'b [u8]) -> Result<RequestView<'b>, Refusal> {
        let Value::Object(members) = json::parse(body)? else {
            return Err(Refusal::whole(Reason::WrongType));
        };
        let mut view = RequestView {
            protocol,
            model: Cow::Borrowed(""),
            stream: false,
            include_usage: false,
            ask: None,
            temperature: Temperature::Absent,
            barrier: None,
            turns: 0,
            thinking: false,
            response_format: false,
            attribution: false,
            scope: Vec::with_capacity(members.len()),
        };
        let mut found = (false, false);
        for (name, value) in members {
            found.0 |= name == "model";
            found.1 |= name == "messages";
            view.field(name, value)?;
        }
        if !found.0 {
            return Err(Refusal::new(Reason::WrongType, "model"));
        }
        if !found.1 {
            return Err(Refusal::new(Reason::WrongType, "messages"));
        }
        view.scope.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        Ok(view)
    }

    /// Sorts one top-level field into its place.
    fn field(&mut self, name: Cow<'b, str>, mut value: Value<'b>) -> Result<(), Refusal> {
        let path = Path::ROOT.key(&name);
        match rule_of(fields::body(self.protocol), &name) {
            Some(Rule::Model) => match &value {
                Value::String(text) => self.model = text.clone(),
                _ => return Err(Refusal::new(Reason::WrongType, path)),
            },
            Some(Rule::Stream) => match value {
                Value::Bool(stream) => self.stream = stream,
                Value::Null => {}
                _ => return Err(Refusal::new(Reason::WrongType, path)),
            },
            Some(Rule::Turns) => self.messages(&mut value, &path)?,
            Some(Rule::System) => self.system(&mut value, &path),
            Some(Rule::Temperature) => self.set_temperature(&value, &path),
            Some(Rule::One) => {
                if !value.is_null() && value.as_number() != Some("1") {
                    self.refuse(Reason::Choices, &path);
                }
            }
            Some(Rule::TextOnly) => {
                let text_only = value
                    .as_array()
                    .is_some_and(|items| items.iter().all(|item| item.as_str() == Some("text")));
                if !value.is_null() && !text_only {
                    self.refuse(Reason::Modality, &path);
                }
            }
            Some(Rule::Thinking) => self.thinking |= !value.is_null(),
            Some(Rule::Format) => self.response_format |= !value.is_null(),
            Some(Rule::Never(reason)) => {
                if is_present(&value) {
                    self.refuse(reason, &path);
                }
            }
            Some(Rule::StreamOptions) => self.stream_options(&value, &path),
            Some(Rule::Metadata) => {
                if !value.is_null() && value.as_object().is_none() {
                    self.refuse(Reason::WrongType, &path);
                }
            }
            Some(Rule::CacheControl) => self.check_cache_control(&value, &path),
            Some(Rule::Scope) => {}
            None => self.refuse(Reason::UnknownField, &path),
        }
        if !rule_of(fields::body(self.protocol), &name).is_some_and(Rule::is_ignored) {
            self.scope.push((name, value));
        }
        Ok(())
    }

    /// Keeps the first barrier only: the reason shown should not depend on what follows it.
    fn refuse(&mut self, reason: Reason, path: &Path<'_>) {
        if self.barrier.is_none() {
            self.barrier = Some(Refusal::new(reason, path));
        }
    }

    fn set_temperature(&mut self, value: &Value<'b>, path: &Path<'_>) {
        match value {
            Value::Null => {}
            Value::Number(text) => match text.parse::<f64>() {
                Ok(temperature) if temperature.is_finite() => {
                    self.temperature = Temperature::Given(temperature);
                }
                _ => self.refuse(Reason::WrongType, path),
            },
            _ => self.refuse(Reason::WrongType, path),
        }
    }

    fn stream_options(&mut self, value: &Value<'b>, path: &Path<'_>) {
        let Some(members) = value.as_object() else {
            if !value.is_null() {
                self.refuse(Reason::WrongType, path);
            }
            return;
        };
        for (name, option) in members {
            let at = path.key(name);
            match (name.as_ref(), option) {
                ("include_usage", Value::Bool(include)) => self.include_usage = *include,
                ("include_obfuscation", Value::Bool(_))
                | ("include_usage" | "include_obfuscation", Value::Null) => {}
                ("include_usage" | "include_obfuscation", _) => self.refuse(Reason::WrongType, &at),
                _ => self.refuse(Reason::UnknownField, &at),
            }
        }
    }

    /// `cache_control` is ignored only where it is what the protocol says: its effect is known.
    fn check_cache_control(&mut self, value: &Value<'b>, path: &Path<'_>) {
        let Some(members) = value.as_object() else {
            if !value.is_null() {
                self.refuse(Reason::WrongType, path);
            }
            return;
        };
        for (name, option) in members {
            let at = path.key(name);
            match (name.as_ref(), option.as_str()) {
                ("type" | "ttl", Some(_)) => {}
                ("type" | "ttl", None) => self.refuse(Reason::WrongType, &at),
                _ => self.refuse(Reason::UnknownField, &at),
            }
        }
    }
}

/// Whether a value says something: not `null`, `false` or an empty list.
fn is_present(value: &Value<'_>) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}
