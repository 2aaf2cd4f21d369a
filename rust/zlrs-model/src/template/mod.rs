//! Chat templates: the model file's own Jinja program, run in a sandbox.

mod functions;
mod guard;
mod literals;
mod sandbox;
#[cfg(test)]
mod tests;

use self::guard::Guard;
use self::sandbox::Sandbox;
pub use self::sandbox::{MAX_FUEL, MAX_OUTPUT_BYTES, MAX_RECURSION, MAX_SOURCE_BYTES, MAX_TIME};
use crate::ModelError;
use crate::gguf::Metadata;
use crate::tokenizer::{Segment, Tokenizer};

/// Roles that a message may have. A template may make control tokens from a role, so it is not free text.
pub const ROLES: [&str; 8] =
    ["system", "developer", "user", "assistant", "model", "tool", "function", "ipython"];

/// A turn of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// Who speaks: one of [`ROLES`].
    pub role: &'a str,
    /// What is said: any text. It never becomes a control token.
    pub content: &'a str,
}

/// How to render.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenderOptions {
    /// Whether the prompt ends where the model's answer begins.
    pub add_generation_prompt: bool,
    /// The time, in seconds since 1970 UTC, for templates that print the date.
    pub now_s: i64,
}

/// A compiled chat template.
pub struct ChatTemplate {
    sandbox: Sandbox,
    guard: Guard,
    source: String,
    bos: String,
    eos: String,
}

impl std::fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatTemplate").field("source_bytes", &self.source.len()).finish_non_exhaustive()
    }
}

impl ChatTemplate {
    /// The template of a model file.
    ///
    /// # Errors
    /// [`ModelError::NoTemplate`] if the file has none; otherwise as [`new`](Self::new).
    pub fn from_metadata(metadata: &Metadata, tokenizer: &Tokenizer) -> Result<Self, ModelError> {
        let source = metadata.optional_str("tokenizer.chat_template")?.ok_or(ModelError::NoTemplate)?;
        Self::new(source, tokenizer)
    }

    /// Compiles a template for the tokens of a tokenizer.
    ///
    /// # Errors
    /// [`ModelError::Limit`] for a source over [`MAX_SOURCE_BYTES`], [`ModelError::Template`] for one that is
    /// not valid Jinja or uses what the sandbox does not offer.
    pub fn new(source: &str, tokenizer: &Tokenizer) -> Result<Self, ModelError> {
        let sandbox = Sandbox::new(source)?;
        let guard = Guard::new(tokenizer.control_texts(), literals::string_literals(source))?;
        let token_text = |id: Option<u32>| -> Result<String, ModelError> {
            let bytes = id.map(|id| tokenizer.token_bytes(id)).transpose()?.unwrap_or_default();
            Ok(String::from_utf8_lossy(bytes).into_owned())
        };
        Ok(Self {
            sandbox,
            guard,
            source: source.to_owned(),
            bos: token_text(tokenizer.bos())?,
            eos: token_text(tokenizer.eos())?,
        })
    }

    /// The prompt of a conversation, in segments. Control segments come from the template alone, whatever the
    /// messages contain, and the messages' texts are in the text segments unchanged (as far as the template
    /// itself does not change them).
    ///
    /// # Errors
    /// [`ModelError::TemplateRaised`] with the template's own words if it refuses the conversation;
    /// [`ModelError::BadMessage`] for an unknown role; [`ModelError::Limit`] if the output would exceed
    /// [`MAX_OUTPUT_BYTES`]; [`ModelError::Template`] for anything else, such as running out of fuel.
    pub fn render(
        &self,
        messages: &[Message<'_>],
        options: RenderOptions,
    ) -> Result<Vec<Segment>, ModelError> {
        for (index, message) in messages.iter().enumerate() {
            if !ROLES.contains(&message.role) {
                let what = format!("role {:?} is not known; roles are {}", message.role, ROLES.join(", "));
                return Err(ModelError::BadMessage { index, what });
            }
        }
        let texts: Vec<&str> =
            messages.iter().map(|message| message.content).chain([self.source.as_str()]).collect();
        let mark = Guard::mark_for(&texts).ok_or_else(|| ModelError::BadMessage {
            index: 0,
            what: "the messages contain all 66 Unicode noncharacters; remove one".into(),
        })?;
        let protected: Vec<_> = messages
            .iter()
            .map(|message| (message.role, self.guard.protect(message.content, mark)))
            .collect();
        let rendered = self.sandbox.render(&protected, &self.bos, &self.eos, options)?;
        Ok(self.guard.segments(&rendered, mark))
    }
}
