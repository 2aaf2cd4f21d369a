//! What chat templates call beside the language itself, as the reference implementation offers it.

use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use minijinja::value::Kwargs;
use minijinja::{Error, ErrorKind, Value};

/// JSON as Python's `json.dumps(value, ensure_ascii=False)` writes it: a space after separators, nothing
/// escaped for HTML.
pub(super) fn tojson(value: &Value, options: Kwargs) -> Result<Value, Error> {
    let indent = options.get::<Option<Value>>("indent")?;
    if options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false) {
        return Err(Error::new(ErrorKind::InvalidOperation, "tojson: ensure_ascii=true is not supported"));
    }
    options.assert_all_used()?;
    let json = minijinja::filters::tojson(value, indent, Kwargs::from_iter([] as [(&str, Value); 0]))?;
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
