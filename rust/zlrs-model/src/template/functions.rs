//! What chat templates call beside the language itself, as the reference implementation offers it.

use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use minijinja::value::{Kwargs, StringInput, ValueKind};
use minijinja::{Error, ErrorKind, Output, State, Value, escape_formatter, filters};

/// Deepest value that is written out.
const MAX_DEPTH: usize = 64;
/// Most elements of a value that is written out, those of shared parts counted each time.
const MAX_ELEMENTS: usize = 1_000_000;

/// Fails for values that would be written out without end, or nearly: a few lines of a template can build a
/// list that holds itself a million times over, which the engine's own accounting sees only afterwards.
fn check_extent(value: &Value) -> Result<(), Error> {
    fn walk(value: &Value, depth: usize, elements: &mut usize) -> Result<(), Error> {
        if !matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::Iterable) {
            return Ok(());
        }
        if depth > MAX_DEPTH {
            let detail = format!("a value nested more than {MAX_DEPTH} deep cannot be written out");
            return Err(Error::new(ErrorKind::InvalidOperation, detail));
        }
        for key in value.try_iter()? {
            *elements += 1;
            if *elements > MAX_ELEMENTS {
                let detail = format!("a value of more than {MAX_ELEMENTS} elements cannot be written out");
                return Err(Error::new(ErrorKind::InvalidOperation, detail));
            }
            walk(&key, depth + 1, elements)?;
            if value.kind() == ValueKind::Map {
                walk(&value.get_item(&key)?, depth + 1, elements)?;
            }
        }
        Ok(())
    }
    walk(value, 1, &mut 0)
}

/// Writes the value of an expression.
pub(super) fn write(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    check_extent(value)?;
    escape_formatter(out, state, value)
}

/// The filter `string`.
pub(super) fn string(state: &State<'_, '_>, value: &Value) -> Result<Value, Error> {
    check_extent(value)?;
    filters::string(state, value)
}

/// The filter `join`.
pub(super) fn join(
    state: &mut State<'_, '_>,
    value: &Value,
    joiner: Option<StringInput<'_>>,
    attribute: Option<&str>,
    options: Kwargs,
) -> Result<Value, Error> {
    check_extent(value)?;
    filters::join(state, value, joiner, attribute, options)
}

/// JSON as Python's `json.dumps(value, ensure_ascii=False)` writes it: a space after separators, nothing
/// escaped for HTML.
#[expect(clippy::needless_pass_by_value, reason = "the template engine calls it so")]
pub(super) fn tojson(value: &Value, options: Kwargs) -> Result<Value, Error> {
    let indent = options.get::<Option<Value>>("indent")?;
    if options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false) {
        return Err(Error::new(ErrorKind::InvalidOperation, "tojson: ensure_ascii=true is not supported"));
    }
    options.assert_all_used()?;
    check_extent(value)?;
    let json = filters::tojson(value, indent, Kwargs::from_iter([] as [(&str, Value); 0]))?;
    Ok(Value::from(unescape_html(json.as_str().unwrap_or_default())))
}

/// Undoes the escapes `\u003c`, `\u003e`, `\u0026` and `\u0027` of JSON text. A backslash that is itself
/// escaped stays with what follows it.
fn unescape_html(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let plain = [("\\u003c", '<'), ("\\u003e", '>'), ("\\u0026", '&'), ("\\u0027", '\'')]
            .into_iter()
            .find(|(escape, _)| rest.starts_with(escape));
        let (taken, kept) = match plain {
            Some((escape, character)) => {
                out.push(character);
                (escape.len(), 0)
            }
            // An escape is a backslash and an ASCII character at least.
            None => (2.min(rest.len()), 2.min(rest.len())),
        };
        out.push_str(&rest[..kept]);
        rest = &rest[taken..];
    }
    out.push_str(rest);
    out
}

/// The time `now_s` (seconds since 1970, UTC) in the format of C's `strftime`.
pub(super) fn strftime(format: &str, now_s: i64) -> Result<String, Error> {
    let wrong =
        |error: jiff::Error| Error::new(ErrorKind::InvalidOperation, format!("strftime_now: {error}"));
    let now = Timestamp::from_second(now_s).map_err(wrong)?.to_zoned(TimeZone::UTC);
    strtime::format(format, &now).map_err(wrong)
}
