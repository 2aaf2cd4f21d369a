//! JSON by value: exact decimals, members in any order, no member twice.

use jiter::{Jiter, Peek};

use crate::decimal::Decimal;

const DEPTH: usize = 64;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(Decimal),
    String(String),
    Array(Vec<Json>),
    /// Sorted by name.
    Object(Vec<(String, Json)>),
}

/// The object or array that `text` is, and nothing else.
pub(crate) fn parse(text: &str) -> Option<Json> {
    if !text.starts_with(['{', '[']) {
        return None;
    }
    let mut reader = Jiter::new(text.as_bytes());
    let peek = reader.peek().ok()?;
    let value = value(&mut reader, peek, 0)?;
    reader.finish().ok()?;
    Some(value)
}

fn value(reader: &mut Jiter<'_>, peek: Peek, depth: usize) -> Option<Json> {
    if depth > DEPTH {
        return None;
    }
    Some(match peek {
        Peek::Null => {
            reader.known_null().ok()?;
            Json::Null
        }
        Peek::True | Peek::False => Json::Bool(reader.known_bool(peek).ok()?),
        Peek::String => Json::String(reader.known_str().ok()?.to_owned()),
        Peek::Array => {
            let mut items = Vec::new();
            let mut next = reader.known_array().ok()?;
            while let Some(peek) = next {
                items.push(value(reader, peek, depth + 1)?);
                next = reader.array_step().ok()?;
            }
            Json::Array(items)
        }
        Peek::Object => {
            let mut members: Vec<(String, Json)> = Vec::new();
            let mut next = reader.known_object().ok()?.map(str::to_owned);
            while let Some(name) = next {
                let peek = reader.peek().ok()?;
                members.push((name, value(reader, peek, depth + 1)?));
                next = reader.next_key().ok()?.map(str::to_owned);
            }
            members.sort_by(|one, two| one.0.cmp(&two.0));
            if members.windows(2).any(|pair| pair[0].0 == pair[1].0) {
                return None;
            }
            Json::Object(members)
        }
        _ => {
            let bytes = reader.known_number_bytes(peek).ok()?;
            Json::Number(Decimal::parse(std::str::from_utf8(bytes).ok()?)?)
        }
    })
}
