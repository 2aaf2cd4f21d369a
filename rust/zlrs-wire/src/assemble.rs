//! An answer, whole or as a stream of events, to its final message and what is known about it.
//!
//! Nothing here fails: what is wrong with an answer is a fact about it, and the answer is then not kept.

mod chat;
mod messages;

use crate::json::{self, Value};
use crate::reason::{Reason, Refusal};
use crate::request::Protocol;
use crate::sse::{SseError, SseParser};

/// What is known about an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not states")]
pub struct AnswerFacts {
    /// The terminal event was seen and nothing was cut, or the body is one whole message.
    pub complete: bool,
    /// `stop_reason` of Messages, `finish_reason` of Chat.
    pub stop_reason: Option<String>,
    /// An error event, or an error body.
    pub error: bool,
    /// Tools were called.
    pub tool_use: bool,
    /// The model or a filter refused.
    pub refusal: bool,
    /// Thinking or reasoning is part of the answer.
    pub thinking: bool,
    /// There is a text that is more than white space.
    pub text: bool,
    /// Audio or another form that is not text.
    pub modality: bool,
    /// The answer refers to state at the upstream.
    pub stateful: bool,
    /// The token counts of input and output are there.
    pub usage: bool,
    /// Number of choices; 1 for Messages.
    pub choices: usize,
    /// The first thing found that does not follow the protocol ([`Reason::Malformed`]) or is not known
    /// ([`Reason::UnknownContent`]).
    pub defect: Option<Refusal>,
}

impl AnswerFacts {
    /// The form checks: why the answer must not be kept, or `None` where its form allows it. Status, size and
    /// time are the caller's to check.
    #[must_use]
    pub fn barrier(&self) -> Option<Refusal> {
        let whole = |reason| Some(Refusal::whole(reason));
        if self.error {
            return whole(Reason::StreamError);
        }
        if self.defect.is_some() {
            return self.defect.clone();
        }
        if !self.complete {
            return whole(Reason::Incomplete);
        }
        if self.refusal {
            return whole(Reason::Refused);
        }
        if self.tool_use {
            return whole(Reason::Tools);
        }
        if self.modality {
            return whole(Reason::Modality);
        }
        if self.stateful {
            return whole(Reason::Stateful);
        }
        if self.choices != 1 {
            return whole(Reason::Choices);
        }
        if !matches!(self.stop_reason.as_deref(), Some("end_turn" | "stop" | "stop_sequence")) {
            return whole(Reason::StopReason);
        }
        if !self.text {
            return whole(Reason::Empty);
        }
        None
    }

    /// Keeps the first defect only.
    fn blame(&mut self, reason: Reason, at: impl std::fmt::Display) {
        if self.defect.is_none() {
            self.defect = Some(Refusal::new(reason, at));
        }
    }
}

/// An assembled answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The protocol it was read as.
    pub protocol: Protocol,
    /// The final message as the protocol's JSON body; `null` where there was none. Receipts of ours (`zlrs`) and
    /// random padding are taken out, everything else is as the upstream said it.
    pub message: Value<'static>,
    /// What is known about it.
    pub facts: AnswerFacts,
}

impl Answer {
    /// From a whole JSON body (decoded from any content encoding). Linear in its length.
    #[must_use]
    pub fn from_json(protocol: Protocol, body: &[u8]) -> Answer {
        let mut facts = AnswerFacts::default();
        let mut message = match json::parse(body) {
            Ok(value) => value.into_owned(),
            Err(refusal) => {
                facts.blame(Reason::Malformed, refusal);
                Value::Null
            }
        };
        message.remove("zlrs");
        facts.complete = facts.defect.is_none();
        inspect(protocol, &message, &mut facts);
        Answer { protocol, message, facts }
    }

    /// From a whole event stream (decoded from any content encoding). Linear in its length.
    #[must_use]
    pub fn from_stream(protocol: Protocol, body: &[u8]) -> Answer {
        let mut assembler = Assembler::new(protocol, body.len());
        assembler.push(body);
        assembler.finish()
    }
}

/// Puts an answer together while its stream passes by.
#[derive(Debug)]
pub struct Assembler {
    protocol: Protocol,
    parser: SseParser,
    events: Vec<crate::sse::Event>,
    state: State,
    facts: AnswerFacts,
    terminal: bool,
}

#[derive(Debug)]
enum State {
    Messages(messages::MessageState),
    Chat(chat::ChatState),
}

