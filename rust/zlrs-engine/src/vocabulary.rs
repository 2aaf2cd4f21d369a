//! What the engine needs to know of a tokenizer while it generates.

use zlrs_model::tokenizer::Tokenizer;

/// Tokens as the engine sees them.
pub trait Vocabulary: Send + Sync {
    /// The bytes a token stands for; empty for ids the tokenizer does not know.
    fn token_bytes(&self, id: u32) -> &[u8];
    /// Whether the token ends the model's turn.
    fn is_end(&self, id: u32) -> bool;
    /// Whether the token is markup of the model's own, never part of an answer's text.
    fn is_control(&self, id: u32) -> bool;
}

impl Vocabulary for Tokenizer {
    fn token_bytes(&self, id: u32) -> &[u8] {
        // Logits may have more rows than the tokenizer has tokens.
        Tokenizer::token_bytes(self, id).unwrap_or(&[])
    }

    fn is_end(&self, id: u32) -> bool {
        Tokenizer::is_end(self, id)
    }

    fn is_control(&self, id: u32) -> bool {
        Tokenizer::is_control(self, id)
    }
}
