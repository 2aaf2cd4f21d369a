//! The error catalogue: one table of every error type a caller can meet.
//!
//! The table makes [`ErrorKind`], the bodies of both protocols, `zlrs._core.error_catalogue()` and the reference
//! page; a test holds the Python exception classes to it.

macro_rules! catalogue {
    ($($variant:ident {
        name: $name:literal,
        status: $status:literal,
        python: $python:literal,
        code: $code:expr,
        when: $when:literal,
        suggestion: $suggestion:literal,
    })+) => {
        /// A type of error.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorKind {
            $(#[doc = $when] $variant,)+
        }

        impl ErrorKind {
            /// Every type, in the order of the reference page.
            pub const ALL: &'static [ErrorKind] = &[$(ErrorKind::$variant,)+];

            /// What is known about the type.
            #[must_use]
            pub const fn entry(self) -> &'static ErrorType {
                match self {
                    $(ErrorKind::$variant => &ErrorType {
                        name: $name,
                        status: $status,
                        python: $python,
                        code: $code,
                        when: $when,
                        suggestion: $suggestion,
                    },)+
                }
            }
        }
    };
}

/// One row of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorType {
    /// `error.type` on the wire and `.type` in Python.
    pub name: &'static str,
    /// The HTTP status; 0 for what is raised before there is a server and never sent.
    pub status: u16,
    /// The exception class in `zlrs.errors`.
    pub python: &'static str,
    /// `error.code`: a historical code, or the code that Chat clients know.
    pub code: Option<Code>,
    /// When it is raised, one line.
    pub when: &'static str,
    /// What to do, one sentence; the default of `suggestion`.
    pub suggestion: &'static str,
}