impl Assembler {
    /// `limit_bytes`: the largest single event.
    #[must_use]
    pub fn new(protocol: Protocol, limit_bytes: usize) -> Self {
        let state = match protocol {
            Protocol::Messages => State::Messages(messages::MessageState::default()),
            Protocol::Chat => State::Chat(chat::ChatState::default()),
        };
        Assembler {
            protocol,
            parser: SseParser::new(limit_bytes),
            events: Vec::new(),
            state,
            facts: AnswerFacts::default(),
            terminal: false,
        }
    }

    /// Reads more bytes of the stream, cut anywhere.
    pub fn push(&mut self, bytes: &[u8]) {
        let mut events = std::mem::take(&mut self.events);
        let result = self.parser.push(bytes, &mut events);
        for event in events.drain(..) {
            self.event(&event.name, &event.data);
        }
        self.events = events;
        match result {
            Ok(()) => {}
            Err(SseError::TooLarge { .. }) => self.facts.blame(Reason::TooLarge, "event"),
            Err(SseError::InvalidUtf8) => self.facts.blame(Reason::Malformed, "utf-8"),
        }
    }

    /// Whether the terminal event was seen.
    #[must_use]
    pub const fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// The end of the stream.
    #[must_use]
    pub fn finish(mut self) -> Answer {
        self.facts.complete = self.terminal && !self.parser.is_partial();
        let message = match self.state {
            State::Messages(state) => state.finish(),
            State::Chat(state) => state.finish(),
        };
        inspect(self.protocol, &message, &mut self.facts);
        Answer { protocol: self.protocol, message, facts: self.facts }
    }

    fn event(&mut self, name: &str, data: &str) {
        if self.protocol == Protocol::Chat && data == "[DONE]" {
            if self.terminal {
                self.facts.blame(Reason::Malformed, "[DONE]");
            }
            self.terminal = true;
            return;
        }
        let event = match json::parse(data.as_bytes()) {
            Ok(value) => value,
            Err(refusal) => {
                self.facts.blame(Reason::Malformed, refusal);
                return;
            }
        };
        let is_ping = event.get("type").and_then(Value::as_str) == Some("ping");
        if self.terminal && !is_ping {
            self.facts.blame(Reason::Malformed, "event after the end");
            return;
        }
        match &mut self.state {
            State::Messages(state) => self.terminal = state.event(name, event, &mut self.facts),
            State::Chat(state) => state.chunk(event, &mut self.facts),
        }
    }
}

/// Facts that follow from the final message.
fn inspect(protocol: Protocol, message: &Value<'_>, facts: &mut AnswerFacts) {
    match protocol {
        Protocol::Messages => messages::inspect(message, facts),
        Protocol::Chat => chat::inspect(message, facts),
    }
}

/// An answer's objects hold this many members at most: without a limit, events that each bring new names would cost
/// quadratic time.
const MOST_MEMBERS: usize = 256;

/// Sets a member of an object that grows with the stream.
fn put(target: &mut Value<'static>, key: &str, value: Value<'static>, facts: &mut AnswerFacts) {
    if target.as_object().is_some_and(|members| members.len() >= MOST_MEMBERS) {
        facts.blame(Reason::TooLarge, "members");
        return;
    }
    target.set(key, value);
}

/// Whether a text says anything.
fn says_something(value: Option<&Value<'_>>) -> bool {
    value.and_then(Value::as_str).is_some_and(|text| !text.trim().is_empty())
}

/// Appends `more` to the string member `key`, which is made where it is missing or `null`.
fn append(target: &mut Value<'static>, key: &str, more: &str) {
    if let Some(Value::String(text)) = target.get_mut(key) {
        text.to_mut().push_str(more);
    } else {
        target.set(key, Value::text(more.to_owned()));
    }
}

/// Merges token counts: numbers take the larger value (counts are cumulative, and some servers repeat a zero),
/// anything else the last value that is not `null`.
fn merge_usage(into: &mut Value<'static>, usage: Value<'static>, facts: &mut AnswerFacts) {
    let Value::Object(members) = usage else { return };
    if into.as_object().is_none() {
        *into = Value::Object(Vec::new());
    }
    let count = |value: Option<&Value<'_>>| {
        value.and_then(Value::as_number).and_then(|text| text.parse::<u64>().ok())
    };
    for (name, value) in members {
        let known = into.get(&name);
        let keep = value.is_null() && known.is_some()
            || matches!((count(known), count(Some(&value))), (Some(old), Some(new)) if old > new);
        if !keep {
            put(into, &name, value, facts);
        }
    }
}
