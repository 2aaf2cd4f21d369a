//! The body of a canonical entry: a line about the answer, then the answer.
//!
//! No text of a request stands on the disk in the clear: the wording is encrypted under the key file's secret, with a
//! keyed BLAKE3 stream and a random nonce. The entry's signature covers it.

use serde::{Deserialize, Serialize};
use zlrs_graph::Stability;

use crate::StoreError;
use crate::random::random_bytes;

/// Version of the line.
const FORMAT: u32 = 1;
/// No ask that takes part is nearly as long.
const LINE_BYTES_MAX: usize = 64 << 10;

/// What is kept beside the answer of a canonical entry. It is signed with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Envelope {
    format: u32,
    nonce: [u8; 16],
    ask: Vec<u8>,
    /// How the answer was confirmed.
    pub stability: Stability,
    /// The model that gave it, by its own name.
    pub model: String,
}

impl Envelope {
    /// For an answer to `ask`.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn new(key: &[u8; 32], ask: &str, stability: Stability, model: String) -> Result<Self, StoreError> {
        let nonce = random_bytes()?;
        let mut ask = ask.as_bytes().to_vec();
        apply_stream(key, nonce, &mut ask);
        Ok(Self { format: FORMAT, nonce, ask, stability, model })
    }

    /// The wording that was asked when the answer came: guards look at it, and it may be asked again.
    pub fn ask(&self, key: &[u8; 32]) -> Option<String> {
        let mut ask = self.ask.clone();
        apply_stream(key, self.nonce, &mut ask);
        String::from_utf8(ask).ok()
    }

    /// Line and answer as one body.
    pub fn seal(&self, message: &[u8]) -> Vec<u8> {
        // Plain fields only: this cannot fail, and an empty line is not opened again. JSON has no raw line feeds.
        let mut body = serde_json::to_vec(self).unwrap_or_default();
        body.push(b'\n');
        body.extend_from_slice(message);
        body
    }

    /// Line and answer of a body; none where it is not one of ours or of a newer format.
    pub fn open(body: &[u8]) -> Option<(Self, &[u8])> {
        let end = body.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\n')?;
        let envelope: Self = serde_json::from_slice(&body[..end]).ok()?;
        (envelope.format == FORMAT).then_some((envelope, &body[end + 1..]))
    }
}

fn apply_stream(key: &[u8; 32], nonce: [u8; 16], text: &mut [u8]) {
    let mut stream = vec![0; text.len()];
    blake3::Hasher::new_keyed(key).update(&nonce).finalize_xof().fill(&mut stream);
    text.iter_mut().zip(stream).for_each(|(byte, mask)| *byte ^= mask);
}
