//! A loaded model: file, tokenizer, chat template, and the scheduler that runs it.

mod facts;
mod identity;
mod kv_choice;
mod load;

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use zlrs_model::gguf::File;
use zlrs_model::template::{ChatTemplate, Message, RenderOptions};
use zlrs_model::tokenizer::{Segment, Tokenizer};

pub(crate) use facts::parts;
pub use facts::{Facts, LayerParts, MaskUse};
pub use identity::mask_sum;
pub(crate) use identity::sha256_of;
pub use kv_choice::{Hardware, KvChoice};
pub use load::{DEFAULT_KV_BYTES_LIMIT, DRAFT_VOCABULARY, DeviceChoice, LoadOptions};

use crate::backend::Shape;
use crate::governor::Governor;
use crate::prefix::{Pin, Tenant};
use crate::scheduler::Scheduler;
use crate::session::{Identity, Restored, Saved, State, StateKey, restore, save};
use crate::{Compute, EngineError, Generation, Request, Statistics};

/// A loaded model. All methods may be called from any thread; templates and tokens are made on the caller's.
#[derive(Debug)]
pub struct Engine {
    scheduler: Scheduler,
    tokenizer: Arc<Tokenizer>,
    /// `Err`: why the file's template cannot be used; the model itself can.
    template: Option<Result<ChatTemplate, String>>,
    facts: Facts,
    governor: Option<Governor>,
    file: File,
    /// Sum of the mask in use.
    mask: Option<[u8; 32]>,
    identity: OnceLock<Identity>,
}

impl Engine {
    /// Facts of the loaded model.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// SHA-256 of the model file in lower-case hex. The first call reads the file once.
    ///
    /// # Errors
    /// [`EngineError::Model`] if the file cannot be read any more, or has changed.
    pub fn file_sha256(&self) -> Result<&str, EngineError> {
        Ok(self.file.sha256()?)
    }

    /// Sum of the mask in use, if one is: it and the file's sum tell which model answers.
    pub fn mask_sum(&self) -> Option<[u8; 32]> {
        self.mask
    }

    /// Whether the model file has a chat template that can be used.
    pub fn has_chat_template(&self) -> bool {
        matches!(self.template, Some(Ok(_)))
    }

    /// Sizes of the backend.
    pub fn shape(&self) -> Shape {
        self.scheduler.shape()
    }

    /// The model's tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Tokens of a plain prompt; begins with BOS where the model asks for one.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        self.tokenizer.encode_prompt(&[Segment::text(text)])
    }

    /// The bytes that tokens stand for, control tokens by their own spelling.
    ///
    /// # Errors
    /// [`EngineError::Model`] for an id that the tokenizer does not have.
    pub fn decode(&self, ids: &[u32]) -> Result<Vec<u8>, EngineError> {
        let mut bytes = Vec::new();
        for &id in ids {
            bytes.extend_from_slice(self.tokenizer.token_bytes(id)?);
        }
        Ok(bytes)
    }

    /// Tokens of a conversation in the model's chat template, which is told the current time. What is in the
    /// messages never becomes control tokens.
    ///
    /// # Errors
    /// [`EngineError::NoTemplate`], [`EngineError::BadTemplate`], and [`EngineError::Model`] when the template
    /// refuses the messages.
    pub fn render(
        &self,
        messages: &[Message<'_>],
        add_generation_prompt: bool,
    ) -> Result<Vec<u32>, EngineError> {
        let template = match &self.template {
            None => return Err(EngineError::NoTemplate),
            Some(Err(message)) => return Err(EngineError::BadTemplate { message: message.clone() }),
            Some(Ok(template)) => template,
        };
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs() as i64);
        let segments = template.render(messages, RenderOptions { add_generation_prompt, now_s })?;
        Ok(self.tokenizer.encode_prompt(&segments))
    }

    /// Queues a generation; see [`Scheduler::submit`].
    ///
    /// # Errors
    /// Those of [`Scheduler::submit`].
    pub fn submit(&self, request: Request) -> Result<Generation, EngineError> {
        self.scheduler.submit(request)
    }

    /// Keeps what requests of that kind have computed of a tenant's tokens until the pin is dropped; see [`Scheduler::pin`].
    ///
    /// # Errors
    /// [`EngineError::Forked`].
    pub fn pin(&self, tenant: Tenant, compute: Compute, ids: &[u32]) -> Result<Pin, EngineError> {
        self.scheduler.pin(tenant, compute, ids)
    }

    /// What a request that asks for `compute` gets: exact, where nothing is installed that could be left out.
    pub fn effective(&self, compute: Compute) -> Compute {
        self.scheduler.effective(compute)
    }

    /// Writes what is computed of some tokens to a file, as far as `limit_bytes` of file hold it. The file is
    /// there complete or not at all, and only its owner can read it. O(bytes).
    ///
    /// # Errors
    /// [`EngineError::StateTooLarge`] when tokens and note alone are over the limit, [`EngineError::StateFile`],
    /// [`EngineError::Closed`], [`EngineError::Forked`].
    pub fn save_state(
        &self,
        path: &Path,
        key: &StateKey,
        state: State<'_>,
        limit_bytes: u64,
    ) -> Result<Saved, EngineError> {
        save(&self.scheduler, self.identity()?, path, key, state, limit_bytes)
    }

    /// Takes a saved state back: its keys and values too where the model file and the arithmetic are the same
    /// and memory is free. O(bytes).
    ///
    /// # Errors
    /// [`EngineError::StateMissing`]; [`EngineError::StateCorrupt`] for a file that is not, bit for bit, what was
    /// saved with this key; [`EngineError::StateUnusable`] for one of another key or version, or over
    /// `limit_bytes`; [`EngineError::StateForbidden`] for another tenant's; [`EngineError::StateFile`],
    /// [`EngineError::Closed`], [`EngineError::Forked`].
    pub fn restore_state(
        &self,
        path: &Path,
        key: &StateKey,
        tenant: Tenant,
        limit_bytes: u64,
    ) -> Result<Restored, EngineError> {
        restore(&self.scheduler, self.identity()?, path, key, tenant, limit_bytes)
    }

    fn identity(&self) -> Result<Identity, EngineError> {
        if let Some(&identity) = self.identity.get() {
            return Ok(identity);
        }
        let identity = Identity::of(&self.file, self.mask.as_ref(), self.shape().block_bytes)?;
        Ok(*self.identity.get_or_init(|| identity))
    }

    /// Counts so far.
    ///
    /// # Errors
    /// [`EngineError::Forked`].
    pub fn statistics(&self) -> Result<Statistics, EngineError> {
        self.scheduler.statistics()
    }

    /// Ends the engine thread and frees weights and KV memory; see [`Scheduler::close`].
    pub fn close(&self) {
        self.scheduler.close();
    }
}