/// A fixed code of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Sent in both protocols.
    Historical(&'static str),
    /// Sent in the Chat protocol only.
    Chat(&'static str),
}

use Code::{Chat, Historical};

catalogue! {
    InvalidRequest {
        name: "invalid_request_error", status: 400, python: "InvalidRequestError", code: None,
        when: "the request is malformed, or a value is not allowed",
        suggestion: "Correct the field that the message names.",
    }
    Authentication {
        name: "authentication_error", status: 401, python: "AuthenticationError",
        code: Some(Chat("invalid_api_key")),
        when: "there is no credential, or it is not valid",
        suggestion: "Send a valid key in x-api-key or as a bearer token.",
    }
    Billing {
        name: "billing_error", status: 402, python: "BillingError", code: Some(Chat("billing_error")),
        when: "the account cannot pay for the request",
        suggestion: "Check the account at the upstream.",
    }
    Permission {
        name: "permission_error", status: 403, python: "PermissionDeniedError", code: None,
        when: "the credential is valid and does not allow this",
        suggestion: "Use a credential that may do this, or ask the operator.",
    }
    NotFound {
        name: "not_found_error", status: 404, python: "NotFoundError", code: None,
        when: "there is no such path, model or object",
        suggestion: "Check the path and the name; GET /v1/models lists the models.",
    }
    Conflict {
        name: "conflict_error", status: 409, python: "ConflictError", code: None,
        when: "the object is in a state that does not allow this",
        suggestion: "Read the object again and repeat the request.",
    }
    RequestTooLarge {
        name: "request_too_large", status: 413, python: "RequestTooLargeError", code: None,
        when: "the body is larger than the limit",
        suggestion: "Send less, or raise the limit in zlrs.toml.",
    }
    RateLimit {
        name: "rate_limit_error", status: 429, python: "RateLimitError", code: Some(Chat("rate_limit_exceeded")),
        when: "too many requests wait or ran in the last period",
        suggestion: "Wait as long as retry-after says and try again.",
    }
    Api {
        name: "api_error", status: 500, python: "APIError", code: Some(Chat("server_error")),
        when: "something failed inside the server",
        suggestion: "Try again; report it with the request id if it stays.",
    }
    UpstreamUnreachable {
        name: "upstream_unreachable", status: 502, python: "UpstreamUnreachableError",
        code: Some(Chat("upstream_unreachable")),
        when: "the upstream cannot be reached, or what it sent is not HTTP",
        suggestion: "Check that the upstream runs and that its address in zlrs.toml is right.",
    }
    Timeout {
        name: "timeout_error", status: 504, python: "TimeoutError", code: Some(Chat("timeout")),
        when: "the answer did not come before its deadline",
        suggestion: "Try again, ask for less, or stream the answer.",
    }
    Overloaded {
        name: "overloaded_error", status: 529, python: "OverloadedError", code: Some(Chat("overloaded")),
        when: "the queue is full",
        suggestion: "Wait as long as retry-after says and try again.",
    }
    ContextOverflow {
        name: "context_overflow", status: 400, python: "ContextOverflowError", code: None,
        when: "the model's window would hold the prompt but this machine's KV memory does not",
        suggestion: "Remove what the message names, or give the engine more kv_bytes.",
    }
    ComputeProfileMismatch {
        name: "compute_profile_mismatch", status: 400, python: "ComputeProfileMismatchError", code: None,
        when: "headers contradict each other, or do not fit the session or the hardware",
        suggestion: "Send the headers that the session's first request had, or open a new session.",
    }
    ExitHeadInstability {
        name: "exit_head_instability", status: 400, python: "ExitHeadInstabilityError", code: None,
        when: "early exits were required and are not stable on this input",
        suggestion: "Send the request with X-ZLRS-Compute: exact.",
    }
    ZeroLayerMismatch {
        name: "zero_layer_mismatch", status: 0, python: "ZeroLayerMismatchError",
        code: Some(Historical("ERR_ZERO_LAYER_MISMATCH")),
        when: "a zero-layer mask and the weights differ, so the load stops",
        suggestion: "Make the mask again for this file, or set zero_layer.fallback = true.",
    }
    KvIncompatible {
        name: "kv_incompatible", status: 400, python: "KvIncompatibleError",
        code: Some(Historical("ERR_KV_INCOMPATIBLE_0x1A")),
        when: "a session's state cannot be moved to the model asked for",
        suggestion: "Name a model with the same weights or the same tokenizer.",
    }
    KvCorrupt {
        name: "kv_corrupt", status: 409, python: "KvCorruptError", code: Some(Historical("ERR_KV_CORRUPT_0x7F")),
        when: "a session's saved state failed its checks",
        suggestion: "Send the whole conversation again; the state is computed anew.",
    }
    SessionExpired {
        name: "session_expired", status: 404, python: "SessionExpiredError", code: None,
        when: "the session is over or was never there",
        suggestion: "Open a new session with X-ZLRS-Session: create.",
    }
    SessionForbidden {
        name: "session_forbidden", status: 403, python: "SessionForbiddenError", code: None,
        when: "the session belongs to another credential",
        suggestion: "Use the credential that opened the session.",
    }
    CacheOnlyMiss {
        name: "cache_only_miss", status: 504, python: "CacheOnlyMissError", code: None,
        when: "X-ZLRS-Cache-Only was set and the graph has no answer",
        suggestion: "Try again later, or without X-ZLRS-Cache-Only.",
    }
    ModelNotFound {
        name: "model_not_found", status: 404, python: "ModelNotFoundError", code: Some(Chat("model_not_found")),
        when: "the model is neither loaded nor known by that name",
        suggestion: "Use one of the names in the message, a path or a URL.",
    }
    ModelInvalid {
        name: "model_invalid", status: 0, python: "ModelInvalidError", code: None,
        when: "the model's file is damaged or not a model",
        suggestion: "Run zlrs models verify, then pull the model again.",
    }
    ModelUnsupported {
        name: "model_unsupported", status: 0, python: "ModelUnsupportedError", code: None,
        when: "the model's file is well formed and of a kind that is not supported",
        suggestion: "Use a model of a supported architecture and quantisation.",
    }
    ModelDownload {
        name: "model_download_error", status: 0, python: "ModelDownloadError", code: None,
        when: "no source of the model could be read, or what came has the wrong sum",
        suggestion: "Check the network and try again; what was downloaded is kept.",
    }
    Configuration {
        name: "configuration_error", status: 0, python: "ConfigurationError", code: None,
        when: "zlrs.toml, an option or an environment variable holds what is not allowed",
        suggestion: "Correct the setting that the message names.",
    }
    EngineFailed {
        name: "engine_failed", status: 500, python: "EngineFailedError", code: Some(Chat("server_error")),
        when: "a step of the engine failed: a worker panicked, or a logit is not finite",
        suggestion: "Try again; verify the model's file if it stays.",
    }
    EngineClosed {
        name: "engine_closed", status: 503, python: "EngineClosedError", code: Some(Chat("server_error")),
        when: "the engine is closed, or is used in a process forked after it was loaded",
        suggestion: "Load an engine in the process that uses it.",
    }
}

impl ErrorKind {
    /// The name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// The HTTP status, 0 for what is never sent.
    #[must_use]
    pub const fn status(self) -> u16 {
        self.entry().status
    }

    /// The type called `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<ErrorKind> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

/// The reference page of the catalogue, in Markdown.
#[must_use]
pub fn reference_page() -> String {
    use std::fmt::Write as _;

    let mut page = String::from(
        "# Errors\n\n\
         Every error has a `type` from this table. Over HTTP it is `error.type`, in the body that the endpoint's \
         protocol asks for; in Python it is an exception class of `zlrs.errors` with `.type`, `.status`, `.message` \
         and `.suggestion`. Status `-` means that the error is raised before there is a server and is never sent.\n\n\
         This page is made from the table in `rust/zlrs-wire/src/catalogue.rs`.\n\n\
         | type | status | Python class | when | what to do |\n|---|---|---|---|---|\n",
    );
    for kind in ErrorKind::ALL {
        let entry = kind.entry();
        let status = if entry.status == 0 { "-".to_owned() } else { entry.status.to_string() };
        let code = match entry.code {
            Some(Historical(code)) => format!(" (`code`: `{code}`)"),
            Some(Chat(code)) => format!(" (`code` in Chat bodies: `{code}`)"),
            None => String::new(),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            page,
            "| `{}` | {status} | `{}` | {}{code} | {} |",
            entry.name, entry.python, entry.when, entry.suggestion
        );
    }
    page
}
