//! One strict reading of JSON, and the small tree it gives.
//!
//! Two programs that read the same bytes differently are how a wrong answer is served: what other readers may
//! resolve in another way (a key twice, half a surrogate pair, bytes after the end) is refused here. Numbers keep
//! their exact text, strings are decoded, and the order of keys is kept.

mod parse;
mod path;
mod write;

use std::borrow::Cow;

pub use parse::{MAX_DEPTH, parse};
pub use path::Path;

/// A JSON value that borrows from the text wherever no escape had to be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// The number's exact text: `1`, `1.0` and `1e0` are three different values.
    Number(Cow<'a, str>),
    /// The decoded text.
    String(Cow<'a, str>),
    /// The items in order.
    Array(Vec<Value<'a>>),
    /// The members in order; no key occurs twice.
    Object(Vec<Member<'a>>),
}

/// A key and its value.
pub type Member<'a> = (Cow<'a, str>, Value<'a>);

impl<'a> Value<'a> {
    /// The member of an object; linear in the number of members.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.as_object()?.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The members, if this is an object.
    #[must_use]
    pub fn as_object(&self) -> Option<&[Member<'a>]> {
        if let Value::Object(members) = self { Some(members) } else { None }
    }

    /// The items, if this is an array.
    #[must_use]
    pub fn as_array(&self) -> Option<&[Value<'a>]> {
        if let Value::Array(items) = self { Some(items) } else { None }
    }

    /// The text, if this is a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Value::String(text) = self { Some(text) } else { None }
    }

    /// The number's text, if this is a number.
    #[must_use]
    pub fn as_number(&self) -> Option<&str> {
        if let Value::Number(text) = self { Some(text) } else { None }
    }

    /// The value, if this is a boolean.
    #[must_use]
    pub const fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(value) = self { Some(*value) } else { None }
    }

    /// Whether this is `null`.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// A value that borrows nothing.
    #[must_use]
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Value::Null => Value::Null,
            Value::Bool(value) => Value::Bool(value),
            Value::Number(text) => Value::Number(Cow::Owned(text.into_owned())),
            Value::String(text) => Value::String(Cow::Owned(text.into_owned())),
            Value::Array(items) => Value::Array(items.into_iter().map(Value::into_owned).collect()),
            Value::Object(members) => Value::Object(
                members
                    .into_iter()
                    .map(|(name, value)| (Cow::Owned(name.into_owned()), value.into_owned()))
                    .collect(),
            ),
        }
    }

    /// A string value.
    pub fn text(text: impl Into<Cow<'a, str>>) -> Value<'a> {
        Value::String(text.into())
    }

    /// An integer value.
    #[must_use]
    pub fn integer(value: u64) -> Value<'a> {
        Value::Number(Cow::Owned(value.to_string()))
    }

    /// An object of the given members; the caller gives each key once.
    pub fn object(members: impl IntoIterator<Item = (&'a str, Value<'a>)>) -> Value<'a> {
        Value::Object(members.into_iter().map(|(name, value)| (Cow::Borrowed(name), value)).collect())
    }

    /// Sets the member `key` in place, or appends it. Does nothing where this is not an object.
    pub fn set(&mut self, key: &str, value: Value<'a>) {
        let Value::Object(members) = self else { return };
        match members.iter_mut().find(|(name, _)| name == key) {
            Some((_, slot)) => *slot = value,
            None => members.push((Cow::Owned(key.to_owned()), value)),
        }
    }

    /// Takes the member `key` out of an object.
    pub fn remove(&mut self, key: &str) -> Option<Value<'a>> {
        let Value::Object(members) = self else { return None };
        let index = members.iter().position(|(name, _)| name == key)?;
        Some(members.remove(index).1)
    }

    /// The member `key` for change.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value<'a>> {
        let Value::Object(members) = self else { return None };
        members.iter_mut().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Compact JSON text; parsing it gives this value again.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        write::write(self, &mut out);
        out
    }
}
