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
    /// What of it fits in so many tokens for certain, each of which spells at least one byte; `None` if nothing does.
    pub fn within(self, tokens: usize) -> Option<Self> {
        match self {
            Self::Copy { mut spans, written } => {
                spans.retain(|span| span.len() <= tokens);
                (!spans.is_empty()).then_some(Self::Copy { spans, written })
            }
            Self::Ban(_) => (tokens > 0).then_some(self),
        }
    }

    /// The likeliest token that is allowed, the lower id among equals; `None` when none is. O(vocabulary + spans), and
    /// O(spans) for each token that begins like one of them.
    pub fn choose(&self, logits: &[f32], vocabulary: &dyn Vocabulary) -> Option<u32> {
        let rests = Rests::of(self);
        let mut best: Option<(u32, f32)> = None;
        for (id, &logit) in (0_u32..).zip(logits) {
            if best.is_none_or(|(_, most)| logit > most) && self.allows(id, vocabulary, &rests) {
                best = Some((id, logit));
            }
        }
        best.map(|(id, _)| id)
    }

    fn allows(&self, id: u32, vocabulary: &dyn Vocabulary, rests: &Rests<'_>) -> bool {
        if let Self::Ban(banned) = self {
            return id != *banned;
        }
        let is_text = !vocabulary.is_control(id) && !vocabulary.is_end(id);
        let bytes = if is_text { vocabulary.token_bytes(id) } else { &[] };
        match bytes.first() {
            // The end of the turn or markup, or a token without text.
            None => rests.is_whole && !is_text,
            // Behind a whole span comes anything that does not make another word or number of it.
            Some(first) if rests.is_whole && !first.is_ascii_alphanumeric() => true,
            Some(&first) => {
                rests.begins[first as usize] && rests.of_spans.iter().any(|rest| rest.starts_with(bytes))
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

/// How the spans go on behind what is written.
struct Rests<'spans> {
    /// What is left of each span.
    of_spans: Vec<&'spans [u8]>,
    /// First bytes of them.
    begins: [bool; 256],
    /// Whether what is written is a span already.
    is_whole: bool,
}

impl<'spans> Rests<'spans> {
    fn of(constraint: &'spans Constraint) -> Self {
        let mut found = Self { of_spans: Vec::new(), begins: [false; 256], is_whole: false };
        if let Constraint::Copy { spans, written } = constraint {
            for rest in spans.iter().filter_map(|span| span.strip_prefix(&written[..])) {
                match rest.first() {
                    None => found.is_whole = true,
                    Some(&first) => {
                        found.begins[first as usize] = true;
                        found.of_spans.push(rest);
                    }
                }
            }
        }
        found
    }
}
