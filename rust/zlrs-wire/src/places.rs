//! Where the texts of a request body stand, so that one of them can be changed and every other byte stays.
//!
//! The tree of [`crate::json`] has no places: it says what was read, not where. This walk goes over the same bytes once
//! more, after the strict reading has found them good, and notes the strings that are texts of a conversation.

mod cursor;

use std::ops::Range;

use self::cursor::Cursor;
use crate::json::parse;
use crate::reason::Refusal;

/// Who wrote a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// The first system text. It may be told by its position and by its exact bytes: nobody changes it.
    FirstSystem,
    /// Another system or developer text.
    System,
    /// The user.
    User,
    /// A tool, whose result the client sends.
    Tool,
    /// The model, in an earlier turn.
    Assistant,
}

impl Writer {
    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Writer::FirstSystem => "first_system",
            Writer::System => "system",
            Writer::User => "user",
            Writer::Tool => "tool",
            Writer::Assistant => "assistant",
        }
    }
}

/// A text of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// Where it is: `messages[0].content[1].text`.
    pub path: String,
    /// Who wrote it.
    pub writer: Writer,
    /// The bytes of the string with its quotes.
    pub range: Range<usize>,
    /// The text, its escapes decoded.
    pub text: String,
}

/// The places of a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The texts, in the order of the bytes.
    pub texts: Vec<Text>,
    /// Members of the outermost object: name, and the bytes of the value.
    pub members: Vec<(String, Range<usize>)>,
    /// Behind the opening brace of the outermost object.
    pub inside: usize,
}

/// The texts of a Messages, Chat, Responses or batch body. Linear in its length.
///
/// A text is a string under `system`, `instructions`, `input`, or `messages[].content`: the whole value, or the `text` of
/// one of its blocks, or what stands in the `content` of a tool result. Batches have them under `requests[].params`.
///
/// # Errors
/// Those of [`parse`]: what other readers could read in another way has no places.
pub fn places(body: &[u8]) -> Result<Places, Refusal> {
    parse(body)?;
    let mut found = Places::default();
    let mut cursor = Cursor::new(body);
    found.inside = cursor.inside();
    let mut conversation = Conversation { has_system: false, texts: Vec::new() };
    cursor.members(|cursor, name| {
        let start = cursor.at_value();
        conversation.member(cursor, &name, "");
        found.members.push((name, start..cursor.at()));
    });
    found.texts = conversation.texts;
    Ok(found)
}

struct Conversation {
    has_system: bool,
    texts: Vec<Text>,
}

impl Conversation {
    /// A member of the object that holds a conversation.
    fn member(&mut self, cursor: &mut Cursor<'_>, name: &str, prefix: &str) {
        let path = format!("{prefix}{name}");
        // Each list has a first system text of its own, whichever member stands first.
        self.has_system = false;
        match name {
            "system" | "instructions" => self.content(cursor, &path, Writer::System),
            "messages" | "input" if cursor.is_array() => {
                cursor.elements(|cursor, index| self.turn(cursor, &format!("{path}[{index}]")));
            }
            "input" => self.content(cursor, &path, Writer::User),
            "requests" if prefix.is_empty() => cursor.elements(|cursor, index| {
                cursor.members(|cursor, name| {
                    if name == "params" {
                        let prefix = format!("{path}[{index}].params.");
                        cursor.members(|cursor, name| self.member(cursor, &name, &prefix));
                    } else {
                        cursor.skip();
                    }
                });
            }),
            _ => cursor.skip(),
        }
    }

    /// One turn: who speaks may stand behind what is said, so it is looked for first.
    fn turn(&mut self, cursor: &mut Cursor<'_>, path: &str) {
        if !cursor.is_object() {
            cursor.skip();
            return;
        }
        let writer = match cursor.peek_text("role").as_deref() {
            Some("system" | "developer") => Writer::System,
            Some("assistant") => Writer::Assistant,
            Some("user") => Writer::User,
            // Results of tools: in Chat by their role, in Responses without one.
            _ => Writer::Tool,
        };
        cursor.members(|cursor, name| match name.as_str() {
            "content" | "output" => self.content(cursor, &format!("{path}.{name}"), writer),
            _ => cursor.skip(),
        });
    }

    /// A string, or a list of blocks.
    fn content(&mut self, cursor: &mut Cursor<'_>, path: &str, writer: Writer) {
        if cursor.is_string() {
            self.text(cursor, path.to_owned(), writer);
        } else if cursor.is_array() {
            cursor.elements(|cursor, index| self.block(cursor, &format!("{path}[{index}]"), writer));
        } else {
            cursor.skip();
        }
    }

    fn block(&mut self, cursor: &mut Cursor<'_>, path: &str, writer: Writer) {
        if !cursor.is_object() {
            cursor.skip();
            return;
        }
        let kind = cursor.peek_text("type");
        // A block of another kind may be signed, or be checked by its bytes.
        let is_text = matches!(kind.as_deref(), Some("text" | "input_text"));
        let is_result = matches!(kind.as_deref(), Some("tool_result"));
        cursor.members(|cursor, name| match name.as_str() {
            "text" if is_text && cursor.is_string() => self.text(cursor, format!("{path}.text"), writer),
            "content" if is_result => self.content(cursor, &format!("{path}.content"), Writer::Tool),
            _ => cursor.skip(),
        });
    }

    fn text(&mut self, cursor: &mut Cursor<'_>, path: String, writer: Writer) {
        let writer = match writer {
            Writer::System if !self.has_system => Writer::FirstSystem,
            other => other,
        };
        self.has_system |= writer == Writer::FirstSystem;
        let (range, text) = cursor.string();
        self.texts.push(Text { path, writer, range, text });
    }
}
