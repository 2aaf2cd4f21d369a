//! Incremental reading of an event stream, as a browser reads it, but strict about what it cannot read.

/// One dispatched event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The `event:` field; empty where there was none.
    pub name: String,
    /// The `data:` lines, joined by line feeds.
    pub data: String,
}

/// Why a stream cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// A line or an event is larger than the limit.
    #[error("an event is larger than the limit of {limit_bytes} bytes")]
    TooLarge {
        /// The limit.
        limit_bytes: usize,
    },
    /// A line is not UTF-8.
    #[error("a line of the event stream is not UTF-8")]
    InvalidUtf8,
}

/// Takes bytes cut anywhere and gives events. Lines end in CRLF, LF or CR.
#[derive(Debug)]
pub struct SseParser {
    limit_bytes: usize,
    /// The line being read.
    line: Vec<u8>,
    name: String,
    data: String,
    has_data: bool,
    /// The last byte was a CR: an LF that follows belongs to it.
    after_cr: bool,
    at_start: bool,
    failed: Option<SseError>,
}

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

impl SseParser {
    /// A parser that refuses lines and events larger than `limit_bytes`.
    #[must_use]
    pub const fn new(limit_bytes: usize) -> Self {
        SseParser {
            limit_bytes,
            line: Vec::new(),
            name: String::new(),
            data: String::new(),
            has_data: false,
            after_cr: false,
            at_start: true,
            failed: None,
        }
    }

    /// Reads more bytes and appends the events that are complete. Linear in `bytes`, however they are cut.
    ///
    /// # Errors
    /// [`SseError`]; the parser then stays failed, and events before the fault have been appended.
    pub fn push(&mut self, bytes: &[u8], events: &mut Vec<Event>) -> Result<(), SseError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let result = self.read(bytes, events);
        self.failed = result.err();
        result
    }

    /// Whether something was read that no blank line has completed. At the end of a stream it means a cut.
    #[must_use]
    pub const fn is_partial(&self) -> bool {
        !self.line.is_empty() || self.has_data || !self.name.is_empty()
    }

    fn read(&mut self, mut bytes: &[u8], events: &mut Vec<Event>) -> Result<(), SseError> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let part = &bytes[..end.unwrap_or(bytes.len())];
            if self.line.len() + part.len() + self.data.len() > self.limit_bytes {
                return Err(SseError::TooLarge { limit_bytes: self.limit_bytes });
            }
            self.line.extend_from_slice(part);
            let Some(end) = end else { break };
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            self.end_line(events)?;
        }
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<Event>) -> Result<(), SseError> {
        let bytes = std::mem::take(&mut self.line);
        let mut line: &[u8] = &bytes;
        if std::mem::take(&mut self.at_start) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        let line = std::str::from_utf8(line).map_err(|_| SseError::InvalidUtf8)?;
        if line.is_empty() {
            let name = std::mem::take(&mut self.name);
            let data = std::mem::take(&mut self.data);
            if std::mem::take(&mut self.has_data) {
                events.push(Event { name, data });
            }
        } else {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => value.clone_into(&mut self.name),
                "data" => {
                    if self.has_data {
                        self.data.push('\n');
                    }
                    self.data.push_str(value);
                    self.has_data = true;
                }
                // A comment (empty field name), `id`, `retry` and unknown fields say nothing about the answer.
                _ => {}
            }
        }
        // The buffer is kept for the next line.
        self.line = bytes;
        self.line.clear();
        Ok(())
    }
}

/// Appends one event. `data` holds no line ends (compact JSON, or `[DONE]`); an empty `name` is left out.
pub fn write_event(name: &str, data: &[u8], out: &mut Vec<u8>) {
    if !name.is_empty() {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(name.as_bytes());
        out.push(b'\n');
    }
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(data);
    out.extend_from_slice(b"\n\n");
}
