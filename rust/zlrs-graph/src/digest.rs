//! 256-bit names: scopes, nodes, entries, tenants and answers.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// A BLAKE3-256 value. What it names is said by the field that holds it.
///
/// Displayed as 64 lower-case hexadecimal digits; [`Digest::short`] gives the 16 that headers show.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads a digest from exactly 32 bytes.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The first 128 bits: what the in-memory index keeps. The full value is compared on the row.
    pub fn prefix(&self) -> [u8; 16] {
        let mut prefix = [0; 16];
        prefix.copy_from_slice(&self.0[..16]);
        prefix
    }

    /// 64 lower-case hexadecimal digits.
    pub fn to_hex(&self) -> String {
        self.hex().into_iter().map(char::from).collect()
    }

    /// The first 16 hexadecimal digits, for people and headers.
    pub fn short(&self) -> String {
        self.hex().into_iter().take(16).map(char::from).collect()
    }

    fn hex(&self) -> [u8; 64] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        text
    }

    /// Reads 64 lower-case hexadecimal digits: one text for each digest, so that a changed one is never equal.
    pub fn from_hex(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.len() != 64 || bytes.iter().any(u8::is_ascii_uppercase) {
            return None;
        }
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(bytes.chunks_exact(2)) {
            let (high, low) = (char::from(pair[0]).to_digit(16)?, char::from(pair[1]).to_digit(16)?);
            *byte = (high * 16 + low) as u8;
        }
        Some(Self(digest))
    }

    /// A keyed BLAKE3 over length-prefixed fields: no two different field lists share an input.
    pub fn keyed<'a>(key: &[u8; 32], fields: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = blake3::Hasher::new_keyed(key);
        for field in fields {
            hasher.update(&(field.len() as u64).to_le_bytes());
            hasher.update(field);
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// Plain BLAKE3 of one body of bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Audit records hold half a dozen of these: one write, not 32.
        std::str::from_utf8(&self.hex()).map_or(Err(fmt::Error), |text| formatter.write_str(text))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Digest({})", self.short())
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_hex(&text).ok_or_else(|| D::Error::custom("a digest is 64 hexadecimal digits"))
    }
}
