//! Every field we know, in one place. What is not listed makes a request not eligible.

use super::Protocol;
use crate::reason::Reason;

/// How a field is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The model's name: scope.
    Model,
    /// The turns: scope, but for the ask.
    Turns,
    /// The system prompt: scope, but for the attribution line.
    System,
    /// The temperature: scope, and a fact for eligibility.
    Temperature,
    /// Scope, any value.
    Scope,
    /// Thinking or effort: scope, and a fact.
    Thinking,
    /// The answer's format: scope, and a fact.
    Format,
    /// Scope; only `1` or `null` is eligible.
    One,
    /// Scope; only `null` or a list of `"text"` is eligible.
    TextOnly,
    /// Scope; a value that says something (not `null`, `false` or `[]`) is never eligible.
    Never(Reason),
    /// Ignored: a boolean or `null`.
    Stream,
    /// Ignored: an object of known booleans, or `null`.
    StreamOptions,
    /// Ignored: an object or `null`.
    Metadata,
    /// Ignored: an object of `type` and `ttl`, or `null`.
    CacheControl,
}

impl Rule {
    /// Whether the field is left out of the scope.
    #[must_use]
    pub const fn is_ignored(self) -> bool {
        matches!(self, Rule::Stream | Rule::StreamOptions | Rule::Metadata | Rule::CacheControl)
    }
}

/// A field's name and treatment.
pub type Field = (&'static str, Rule);

use Rule::{
    CacheControl, Format, Metadata, Model, Never, One, Scope, Stream, StreamOptions, System, Temperature,
};
use Rule::{TextOnly, Thinking, Turns};

/// The body of `POST /v1/messages`.
pub const MESSAGES_BODY: &[Field] = &[
    ("model", Model),
    ("messages", Turns),
    ("system", System),
    ("max_tokens", Scope),
    ("temperature", Temperature),
    ("top_p", Scope),
    ("top_k", Scope),
    ("stop_sequences", Scope),
    ("thinking", Thinking),
    ("output_config", Format),
    ("output_format", Format),
    ("service_tier", Scope),
    ("inference_geo", Scope),
    ("context_management", Scope),
    ("anthropic_version", Scope),
    ("anthropic_beta", Scope),
    ("tools", Never(Reason::Tools)),
    ("tool_choice", Never(Reason::Tools)),
    ("mcp_servers", Never(Reason::Tools)),
    ("container", Never(Reason::Stateful)),
    ("previous_response_id", Never(Reason::Stateful)),
    ("conversation", Never(Reason::Stateful)),
    ("session", Never(Reason::Stateful)),
    ("session_id", Never(Reason::Stateful)),
    ("stream", Stream),
    ("metadata", Metadata),
    ("cache_control", CacheControl),
];

/// The body of `POST /v1/chat/completions`, with the sampling fields that open servers add.
pub const CHAT_BODY: &[Field] = &[
    ("model", Model),
    ("messages", Turns),
    ("max_tokens", Scope),
    ("max_completion_tokens", Scope),
    ("temperature", Temperature),
    ("top_p", Scope),
    ("top_k", Scope),
    ("min_p", Scope),
    ("seed", Scope),
    ("stop", Scope),
    ("presence_penalty", Scope),
    ("frequency_penalty", Scope),
    ("repetition_penalty", Scope),
    ("logit_bias", Scope),
    ("logprobs", Scope),
    ("top_logprobs", Scope),
    ("n", One),
    ("response_format", Format),
    ("reasoning_effort", Thinking),
    ("verbosity", Scope),
    ("modalities", TextOnly),
    ("prediction", Scope),
    ("service_tier", Scope),
    ("user", Scope),
    ("safety_identifier", Scope),
    ("prompt_cache_key", Scope),
    ("prompt_cache_retention", Scope),
    ("parallel_tool_calls", Scope),
    ("tools", Never(Reason::Tools)),
    ("tool_choice", Never(Reason::Tools)),
    ("functions", Never(Reason::Tools)),
    ("function_call", Never(Reason::Tools)),
    ("web_search_options", Never(Reason::Tools)),
    ("audio", Never(Reason::Modality)),
    ("store", Never(Reason::Stateful)),
    ("previous_response_id", Never(Reason::Stateful)),
    ("conversation", Never(Reason::Stateful)),
    ("session", Never(Reason::Stateful)),
    ("session_id", Never(Reason::Stateful)),
    ("stream", Stream),
    ("stream_options", StreamOptions),
    ("metadata", Metadata),
];

/// The top-level fields of a protocol.
#[must_use]
pub const fn body(protocol: Protocol) -> &'static [Field] {
    match protocol {
        Protocol::Messages => MESSAGES_BODY,
        Protocol::Chat => CHAT_BODY,
    }
}

