//! Whole plain HTTP/1.1 requests to the two message endpoints, and whole answers to them.
//!
//! What is read here is a small part of HTTP on purpose: one request, all of it, in the plainest form that every
//! client uses. Everything else (another method or path, a body in chunks, a header that steers a proxy, a byte that
//! two parsers might read differently) is `None`, and is left to a complete HTTP implementation.

use crate::request::Protocol;

/// Longest head, bytes.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// Most headers.
const HEADERS_MAX: usize = 64;
/// Digits of a `Content-Length`.
const LENGTH_DIGITS_MAX: usize = 9;

/// Headers that need more than an answer: framing, hops, other codings, wishes to a proxy.
const NOT_PLAIN: &[&[u8]] = &[
    b"transfer-encoding",
    b"content-encoding",
    b"expect",
    b"upgrade",
    b"http2-settings",
    b"te",
    b"trailer",
    b"via",
    b"proxy-connection",
    b"proxy-authorization",
    b"bypass-zero-layer",
    b"bypass_zero_layer",
    b"cache-only",
    b"x-multi-modal",
];
/// Headers that a request has once or not at all, besides those that are looked at by themselves. aiohttp's parser
/// refuses a second one.
const SINGLE: [&[u8]; 6] =
    [b"content-location", b"content-range", b"etag", b"max-forwards", b"server", b"user-agent"];
const STEERING_PREFIX: &[u8] = b"x-zlrs-";

/// A whole plain request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainPost<'d> {
    /// Which endpoint.
    pub protocol: Protocol,
    /// `/v1/messages` or `/v1/chat/completions`.
    pub path: &'d str,
    /// The query without its `?`.
    pub query: &'d str,
    /// The value of the one `Host`.
    pub host: &'d [u8],
    /// All headers, in order, names as they were sent, values without outer blanks.
    pub headers: Vec<(&'d [u8], &'d [u8])>,
    /// The body, as long as it says.
    pub body: &'d [u8],
}

impl<'d> PlainPost<'d> {
    /// Reads `data` as exactly one whole plain request; `None` for anything else. Linear in the length of the head.
    #[must_use]
    pub fn read(data: &'d [u8]) -> Option<Self> {
        let rest = data.strip_prefix(b"POST /")?;
        let window = &data[..data.len().min(HEAD_BYTES_MAX)];
        let head_end = window.windows(4).position(|four| four == b"\r\n\r\n")?;
        let line_end = rest.iter().position(|&byte| byte == b'\r')?;
        if rest.get(line_end + 1) != Some(&b'\n') {
            return None;
        }
        let target = rest[..line_end].strip_suffix(b" HTTP/1.1")?;
        if !target.iter().all(|byte| (0x21..=0x7e).contains(byte) && *byte != b'#') {
            return None;
        }
        let start = b"POST ".len();
        let target = str::from_utf8(&data[start..=start + target.len()]).ok()?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let protocol = match path {
            "/v1/messages" => Protocol::Messages,
            "/v1/chat/completions" => Protocol::Chat,
            _ => return None,
        };
        let lines = data.get(b"POST /".len() + line_end + 2..head_end + 2)?;
        let body = &data[head_end + 4..];
        let (headers, host) = read_headers(lines, body.len())?;
        Some(Self { protocol, path, query, host, headers, body })
    }
}

type Headers<'d> = Vec<(&'d [u8], &'d [u8])>;

/// Without the blanks that may stand around a value: spaces and tabs, nothing else.
fn trim_blanks(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// Headers and the host. `lines` is every line with its end.
fn read_headers(mut lines: &[u8], body_bytes: usize) -> Option<(Headers<'_>, &[u8])> {
    let mut headers = Vec::with_capacity(16);
    let (mut host, mut length, mut kind) = (None, None, None);
    let mut seen = [false; SINGLE.len()];
    while !lines.is_empty() {
        let end = lines.iter().position(|&byte| byte == b'\r' || byte == b'\n')?;
        if lines.get(end..end + 2) != Some(b"\r\n") || headers.len() == HEADERS_MAX {
            return None;
        }
        let line = &lines[..end];
        lines = &lines[end + 2..];
        let colon = line.iter().position(|&byte| byte == b':')?;
        let (name, value) = (&line[..colon], trim_blanks(&line[colon + 1..]));
        if name.is_empty() || !name.iter().all(|&byte| is_token(byte)) {
            return None;
        }
        if !value.iter().all(|&byte| byte == b'\t' || (0x20..=0x7e).contains(&byte)) {
            return None;
        }
        if name.eq_ignore_ascii_case(b"host") {
            if host.replace(value).is_some() {
                return None;
            }
        } else if name.eq_ignore_ascii_case(b"content-length") {
            if length.replace(value).is_some() {
                return None;
            }
        } else if name.eq_ignore_ascii_case(b"content-type") {
            if kind.replace(value).is_some() {
                return None;
            }
        } else if name.eq_ignore_ascii_case(b"connection") {
            if !value.eq_ignore_ascii_case(b"keep-alive") {
                return None;
            }
        } else if let Some(single) = SINGLE.iter().position(|one| name.eq_ignore_ascii_case(one)) {
            if std::mem::replace(&mut seen[single], true) {
                return None;
            }
        } else if is_not_plain(name) {
            return None;
        }
        headers.push((name, value));
    }
    let length = length.filter(|digits| {
        (1..=LENGTH_DIGITS_MAX).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit)
    })?;
    let said: usize = str::from_utf8(length).ok()?.parse().ok()?;
    if said != body_bytes || !kind?.eq_ignore_ascii_case(b"application/json") {
        return None;
    }
    Some((headers, host?))
}

fn is_not_plain(name: &[u8]) -> bool {
    let steers =
        name.get(..STEERING_PREFIX.len()).is_some_and(|head| head.eq_ignore_ascii_case(STEERING_PREFIX));
    steers || NOT_PLAIN.iter().any(|one| name.eq_ignore_ascii_case(one))
}

/// The characters of a header's name (RFC 9110, section 5.6.2).
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

/// A whole `200 OK` with these headers, its length, its date and its body; `None` where a value has a byte that is not
/// printable ASCII.
#[must_use]
pub fn whole_answer(headers: &[(&str, &str)], date: &str, pieces: &[Vec<u8>]) -> Option<Vec<u8>> {
    let is_plain = |value: &str| value.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
    if !is_plain(date) || !headers.iter().all(|(_, value)| is_plain(value)) {
        return None;
    }
    let length: usize = pieces.iter().map(Vec::len).sum();
    let head: usize = headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    let mut sent = Vec::with_capacity(length + head + 96);
    sent.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
    let length = length.to_string();
    for (name, value) in headers.iter().copied().chain([("Content-Length", &*length), ("Date", date)]) {
        for part in [name, ": ", value, "\r\n"] {
            sent.extend_from_slice(part.as_bytes());
        }
    }
    sent.extend_from_slice(b"\r\n");
    for piece in pieces {
        sent.extend_from_slice(piece);
    }
    Some(sent)
}
