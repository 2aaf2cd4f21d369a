//! Decoding again, bound to what the source says.

use crate::vocabulary::Vocabulary;

/// What the next tokens may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Constraint {
    /// They spell one of these.
    Copy {
        /// What may be written, as bytes.
        spans: Vec<Vec<u8>>,
        /// What has been written of it.
        written: Vec<u8>,
    },
    /// The first is not this one.
    Ban(u32),
}

impl Constraint {
    /// The likeliest token that is allowed, the lower id among equals; `None` when none is. O(vocabulary × spans).
    pub fn choose(&self, logits: &[f32], vocabulary: &dyn Vocabulary) -> Option<u32> {
        let mut best: Option<(u32, f32)> = None;
        for (id, &logit) in (0_u32..).zip(logits) {
            if best.is_none_or(|(_, most)| logit > most) && self.allows(id, vocabulary) {
                best = Some((id, logit));
            }
        }
        best.map(|(id, _)| id)
    }

    fn allows(&self, id: u32, vocabulary: &dyn Vocabulary) -> bool {
        match self {
            Self::Ban(banned) => id != *banned,
            Self::Copy { spans, written } => {
                let is_text = !vocabulary.is_control(id) && !vocabulary.is_end(id);
                let bytes = if is_text { vocabulary.token_bytes(id) } else { &[] };
                let rests = spans.iter().filter_map(|span| span.strip_prefix(&written[..]));
                let is_whole = spans.contains(written);
                // Behind a whole span comes anything that does not make another word or number of it.
                (is_whole
                    && !bytes.first().is_some_and(u8::is_ascii_alphanumeric)
                    && (!is_text || !bytes.is_empty()))
                    || (!bytes.is_empty() && rests.into_iter().any(|rest| rest.starts_with(bytes)))
            }
        }
    }

    /// A token was taken; whether the constraint holds on.
    pub fn advance(&mut self, bytes: &[u8]) -> bool {
        match self {
            Self::Ban(_) => false,
            Self::Copy { spans, written } => {
                written.extend_from_slice(bytes);
                !bytes.is_empty() && spans.iter().any(|span| span.starts_with(written))
            }
        }
    }
}
