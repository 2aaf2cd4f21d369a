//! A forward reader of little-endian values that never reads or reserves what the file cannot hold.

use super::limits::MAX_HEADER_BYTES;
use super::read_at::ReadAt;
use crate::ModelError;

/// Bytes fetched at a time.
const BUFFER_BYTES: u64 = 64 << 10;

pub(super) struct Cursor<'a> {
    input: &'a dyn ReadAt,
    file_bytes: u64,
    position: u64,
    /// Bytes of the file from `buffer_start` on.
    buffer: Vec<u8>,
    buffer_start: u64,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(input: &'a dyn ReadAt) -> Result<Self, ModelError> {
        let file_bytes =
            input.len().map_err(|source| ModelError::Io { action: "read the length", source })?;
        Ok(Self { input, file_bytes, position: 0, buffer: Vec::new(), buffer_start: 0 })
    }

    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// How many elements to reserve for: the announced count, but never more than the rest of the file could
    /// hold at `element_bytes` each.
    pub(super) fn plausible(&self, count: u64, element_bytes: u64) -> usize {
        let rest = self.file_bytes.saturating_sub(self.position).min(MAX_HEADER_BYTES);
        usize::try_from(count.min(rest / element_bytes.max(1))).unwrap_or(0)
    }

    /// Fails unless `needed` more bytes exist and stay within the limit of the header.
    pub(super) fn require(&self, needed: u64, what: &dyn Fn() -> String) -> Result<(), ModelError> {
        let end = self.position.checked_add(needed).filter(|&end| end <= self.file_bytes);
        match end {
            None => Err(ModelError::Truncated {
                what: what(),
                offset: self.position,
                needed,
                file_bytes: self.file_bytes,
            }),
            Some(end) if end > MAX_HEADER_BYTES => {
                Err(ModelError::limit("the length of the header in bytes", end, MAX_HEADER_BYTES))
            }
            Some(_) => Ok(()),
        }
    }

    /// The next `N` bytes.
    pub(super) fn bytes<const N: usize>(&mut self, what: &dyn Fn() -> String) -> Result<[u8; N], ModelError> {
        let mut out = [0; N];
        self.fill(&mut out, what)?;
        Ok(out)
    }

    pub(super) fn u32(&mut self, what: &dyn Fn() -> String) -> Result<u32, ModelError> {
        self.bytes(what).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: &dyn Fn() -> String) -> Result<u64, ModelError> {
        self.bytes(what).map(u64::from_le_bytes)
    }

    /// Appends a length-prefixed UTF-8 string of at most `limit` bytes to `out`.
    pub(super) fn string_into(
        &mut self,
        out: &mut String,
        limit: u64,
        what: &dyn Fn() -> String,
    ) -> Result<(), ModelError> {
        let length = self.u64(&|| format!("the length of {}", what()))?;
        if length > limit {
            return Err(ModelError::limit(format!("the length of {} in bytes", what()), length, limit));
        }
        self.require(length, what)?;
        let offset = self.position;
        let not_utf8 = |_| ModelError::malformed(format!("{} at offset {offset} is not valid UTF-8", what()));
        if length <= BUFFER_BYTES {
            let window = self.window(length, what)?;
            out.push_str(std::str::from_utf8(window).map_err(not_utf8)?);
            self.position += length;
        } else {
            let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
            self.fill(&mut bytes, what)?;
            out.push_str(std::str::from_utf8(&bytes).map_err(not_utf8)?);
        }
        Ok(())
    }

    /// A length-prefixed UTF-8 string of at most `limit` bytes.
    pub(super) fn string(&mut self, limit: u64, what: &dyn Fn() -> String) -> Result<String, ModelError> {
        let mut out = String::new();
        self.string_into(&mut out, limit, what)?;
        Ok(out)
    }

    /// Fills `out` with the next bytes.
    pub(super) fn fill(&mut self, out: &mut [u8], what: &dyn Fn() -> String) -> Result<(), ModelError> {
        let length = out.len() as u64;
        self.require(length, what)?;
        if length <= BUFFER_BYTES {
            out.copy_from_slice(self.window(length, what)?);
        } else {
            self.input.read_exact_at(out, self.position).map_err(|error| self.read_error(error, what))?;
        }
        self.position += length;
        Ok(())
    }

    /// The next `length` (at most [`BUFFER_BYTES`]) bytes, not consumed; the caller has called `require`.
    fn window(&mut self, length: u64, what: &dyn Fn() -> String) -> Result<&[u8], ModelError> {
        let buffered_end = self.buffer_start + self.buffer.len() as u64;
        if self.position < self.buffer_start || self.position + length > buffered_end {
            let wanted = BUFFER_BYTES.min(self.file_bytes - self.position);
            self.buffer.resize(usize::try_from(wanted).unwrap_or(0), 0);
            self.buffer_start = self.position;
            let mut buffer = std::mem::take(&mut self.buffer);
            let read = self.input.read_exact_at(&mut buffer, self.position);
            self.buffer = buffer;
            if let Err(error) = read {
                self.buffer.clear();
                return Err(self.read_error(error, what));
            }
        }
        let start = usize::try_from(self.position - self.buffer_start).unwrap_or(usize::MAX);
        let end = start.saturating_add(usize::try_from(length).unwrap_or(usize::MAX));
        self.buffer.get(start..end).ok_or_else(|| ModelError::malformed(format!("{} cannot be read", what())))
    }

    fn read_error(&self, error: std::io::Error, what: &dyn Fn() -> String) -> ModelError {
        if error.kind() == std::io::ErrorKind::UnexpectedEof {
            return ModelError::Changed {
                what: format!(
                    "{} at offset {} is gone, the file had {} bytes",
                    what(),
                    self.position,
                    self.file_bytes
                ),
            };
        }
        ModelError::Io { action: "read the header", source: error }
    }
}
