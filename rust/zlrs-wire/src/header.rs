//! Header names, the request headers the graph reads, and values rendered from enumerations.

mod decision;
mod request;

pub use decision::{Bound, DecisionKind, DecisionValue, Route, Stage};
pub use request::{GraphHeaders, HeaderError};

/// Which way a header travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client.
    Request,
    /// To the client.
    Response,
    /// Both ways.
    Both,
}

/// A header of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderName {
    /// The canonical spelling.
    pub name: &'static str,
    /// Which way it travels.
    pub direction: Direction,
    /// The historical spelling, where there is one.
    pub historical: Option<&'static str>,
}

macro_rules! headers {
    ($($constant:ident = $name:literal, $direction:ident, $historical:expr;)+) => {
        $(#[doc = concat!("`", $name, "`")] pub const $constant: &str = $name;)+

        /// Every header of ours, request headers first.
        pub const HEADERS: &[HeaderName] = &[
            $(HeaderName { name: $name, direction: Direction::$direction, historical: $historical },)+
        ];
    };
}

headers! {
    COMPUTE = "X-ZLRS-Compute", Request, Some("X-Anthropic-Compute-Optimization");
    CONTEXT = "X-ZLRS-Context", Request, Some("X-Anthropic-Context-Strategy");
    GUARANTEE = "X-ZLRS-Guarantee", Request, Some("X-Anthropic-Output-Guarantee");
    KV_POLICY = "X-ZLRS-KV-Policy", Request, Some("X-Anthropic-KV-Policy");
    RING = "X-ZLRS-Ring", Request, Some("X-Anthropic-Stream-Buffer");
    VALIDATION = "X-ZLRS-Validation", Request, Some("X-Anthropic-Validation");
    VALIDATION_HEAD = "X-ZLRS-Validation-Head", Request, Some("X-Anthropic-Validation-Head");
    SESSION = "X-ZLRS-Session", Both, Some("X-Anthropic-Session");
    CONTEXT_SIGNATURE = "X-ZLRS-Context-Signature", Request, Some("X-Anthropic-Context-Signature");
    KV_MIGRATE = "X-ZLRS-KV-Migrate", Request, Some("X-Anthropic-KV-Migrate");
    STREAM_MODE = "X-ZLRS-Stream-Mode", Request, Some("X-Anthropic-Stream-Mode");
    DIAGNOSTIC = "X-ZLRS-Diagnostic", Request, Some("X-Anthropic-Diagnostic");
    NO_GRAPH = "X-ZLRS-No-Graph", Request, Some("bypass-zero-layer");
    CACHE_ONLY = "X-ZLRS-Cache-Only", Request, Some("cache-only");
    MULTI_MODAL = "X-ZLRS-Multi-Modal", Request, Some("x-multi-modal");
    COHORT = "X-ZLRS-Cohort", Request, None;
    COMPUTE_PROFILE = "X-ZLRS-Compute-Profile", Response, Some("X-Anthropic-Compute-Profile");
    CONTEXT_EFFICIENCY = "X-ZLRS-Context-Efficiency", Response, Some("X-Anthropic-Context-Efficiency");
    MODEL_VERSION = "X-ZLRS-Model-Version", Response, Some("X-Anthropic-Model-Version");
    MODEL_INFO = "X-ZLRS-Model-Info", Response, Some("X-Anthropic-Model-Info");
    ZERO_ACTIVE = "X-ZLRS-Zero-Active", Response, Some("X-Anthropic-Zero-Active");
    ANCHOR_HITS = "X-ZLRS-Anchor-Hits", Response, Some("X-Anthropic-Anchor-Hits");
    FIDELITY_SCORE = "X-ZLRS-Fidelity-Score", Response, Some("X-Anthropic-Fidelity-Score");
    COMPUTE_SAVINGS = "X-ZLRS-Compute-Savings", Response, Some("X-Anthropic-Compute-Savings");
    STATE_VECTOR = "X-ZLRS-State-Vector", Response, None;
    LATENCY = "X-ZLRS-Latency", Response, Some("X-Anthropic-Hardware-Latency");
    DECISION = "X-ZLRS-Decision", Response, Some("X-Zero-Layer-Bypass");
    TOKENS = "X-ZLRS-Tokens", Response, None;
    TRUNCATED = "X-ZLRS-Truncated", Response, Some("truncated_by_gateway");
    REWRITTEN = "X-ZLRS-Rewritten", Response, None;
    REQUEST_ID = "X-ZLRS-Request-Id", Response, None;
    AUDIT = "X-ZLRS-Audit", Response, None;
}

/// The canonical spelling of a header of ours, from any case of its canonical name.
#[must_use]
pub fn canonical(name: &[u8]) -> Option<&'static str> {
    HEADERS.iter().find(|header| name.eq_ignore_ascii_case(header.name.as_bytes())).map(|header| header.name)
}
