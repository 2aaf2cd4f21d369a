//! A walk over JSON that was found well-formed: every step ends, whatever the bytes are.

use std::ops::Range;

use crate::json::{Value, parse};

/// A place in the bytes.
pub(super) struct Cursor<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Cursor<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Behind what was read last.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Where the next value begins.
    pub(super) fn at_value(&mut self) -> usize {
        self.peek();
        self.at
    }

    /// Behind the opening brace, where the next value is an object.
    pub(super) fn inside(&mut self) -> usize {
        self.at_value() + 1
    }

    pub(super) fn is_string(&mut self) -> bool {
        self.peek() == Some(b'"')
    }

    pub(super) fn is_array(&mut self) -> bool {
        self.peek() == Some(b'[')
    }

    pub(super) fn is_object(&mut self) -> bool {
        self.peek() == Some(b'{')
    }

    /// Goes through the members of an object; `each` must read the value. Any other value is skipped.
    pub(super) fn members(&mut self, mut each: impl FnMut(&mut Self, String)) {
        if !self.is_object() {
            self.skip();
            return;
        }
        self.at += 1;
        while self.is_string() {
            let (_, name) = self.string();
            self.take(b':');
            each(self, name);
            self.take(b',');
        }
        self.take(b'}');
    }

    /// Goes through the items of an array; `each` must read the value. Any other value is skipped.
    pub(super) fn elements(&mut self, mut each: impl FnMut(&mut Self, usize)) {
        if !self.is_array() {
            self.skip();
            return;
        }
        self.at += 1;
        let mut index = 0;
        while self.peek().is_some_and(|byte| byte != b']') {
            let before = self.at;
            each(self, index);
            self.take(b',');
            index += 1;
            if self.at == before {
                break;
            }
        }
        self.take(b']');
    }

    /// The bytes of a string with its quotes, and its text.
    pub(super) fn string(&mut self) -> (Range<usize>, String) {
        let start = self.at_value();
        self.at = self.string_end(start);
        let range = start..self.at;
        let text = match parse(&self.bytes[range.clone()]) {
            Ok(Value::String(text)) => text.into_owned(),
            _ => String::new(),
        };
        (range, text)
    }

    /// Goes over one value.
    pub(super) fn skip(&mut self) {
        let mut depth = 0_usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => self.at = self.string_end(self.at),
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    if depth == 0 {
                        return;
                    }
                    depth -= 1;
                    self.at += 1;
                }
                b',' | b':' if depth == 0 => return,
                b',' | b':' => self.at += 1,
                _ => {
                    while self.bytes.get(self.at).is_some_and(|byte| !b" \t\r\n,]}:".contains(byte)) {
                        self.at += 1;
                    }
                }
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// The string member `name` of the object that comes next, which is not read by this.
    pub(super) fn peek_text(&self, name: &str) -> Option<String> {
        let mut ahead = Cursor { bytes: self.bytes, at: self.at };
        let mut found = None;
        ahead.members(|cursor, member| {
            if member == name && cursor.is_string() {
                found = Some(cursor.string().1);
            } else {
                cursor.skip();
            }
        });
        found
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        while self.bytes.get(self.at).is_some_and(|byte| b" \t\r\n".contains(byte)) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self, wanted: u8) {
        if self.peek() == Some(wanted) {
            self.at += 1;
        }
    }

    /// Behind the closing quote of the string that opens at `start`.
    fn string_end(&self, start: usize) -> usize {
        let mut at = start + 1;
        while let Some(byte) = self.bytes.get(at) {
            match byte {
                b'"' => return at + 1,
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
        self.bytes.len()
    }
}
