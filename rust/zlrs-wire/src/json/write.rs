//! [`Value`] to compact bytes.

use super::Value;

/// Appends the compact JSON text of `value`. Recursion is bounded by the depth of the value.
pub(super) fn write(value: &Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(text) => out.extend_from_slice(text.as_bytes()),
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write(item, out);
            }
            out.push(b']');
        }
        Value::Object(members) => {
            out.push(b'{');
            for (index, (name, member)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_string(name, out);
                out.push(b':');
                write(member, out);
            }
            out.push(b'}');
        }
    }
}

/// Appends a quoted string. Besides what JSON demands, the line separators U+2028 and U+2029 are escaped: some
/// readers of event streams split lines at them.
fn write_string(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut rest = text;
    // Almost all of a text needs no escape: it is copied in runs.
    while let Some(at) = first_special(rest.as_bytes()) {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        let mut characters = rest[at..].chars();
        let Some(character) = characters.next() else { break };
        rest = characters.as_str();
        match character {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\u{2028}' => out.extend_from_slice(b"\\u2028"),
            '\u{2029}' => out.extend_from_slice(b"\\u2029"),
            '\0'..='\x1f' => {
                let byte = character as usize;
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', HEX[byte >> 4], HEX[byte & 15]]);
            }
            _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.extend_from_slice(rest.as_bytes());
    out.push(b'"');
}

/// Where the first byte is that may need an escape. 0xE2 begins the two line separators, and other characters.
fn first_special(bytes: &[u8]) -> Option<usize> {
    /// Bytes that are looked at together: enough for any vector register.
    const RUN: usize = 64;
    let is_special = |byte: u8| byte < 0x20 || matches!(byte, b'"' | b'\\' | 0xe2);
    // No early end within a run, so that the compiler uses vectors.
    let clean = bytes
        .chunks_exact(RUN)
        .take_while(|run| !run.iter().fold(false, |any, &byte| any | is_special(byte)));
    let start = clean.count() * RUN;
    bytes[start..].iter().position(|&byte| is_special(byte)).map(|at| start + at)
}
