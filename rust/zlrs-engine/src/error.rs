//! Everything that can go wrong in this crate, in one enum.

use std::path::PathBuf;

use zlrs_kernels::KernelError;
use zlrs_model::ModelError;

use crate::exit::{CHANGES_LIMIT, CHANGES_WINDOW, ExitError};
use crate::kv::ArenaError;
use crate::sampling::SamplingError;
use crate::text::StopError;

/// Why a load, a request or a call was refused or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The model file is missing, damaged or of a kind that is not supported.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The thread pool or the instruction set could not be set up.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// An option of the load is out of range.
    #[error("{name} is {given}; allowed: {allowed}")]
    Option {
        /// The option.
        name: &'static str,
        /// The value given.
        given: usize,
        /// Its range, and what to do.
        allowed: String,
    },
    /// The accelerator that was asked for cannot be used.
    #[error("{name} cannot be used: {message}; load with device = \"auto\" or \"cpu\"")]
    Device {
        /// What it is called.
        name: String,
        /// Why not.
        message: String,
    },
    /// The model does not fit the accelerator's memory.
    #[error("{name} does not hold the model: {message}")]
    DeviceFull {
        /// What it is called.
        name: String,
        /// What did not fit.
        message: String,
    },
    /// The KV memory cannot be made, or has no free block.
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// A sampling parameter is wrong, or the model's logits are not finite.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// The re-scoring head does not fit the model or the device.
    #[error("the validation head cannot be used: {what}")]
    Head {
        /// Why not.
        what: String,
    },
    /// A stop sequence is wrong.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// A saved state failed its checks.
    #[error(
        "the saved state {path} {what}; remove it and send the whole conversation, which computes it again"
    )]
    StateCorrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A saved state that cannot be checked here, or is longer than allowed. It may be good.
    #[error(
        "the saved state {path} {what}; it is left as it is, send the whole conversation in a new session"
    )]
    StateUnusable {
        /// The file.
        path: PathBuf,
        /// Why not.
        what: String,
    },
    /// There is no saved state of that name.
    #[error("there is no saved state {path}; send the whole conversation, which computes it again")]
    StateMissing {
        /// The file.
        path: PathBuf,
    },
    /// A saved state belongs to another tenant.
    #[error("the saved state {path} belongs to another tenant; ask with the credential that made it")]
    StateForbidden {
        /// The file.
        path: PathBuf,
    },
    /// A saved state would be larger than allowed, its tokens and note alone.
    #[error(
        "the saved state would need {bytes} bytes, the limit is {limit_bytes}; raise the limit or let the session go"
    )]
    StateTooLarge {
        /// Bytes without keys and values.
        bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// The system did not write or read a file.
    #[error("{what} {path} failed: {source}")]
    StateFile {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A prompt of no tokens.
    #[error("the prompt is empty; give at least one token")]
    EmptyPrompt,
    /// `max_tokens` is 0.
    #[error("max_tokens is 0; ask for at least 1")]
    NoTokens,
    /// A prompt token the model does not have.
    #[error("prompt token {index} is {id}, but the model has tokens 0 to {}", vocabulary - 1)]
    UnknownToken {
        /// Its index in the prompt.
        index: usize,
        /// The id given.
        id: u32,
        /// Number of tokens the model has.
        vocabulary: usize,
    },
    /// The prompt leaves no room in the window for one token of answer.
    #[error("prompt is too long: {tokens} tokens > {maximum} maximum")]
    PromptTooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Most tokens a prompt may have.
        maximum: usize,
    },
    /// The window would allow the request, the KV memory does not.
    #[error(
        "{tokens} prompt tokens and {max_tokens} tokens of answer need more than the {capacity} tokens that {kv_bytes} bytes of KV memory hold; lower max_tokens, shorten the prompt or load with a larger kv_bytes"
    )]
    ContextOverflow {
        /// Tokens of the prompt.
        tokens: usize,
        /// Tokens of answer that were asked for, clipped to the window.
        max_tokens: usize,
        /// Tokens the KV memory holds.
        capacity: usize,
        /// Its bytes.
        kv_bytes: usize,
    },
    /// As many requests wait as are allowed to.
    #[error("{limit} requests are waiting, which is the limit; try again later")]
    QueueFull {
        /// The limit.
        limit: usize,
    },
    /// Exits were required and cannot be had.
    #[error(
        "exits were required, compute is {compute} and exit heads are {}; load exit heads and ask for aggressive compute, or do not require exits",
        if *installed { "installed" } else { "not installed" }
    )]
    NoExits {
        /// What was asked for.
        compute: &'static str,
        /// Whether heads are installed.
        installed: bool,
    },
    /// Exits were required and flap.
    #[error(
        "exits were required and flap on this input: after {tokens} tokens rows changed between leaving and staying more than {CHANGES_LIMIT} times in {CHANGES_WINDOW}; ask again without requiring exits"
    )]
    ExitInstability {
        /// Tokens computed until then.
        tokens: usize,
    },
    /// Exit heads cannot be used.
    #[error(transparent)]
    Exit(#[from] ExitError),
    /// The model file has no chat template.
    #[error("the model has no chat template; tokenize the prompt with encode instead")]
    NoTemplate,
    /// The model file has a chat template that cannot be used.
    #[error("the model's chat template cannot be used ({message}); tokenize the prompt with encode instead")]
    BadTemplate {
        /// Why.
        message: String,
    },
    /// The engine was closed.
    #[error("the engine is closed; load it again")]
    Closed,
    /// The process was forked after the load; the child has none of the engine's threads.
    #[error(
        "the engine belongs to process {owner}, this is process {current}: load it after forking, or start workers by spawn"
    )]
    Forked {
        /// The process that loaded the engine.
        owner: u32,
        /// The process that called.
        current: u32,
    },
    /// The backend could not compute a step.
    #[error("a step of the model failed: {message}")]
    Step {
        /// What the backend reported.
        message: String,
    },
    /// The device's memory does not hold what a step needs.
    #[error("a step of the model was too large: {message}")]
    StepFull {
        /// What the backend reported.
        message: String,
    },
    /// A step panicked. The request is lost, the engine goes on.
    #[error(
        "a step of the model failed unexpectedly ({message}); the engine has been reset, later requests work"
    )]
    Panicked {
        /// The panic's message.
        message: String,
    },
    /// The operating system refused a file descriptor or a thread.
    #[error("{what} failed: {source}")]
    System {
        /// What was asked of the system.
        what: &'static str,
        /// Its answer.
        source: std::io::Error,
    },
}

