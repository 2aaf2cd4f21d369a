//! Why a request is not answered from the graph, or an answer not kept: one closed list of names.

use std::fmt;

/// Declares [`Reason`] together with its names and meanings, so that they cannot drift apart.
macro_rules! reasons {
    ($($variant:ident = $name:literal, $meaning:literal;)+) => {
        /// Why something was not served or not stored. The names appear in `X-ZLRS-Decision`, logs and metrics.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Reason {
            $(#[doc = $meaning] $variant,)+
        }

        impl Reason {
            /// Every reason, in the order of the table.
            pub const ALL: &'static [Reason] = &[$(Reason::$variant,)+];

            /// The name on the wire: lower case letters, digits and underscores only.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Reason::$variant => $name,)+ }
            }

            /// One line for people.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Reason::$variant => $meaning,)+ }
            }
        }
    };
}

reasons! {
    // The request cannot be read with certainty.
    NotUnderstood = "not_understood", "the endpoint is relayed but its requests are not understood";
    MalformedJson = "malformed_json", "the body is not one JSON value";
    InvalidUtf8 = "invalid_utf8", "the body is not UTF-8";
    DuplicateKey = "duplicate_key", "an object names the same key twice";
    TooDeep = "too_deep", "values are nested more than 64 deep";
    LoneSurrogate = "lone_surrogate", "a string holds half of a surrogate pair";
    WrongType = "wrong_type", "a known field holds a value of another type";
    UnknownField = "unknown_field", "a field whose effect is not known";
    UnknownValue = "unknown_value", "a known field holds a value whose effect is not known";

    // The request is understood and never eligible.
    TemperatureDefault = "temperature_default", "temperature is absent, which means 1.0";
    TemperatureHigh = "temperature_high", "temperature is above the limit";
    Tools = "tools", "tools are offered or used";
    Modality = "modality", "an image, a document, audio or a file is part of the request or the answer";
    Choices = "choices", "not exactly one answer is asked for";
    Stateful = "stateful", "the request or the answer refers to state at the upstream";
    NoAsk = "no_ask", "the last turn is not a user's text";
    AskTooLong = "ask_too_long", "the ask is longer than the limit of its route";
    Volatile = "volatile", "the ask is about what changes by itself";
    Cookie = "cookie", "the request carries a cookie";
    EncodedBody = "encoded_body", "the body has a content encoding";
    NoGraphHeader = "no_graph_header", "the client asked not to be answered from the graph";
    MultiModalHeader = "multi_modal_header", "the client said that text alone does not decide the answer";

    FactorUnknown = "factor_unknown", "a fact that the answer depends on could not be had in time";

    // The request is eligible and was not answered.
    GraphOff = "graph_off", "the graph is switched off for this route";
    NoEntry = "no_entry", "nothing is known for this request";
    Expired = "expired", "the entry is older than its time to live";
    Tombstoned = "tombstoned", "the entry was withdrawn";
    Recheck = "recheck", "the entry is due for a check against the upstream";
    CredentialUnproven = "credential_unproven", "the upstream has not accepted this credential recently";
    CredentialLocked = "credential_locked", "the upstream refused this credential";
    UsageUnknown = "usage_unknown", "the form asked for needs token counts that the stored answer lacks";
    StoreUnavailable = "store_unavailable", "the store cannot be read or written now";
    StoreCorrupt = "store_corrupt", "the stored answer failed its checks";
    ClockBackward = "clock_backward", "the clock jumped back";

    // The answer may not be kept.
    Status = "status", "the upstream's status is not 2xx";
    Incomplete = "incomplete", "the answer ended before its terminal event";
    Malformed = "malformed", "the answer does not follow its protocol";
    UnknownContent = "unknown_content", "the answer holds events or content whose meaning is not known";
    StreamError = "stream_error", "the answer holds an error";
    StopReason = "stop_reason", "the answer stopped for another reason than its end or a stop sequence";
    Refused = "refused", "the model or a filter refused to answer";
    Empty = "empty", "the answer holds no text";
    TooLarge = "too_large", "larger than the limit";
    UpstreamReplay = "upstream_replay", "the upstream answered from a graph of its own";
    ClientGone = "client_gone", "the client went away before the answer was complete";
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A reason and the field it was found at, e.g. `messages[2].content[0].type`; empty for the whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}{path}", reason.meaning(), if path.is_empty() { "" } else { ": " })]
pub struct Refusal {
    /// The name of what was found.
    pub reason: Reason,
    /// Where. It may hold keys chosen by the client: data for logs, never for a header as it is.
    pub path: String,
}

/// Longest path that goes into a header.
const HEADER_PATH_BYTES: usize = 96;

impl Refusal {
    /// A refusal of the field at `path`.
    pub fn new(reason: Reason, path: impl fmt::Display) -> Self {
        Refusal { reason, path: path.to_string() }
    }

    /// A refusal of the whole request or answer.
    #[must_use]
    pub const fn whole(reason: Reason) -> Self {
        Refusal { reason, path: String::new() }
    }

    /// `name`, or `name:path` where the path is short and made of `[A-Za-z0-9_.[]-]` only.
    #[must_use]
    pub fn header_value(&self) -> String {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.[]-".contains(&byte);
        if self.path.is_empty() || self.path.len() > HEADER_PATH_BYTES || !self.path.bytes().all(plain) {
            return self.reason.name().to_owned();
        }
        format!("{}:{}", self.reason.name(), self.path)
    }
}
