//! The injective encoding under every key.
//!
//! An item is its tag (one byte), its length or count (eight bytes, little endian) and its content. A reader that
//! knows nothing but this rule can take the bytes apart again, so two different inputs cannot give the same bytes.

use crate::json::Value;

/// Where an encoding goes.
pub trait Sink {
    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for blake3::Hasher {
    fn put(&mut self, bytes: &[u8]) {
        self.update(bytes);
    }
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// What an item is. The numbers are part of every stored key and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are the fields they stand for")]
pub enum Tag {
    Null = 1,
    False = 2,
    True = 3,
    Number = 4,
    String = 5,
    Array = 6,
    Object = 7,
    Key = 8,
    Tenant = 16,
    Upstream = 17,
    Method = 18,
    Path = 19,
    Query = 20,
    Headers = 21,
    Header = 22,
    HeaderValue = 23,
    Factors = 24,
    Factor = 25,
    FactorValue = 26,
    Protocol = 27,
    Attribution = 28,
    HasAsk = 29,
    Body = 30,
    Scope = 31,
    Ask = 32,
    CanonVersion = 33,
    Form = 34,
}

/// One item of bytes.
pub fn bytes(sink: &mut impl Sink, tag: Tag, content: &[u8]) {
    list(sink, tag, content.len());
    sink.put(content);
}

/// The head of `count` items that follow.
pub fn list(sink: &mut impl Sink, tag: Tag, count: usize) {
    sink.put(&[tag as u8]);
    sink.put(&(count as u64).to_le_bytes());
}

/// A JSON value with the order of its keys and the exact text of its numbers.
pub fn value(sink: &mut impl Sink, value_in: &Value<'_>) {
    match value_in {
        Value::Null => list(sink, Tag::Null, 0),
        Value::Bool(false) => list(sink, Tag::False, 0),
        Value::Bool(true) => list(sink, Tag::True, 0),
        Value::Number(text) => bytes(sink, Tag::Number, text.as_bytes()),
        Value::String(text) => bytes(sink, Tag::String, text.as_bytes()),
        Value::Array(items) => {
            list(sink, Tag::Array, items.len());
            for item in items {
                value(sink, item);
            }
        }
        Value::Object(members) => {
            list(sink, Tag::Object, members.len());
            for (name, member) in members {
                bytes(sink, Tag::Key, name.as_bytes());
                value(sink, member);
            }
        }
    }
}
