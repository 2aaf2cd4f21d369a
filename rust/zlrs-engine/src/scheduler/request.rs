//! What a caller asks for, and the limits it must keep.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::Shape;
use crate::kv::BLOCK_TOKENS;
use crate::prefix::{PartitionKey, Tenant};
use crate::ring::{TokenEvents, Validation};
use crate::sampling::Sampling;
use crate::text::StopMatcher;
use crate::{Compute, EngineError};

/// Who waits for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Priority {
    /// Somebody waits for the answer.
    #[default]
    Interactive,
    /// Runs while there is room that no interactive request wants, and makes way when one does.
    Batch,
}

/// One generation. The default is an empty prompt and no tokens, which is refused.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The prompt's tokens, at least one.
    pub ids: Vec<u32>,
    /// Most tokens to generate, at least 1; clipped to what the window leaves.
    pub max_tokens: usize,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Texts that end the generation; they are not part of the answer.
    pub stop: Vec<String>,
    /// Time from submission after which the generation ends with what it has.
    pub deadline: Option<Duration>,
    /// Who waits for whom.
    pub priority: Priority,
    /// Whose request it is.
    pub tenant: Tenant,
    /// Which events of single tokens are told.
    pub token_events: TokenEvents,
    /// What may be left out for it.
    pub compute: Compute,
    /// Whether rows must be able to leave early: the request is refused where no exit heads are installed, and fails
    /// where they flap on it, in place of going on without them.
    pub require_exits: bool,
    /// What is looked for in the answer, and corrected; nothing by default.
    pub validation: Option<Arc<Validation>>,
}

/// How many tokens a request may generate and what the last one means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Budget {
    pub tokens: usize,
    /// The window ends before `max_tokens` do.
    pub clipped: bool,
}

impl Request {
    /// Where its prefixes are shared.
    pub(super) fn partition(&self) -> PartitionKey {
        PartitionKey::of(self.tenant, self.compute)
    }

    /// Checks everything that can be known before any work.
    ///
    /// # Errors
    /// The first limit that does not hold.
    pub(super) fn check(&self, shape: Shape, state_width: Option<usize>) -> Result<Budget, EngineError> {
        if self.ids.is_empty() {
            return Err(EngineError::EmptyPrompt);
        }
        if self.max_tokens == 0 {
            return Err(EngineError::NoTokens);
        }
        let vocabulary = shape.vocabulary;
        if let Some(index) = self.ids.iter().position(|&id| id as usize >= vocabulary) {
            return Err(EngineError::UnknownToken { index, id: self.ids[index], vocabulary });
        }
        self.sampling.validate(vocabulary)?;
        StopMatcher::new(&self.stop)?;
        if let Some(head) = self.validation.as_ref().and_then(|validation| validation.head.as_ref()) {
            let (given, wanted) = (head.width(), state_width);
            let what = match wanted {
                None => "this device gives no states of the model out".to_owned(),
                Some(wanted) if wanted != given => {
                    format!("it reads states of {given} values, the model's have {wanted}")
                }
                Some(_) => String::new(),
            };
            if !what.is_empty() {
                return Err(EngineError::Head { what });
            }
        }
        let tokens = self.ids.len();
        // One position at least must remain for the answer.
        let maximum = shape.context_tokens.saturating_sub(1);
        if tokens > maximum {
            return Err(EngineError::PromptTooLong { tokens, maximum });
        }
        let room = shape.context_tokens - tokens;
        let budget = Budget { tokens: self.max_tokens.min(room), clipped: self.max_tokens > room };
        let capacity = shape.blocks * BLOCK_TOKENS;
        if tokens + budget.tokens > capacity {
            return Err(EngineError::ContextOverflow {
                tokens,
                max_tokens: budget.tokens,
                capacity,
                kv_bytes: shape.blocks * shape.block_bytes,
            });
        }
        Ok(budget)
    }
}