/// A turn of either protocol, besides `role` and `content`.
#[must_use]
pub const fn turn(protocol: Protocol) -> &'static [Field] {
    match protocol {
        Protocol::Messages => &[],
        Protocol::Chat => &[
            ("name", Scope),
            ("refusal", Scope),
            ("annotations", Scope),
            ("tool_calls", Never(Reason::Tools)),
            ("tool_call_id", Never(Reason::Tools)),
            ("function_call", Never(Reason::Tools)),
            ("audio", Never(Reason::Modality)),
        ],
    }
}

/// Who may speak. A role that is not listed is not known.
#[must_use]
pub const fn roles(protocol: Protocol) -> &'static [Field] {
    match protocol {
        Protocol::Messages => &[("user", Scope), ("assistant", Scope)],
        Protocol::Chat => &[
            ("user", Scope),
            ("assistant", Scope),
            ("system", Scope),
            ("developer", Scope),
            ("tool", Never(Reason::Tools)),
            ("function", Never(Reason::Tools)),
        ],
    }
}

/// The kinds of content blocks: a kind with [`Scope`] has its fields in [`block_fields`]; one that is never
/// eligible is not looked into.
#[must_use]
pub const fn blocks(protocol: Protocol) -> &'static [Field] {
    match protocol {
        Protocol::Messages => &[
            ("text", Scope),
            ("thinking", Scope),
            ("redacted_thinking", Scope),
            ("image", Never(Reason::Modality)),
            ("document", Never(Reason::Modality)),
            ("search_result", Never(Reason::Modality)),
            ("container_upload", Never(Reason::Stateful)),
            ("tool_use", Never(Reason::Tools)),
            ("tool_result", Never(Reason::Tools)),
            ("server_tool_use", Never(Reason::Tools)),
            ("web_search_tool_result", Never(Reason::Tools)),
            ("web_fetch_tool_result", Never(Reason::Tools)),
            ("code_execution_tool_result", Never(Reason::Tools)),
            ("bash_code_execution_tool_result", Never(Reason::Tools)),
            ("text_editor_code_execution_tool_result", Never(Reason::Tools)),
            ("tool_search_tool_result", Never(Reason::Tools)),
            ("mcp_tool_use", Never(Reason::Tools)),
            ("mcp_tool_result", Never(Reason::Tools)),
        ],
        Protocol::Chat => &[
            ("text", Scope),
            ("refusal", Scope),
            ("image_url", Never(Reason::Modality)),
            ("input_audio", Never(Reason::Modality)),
            ("file", Never(Reason::Modality)),
        ],
    }
}

/// The fields of a content block besides `type`.
#[must_use]
pub fn block_fields(protocol: Protocol, kind: &str) -> &'static [Field] {
    match (protocol, kind) {
        (Protocol::Messages, "text") => {
            &[("text", Scope), ("citations", Scope), ("cache_control", CacheControl)]
        }
        (Protocol::Messages, "thinking") => &[("thinking", Scope), ("signature", Scope)],
        (Protocol::Messages, "redacted_thinking") => &[("data", Scope)],
        (Protocol::Chat, "text") => &[("text", Scope)],
        (Protocol::Chat, "refusal") => &[("refusal", Scope)],
        _ => &[],
    }
}

/// The rule of `name` in a table.
#[must_use]
pub fn rule_of(table: &[Field], name: &str) -> Option<Rule> {
    table.iter().find(|(known, _)| *known == name).map(|(_, rule)| *rule)
}
