//! Bytes to [`Value`], with jiter as the lexer.

use std::borrow::Cow;
use std::collections::HashSet;

use jiter::{Jiter, JiterError, JiterErrorType, JsonErrorType, Peek};

use super::{Member, Path, Value};
use crate::reason::{Reason, Refusal};

/// Arrays and objects may be nested this deep.
pub const MAX_DEPTH: usize = 64;

/// Objects with more members than this are checked for equal keys with a hash set.
const LINEAR_KEYS: usize = 16;

/// Reads exactly one JSON value, with white space around it allowed.
///
/// Linear in the length of `body`; strings and keys without escapes are borrowed.
///
/// # Errors
/// [`Reason::InvalidUtf8`], [`Reason::MalformedJson`], [`Reason::DuplicateKey`], [`Reason::TooDeep`] or
/// [`Reason::LoneSurrogate`], each with the path of the value where it was found.
pub fn parse(body: &[u8]) -> Result<Value<'_>, Refusal> {
    let text = std::str::from_utf8(body).map_err(|_| Refusal::whole(Reason::InvalidUtf8))?;
    let mut reader = Reader { text, jiter: Jiter::new(body) };
    let first = reader.jiter.peek().map_err(|error| refusal(&error, &Path::ROOT))?;
    let value = reader.value(first, 0, &Path::ROOT)?;
    reader.jiter.finish().map_err(|error| refusal(&error, &Path::ROOT))?;
    Ok(value)
}

struct Reader<'a> {
    text: &'a str,
    jiter: Jiter<'a>,
}

impl<'a> Reader<'a> {
    fn value(&mut self, peek: Peek, depth: usize, path: &Path<'_>) -> Result<Value<'a>, Refusal> {
        let fail = |error: JiterError| refusal(&error, path);
        match peek {
            Peek::Null => self.jiter.known_null().map(|()| Value::Null).map_err(fail),
            Peek::True | Peek::False => self.jiter.known_bool(peek).map(Value::Bool).map_err(fail),
            Peek::String => {
                let text = self.text;
                self.jiter.known_str().map(|part| Value::String(borrow(text, part))).map_err(fail)
            }
            Peek::Array | Peek::Object if depth == MAX_DEPTH => Err(Refusal::new(Reason::TooDeep, path)),
            Peek::Array => self.array(depth, path),
            Peek::Object => self.object(depth, path),
            _ if peek == Peek::Minus || peek.into_inner().is_ascii_digit() => self.number(peek, path),
            _ => Err(Refusal::new(Reason::MalformedJson, path)),
        }
    }

    fn number(&mut self, peek: Peek, path: &Path<'_>) -> Result<Value<'a>, Refusal> {
        let bytes = self.jiter.known_number_bytes(peek).map_err(|error| refusal(&error, path))?;
        let part = std::str::from_utf8(bytes).map_err(|_| Refusal::new(Reason::MalformedJson, path))?;
        Ok(Value::Number(borrow(self.text, part)))
    }

    fn array(&mut self, depth: usize, path: &Path<'_>) -> Result<Value<'a>, Refusal> {
        let mut items = Vec::new();
        let mut next = self.jiter.known_array().map_err(|error| refusal(&error, path))?;
        while let Some(peek) = next {
            items.push(self.value(peek, depth + 1, &path.index(items.len()))?);
            next = self.jiter.array_step().map_err(|error| refusal(&error, path))?;
        }
        Ok(Value::Array(items))
    }

    fn object(&mut self, depth: usize, path: &Path<'_>) -> Result<Value<'a>, Refusal> {
        let mut members: Vec<Member<'a>> = Vec::new();
        let mut seen = HashSet::new();
        let text = self.text;
        let mut next =
            self.jiter.known_object().map_err(|error| refusal(&error, path))?.map(|name| borrow(text, name));
        while let Some(name) = next {
            let at = path.key(&name);
            if is_repeated(&name, &members, &mut seen) {
                return Err(Refusal::new(Reason::DuplicateKey, at));
            }
            let peek = self.jiter.peek().map_err(|error| refusal(&error, &at))?;
            let value = self.value(peek, depth + 1, &at)?;
            members.push((name, value));
            next =
                self.jiter.next_key().map_err(|error| refusal(&error, path))?.map(|name| borrow(text, name));
        }
        Ok(Value::Object(members))
    }
}

/// Whether the decoded key `name` is among `members`. `seen` is filled once there are many.
fn is_repeated<'a>(name: &str, members: &[Member<'a>], seen: &mut HashSet<Cow<'a, str>>) -> bool {
    if members.len() < LINEAR_KEYS {
        return members.iter().any(|(known, _)| known == name);
    }
    if seen.is_empty() {
        seen.extend(members.iter().map(|(known, _)| known.clone()));
    }
    !seen.insert(Cow::Owned(name.to_owned()))
}

/// `part` as a slice of `text` where it lies inside it, else a copy.
///
/// jiter hands out a piece of its input where nothing was decoded, but with the lifetime of its own buffer.
fn borrow<'a>(text: &'a str, part: &str) -> Cow<'a, str> {
    let start = part.as_ptr().addr().wrapping_sub(text.as_ptr().addr());
    match text.get(start..start.wrapping_add(part.len())) {
        Some(same) if std::ptr::eq(same.as_ptr(), part.as_ptr()) => Cow::Borrowed(same),
        _ => Cow::Owned(part.to_owned()),
    }
}

fn refusal(error: &JiterError, path: &Path<'_>) -> Refusal {
    let reason = match &error.error_type {
        // The second is raised where half of a pair is followed by something else than an escape.
        JiterErrorType::JsonError(
            JsonErrorType::LoneLeadingSurrogateInHexEscape | JsonErrorType::UnexpectedEndOfHexEscape,
        ) => Reason::LoneSurrogate,
        _ => Reason::MalformedJson,
    };
    Refusal::new(reason, path)
}
