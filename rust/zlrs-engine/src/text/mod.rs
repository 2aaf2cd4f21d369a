//! From token bytes to the text a caller sees: whole characters, stop sequences never shown.

mod stop;
#[cfg(test)]
mod tests;
mod utf8;

pub use stop::{STOP_BYTES_LIMIT, STOP_LIMIT, StopError, StopMatcher};
pub use utf8::Utf8Stream;

/// The text side of one generation.
#[derive(Debug, Clone)]
pub struct TextStream {
    utf8: Utf8Stream,
    stops: StopMatcher,
    decoded: String,
}

impl TextStream {
    /// A stream that ends at any of `stops`.
    ///
    /// # Errors
    /// What [`StopMatcher::new`] reports.
    pub fn new(stops: &[String]) -> Result<Self, StopError> {
        Ok(Self { utf8: Utf8Stream::default(), stops: StopMatcher::new(stops)?, decoded: String::new() })
    }

    /// Reads the bytes of one token and appends to `out` the text that is certain. Returns the index of the
    /// stop sequence that was completed, if one was; what stands behind it is dropped.
    pub fn push(&mut self, bytes: &[u8], out: &mut String) -> Option<usize> {
        self.decoded.clear();
        self.utf8.push(bytes, &mut self.decoded);
        let stopped = self.stops.push(&self.decoded, out);
        if stopped.is_some() {
            self.utf8 = Utf8Stream::default();
        }
        stopped
    }

    /// Whether half a character or the beginning of a stop sequence is held back.
    pub fn is_holding(&self) -> bool {
        self.utf8.is_holding() || self.stops.is_holding()
    }

    /// The generation has ended otherwise: appends all text still held back. The last replacement character
    /// can complete a stop sequence too; its index is returned.
    pub fn finish(&mut self, out: &mut String) -> Option<usize> {
        self.decoded.clear();
        self.utf8.finish(&mut self.decoded);
        let stopped = self.stops.push(&self.decoded, out);
        if stopped.is_none() {
            self.stops.finish(out);
        }
        stopped
    }
}