impl EngineError {
    /// The name of the error in the catalogue of the wire.
    pub fn catalogue_type(&self) -> &'static str {
        match self {
            Self::Model(error) => model_type(error),
            Self::Kernel(_)
            | Self::Option { .. }
            | Self::Device { .. }
            | Self::Arena(ArenaError::TooSmall { .. }) => "configuration_error",
            Self::Stop(_)
            | Self::Head { .. }
            | Self::EmptyPrompt
            | Self::NoTokens
            | Self::UnknownToken { .. }
            | Self::PromptTooLong { .. }
            | Self::NoTemplate
            | Self::BadTemplate { .. }
            | Self::Sampling(SamplingError::Parameter { .. } | SamplingError::UnknownToken { .. }) => {
                "invalid_request_error"
            }
            Self::DeviceFull { .. }
            | Self::StepFull { .. }
            | Self::ContextOverflow { .. }
            | Self::Arena(_)
            | Self::StateTooLarge { .. } => "context_overflow",
            Self::StateCorrupt { .. } => "kv_corrupt",
            Self::StateUnusable { .. } => "kv_incompatible",
            Self::StateMissing { .. } => "session_expired",
            Self::StateForbidden { .. } => "session_forbidden",
            Self::NoExits { .. } => "compute_profile_mismatch",
            Self::ExitInstability { .. } => "exit_head_instability",
            Self::Exit(ExitError::Mismatch { .. }) => "zero_layer_mismatch",
            Self::Exit(_) => "configuration_error",
            Self::QueueFull { .. } => "overloaded_error",
            Self::Closed | Self::Forked { .. } => "engine_closed",
            Self::Step { .. } | Self::Panicked { .. } | Self::Sampling(SamplingError::NotFinite { .. }) => {
                "engine_failed"
            }
            Self::Sampling(_) | Self::System { .. } | Self::StateFile { .. } => "api_error",
        }
    }
}

fn model_type(error: &ModelError) -> &'static str {
    match error {
        ModelError::InFile { source, .. } => model_type(source),
        ModelError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => "model_not_found",
        ModelError::UnsupportedVersion { .. }
        | ModelError::Unsupported { .. }
        | ModelError::UnknownArchitecture { .. }
        | ModelError::UnsupportedTensorType { .. }
        | ModelError::UnsupportedTokenizer { .. }
        | ModelError::ByteSwapped
        | ModelError::Split { .. } => "model_unsupported",
        ModelError::MaskMismatch { .. } => "zero_layer_mismatch",
        ModelError::BadMask { .. } | ModelError::BadNeurons { .. } => "configuration_error",
        // These come from a request's messages, not from the file.
        ModelError::NoTemplate | ModelError::TemplateRaised { .. } | ModelError::BadMessage { .. } => {
            "invalid_request_error"
        }
        _ => "model_invalid",
    }
}
