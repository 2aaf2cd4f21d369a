//! Whether two kept answers say the same.

use serde_json::Value;
use zlrs_graph::{Agreement, AnswerKind};
use zlrs_wire::Protocol;

/// The part of wrong answers that the comparator may take for agreeing ones: what a printed bound allows for.
pub(super) const FALSE_AGREE: f64 = 0.001;

/// What a comparison needs of a kept answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// All text of the answer.
    pub text: String,
    /// The model that gave it, by its own name.
    pub model: String,
}

impl Said {
    /// Reads a final message as the graph keeps it.
    pub fn of(protocol: Protocol, message: &[u8]) -> Self {
        let message: Value = serde_json::from_slice(message).unwrap_or_default();
        let model = message["model"].as_str().unwrap_or("").to_owned();
        let text = match protocol {
            Protocol::Messages => {
                let blocks = message["content"].as_array().map_or(&[][..], Vec::as_slice);
                blocks.iter().filter_map(|block| block["text"].as_str()).collect()
            }
            Protocol::Chat => message["choices"][0]["message"]["content"].as_str().unwrap_or("").to_owned(),
        };
        Self { text, model }
    }
}

/// Compares two answers to an ask by rules alone.
pub(super) fn agree_by_rules(ask: &str, stored: &str, fresh: &str) -> Agreement {
    match zlrs_text::agree(ask, stored, fresh).agreement {
        zlrs_text::Agreement::Agree => Agreement::Agree,
        zlrs_text::Agreement::Contradict => Agreement::Contradict,
        zlrs_text::Agreement::Undecided => Agreement::Undecided,
    }
}

/// Whether an answer is of a kind with an exact comparison.
pub(super) fn kind_of(text: &str) -> AnswerKind {
    if zlrs_text::is_closed(text) { AnswerKind::Closed } else { AnswerKind::Prose }
}
