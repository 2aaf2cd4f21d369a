//! Bytes of tokens to text, without ever splitting a character.

/// Decodes UTF-8 that arrives in pieces. Joined outputs equal [`String::from_utf8_lossy`] of the joined input.
///
/// A token of a byte-level vocabulary may end inside a character; those bytes (three at most) wait for the next
/// token. Bytes that no continuation can make valid become U+FFFD as soon as that is certain.
#[derive(Debug, Clone, Default)]
pub struct Utf8Stream {
    pending: Vec<u8>,
}

impl Utf8Stream {
    /// Appends to `text` what `bytes` completes.
    pub fn push(&mut self, bytes: &[u8], text: &mut String) {
        self.pending.extend_from_slice(bytes);
        let mut done = 0;
        loop {
            match std::str::from_utf8(&self.pending[done..]) {
                Ok(valid) => {
                    text.push_str(valid);
                    done = self.pending.len();
                    break;
                }
                Err(error) => {
                    let (valid, _) = self.pending[done..].split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    done += error.valid_up_to();
                    // No length: the input ends inside a character that may still become valid.
                    let Some(invalid) = error.error_len() else { break };
                    text.push(char::REPLACEMENT_CHARACTER);
                    done += invalid;
                }
            }
        }
        self.pending.drain(..done);
    }

    /// Whether the input ends inside a character.
    pub fn is_holding(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The sequence has ended: an unfinished character becomes U+FFFD.
    pub fn finish(&mut self, text: &mut String) {
        if !self.pending.is_empty() {
            text.push_str(&String::from_utf8_lossy(&self.pending));
            self.pending.clear();
        }
    }
}
