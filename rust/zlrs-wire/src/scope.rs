//! Keys: which requests are the same, for whom, and which share a node.
//!
//! Every key is BLAKE3-256 keyed with a per-install secret over an injective encoding ([`encode`]): tags, counts
//! and lengths before content, so that two different lists of fields never give the same bytes.

pub mod encode;

use std::fmt;

use crate::reason::{Reason, Refusal};
use crate::request::RequestView;
use encode::{Sink, Tag, bytes, list, value};

/// The per-install secret. It is never shown.
#[derive(Clone)]
pub struct Secret([u8; 32]);

impl Secret {
    /// Wraps 32 random bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Secret(bytes)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(..)")
    }
}

macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident;)+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
            pub struct $name(pub [u8; 32]);

            impl $name {
                /// 64 lower-case hexadecimal digits.
                #[must_use]
                pub fn hex(&self) -> String {
                    blake3::Hash::from_bytes(self.0).to_hex().to_string()
                }
            }

            impl fmt::Debug for $name {
                fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                    write!(formatter, concat!(stringify!($name), "({}..)"), &self.hex()[..12])
                }
            }
        )+
    };
}

keys! {
    /// Who asks: all credentials of a request together.
    TenantKey;
    /// Everything that must be equal but the ask.
    ScopeKey;
    /// Scope and ask: the very same request.
    RequestKey;
    /// Scope and canonical form: wordings that are one node.
    NodeKey;
}

/// Request headers that carry credentials. All values of all of them make the tenant.
pub const CREDENTIAL_HEADERS: &[&str] =
    &["authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "x-auth-token"];

/// Request headers that cannot change an answer: transport, tracing and the client's own bookkeeping.
/// A header that is not listed is in the scope.
pub const HARMLESS_HEADERS: &[&str] = &[
    "accept",
    "accept-encoding",
    "bypass-zero-layer",
    "bypass_zero_layer",
    "cache-only",
    "connection",
    "content-length",
    "date",
    "expect",
    "host",
    "idempotency-key",
    "keep-alive",
    "proxy-connection",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
    "x-claude-code-agent-id",
    "x-claude-code-parent-agent-id",
    "x-claude-code-session-id",
    "x-client-request-id",
    "x-correlation-id",
    "x-multi-modal",
    "x-request-id",
    "x-zlrs-cache-only",
    "x-zlrs-cohort",
    "x-zlrs-diagnostic",
    "x-zlrs-multi-modal",
    "x-zlrs-no-graph",
];

/// Prefixes of harmless headers.
pub const HARMLESS_PREFIXES: &[&str] = &["x-stainless-"];

/// Whether the header called `name` (lower case) is left out of the scope. Credentials are in the tenant instead.
#[must_use]
pub fn is_harmless(name: &str) -> bool {
    HARMLESS_HEADERS.contains(&name) || HARMLESS_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Request headers that refer to state at the upstream: the answer depends on more than the request. The historical
/// spellings are here too, for an engine of ours behind a sidecar: replaying would not open or advance its session.
pub const STATEFUL_HEADERS: &[&str] =
    &["x-zlrs-session", "x-zlrs-kv-migrate", "x-anthropic-session", "x-anthropic-kv-migrate"];

/// The first header that makes any request not eligible: a cookie, a session, or a content encoding other than
/// `identity`.
pub fn header_barrier<N: AsRef<[u8]>, V: AsRef<[u8]>>(headers: &[(N, V)]) -> Option<Refusal> {
    headers.iter().find_map(|(name, value)| {
        let (name, value) = (name.as_ref(), trim(value.as_ref()));
        if name.eq_ignore_ascii_case(b"cookie") {
            return Some(Refusal::new(Reason::Cookie, "cookie"));
        }
        if let Some(known) = STATEFUL_HEADERS.iter().find(|known| name.eq_ignore_ascii_case(known.as_bytes()))
        {
            return Some(Refusal::new(Reason::Stateful, known));
        }
        let encoded =
            name.eq_ignore_ascii_case(b"content-encoding") && !value.eq_ignore_ascii_case(b"identity");
        encoded.then(|| Refusal::new(Reason::EncodedBody, "content-encoding"))
    })
}

/// The tenant: a keyed hash over every value of every credential header, in a fixed order of names. A request
/// without credentials has a tenant too: all of those share one.
pub fn tenant_key<N: AsRef<[u8]>, V: AsRef<[u8]>>(secret: &Secret, headers: &[(N, V)]) -> TenantKey {
    let mut hasher = blake3::Hasher::new_keyed(&secret.0);
    hasher.put(b"zlrs tenant 1");
    for credential in CREDENTIAL_HEADERS {
        let values: Vec<&[u8]> = headers
            .iter()
            .filter(|(name, _)| name.as_ref().eq_ignore_ascii_case(credential.as_bytes()))
            .map(|(_, value)| trim(value.as_ref()))
            .collect();
        list(&mut hasher, Tag::Header, values.len());
        for value in values {
            bytes(&mut hasher, Tag::HeaderValue, value);
        }
    }
    TenantKey(*hasher.finalize().as_bytes())
}

/// What a scope is made of, besides the body.
#[derive(Debug)]
pub struct ScopeInput<'i, N, V> {
    /// Who asks.
    pub tenant: TenantKey,
    /// The upstream's name or base URL, from configuration.
    pub upstream: &'i str,
    /// The request method.
    pub method: &'i str,
    /// The path as it was sent, without the query.
    pub path: &'i str,
    /// The query as it was sent, without `?`; empty for none.
    pub query: &'i str,
    /// All request headers, in order.
    pub headers: &'i [(N, V)],
    /// Facts of the operator's: names and values, each name once.
    pub factors: &'i [(String, String)],
}

/// The scope of a request. Linear in the size of the request.
pub fn scope_key<N, V>(secret: &Secret, input: &ScopeInput<'_, N, V>, view: &RequestView<'_>) -> ScopeKey
where
    N: AsRef<[u8]>,
    V: AsRef<[u8]>,
{
    let mut hasher = blake3::Hasher::new_keyed(&secret.0);
    encode_scope(&mut hasher, input, view);
    ScopeKey(*hasher.finalize().as_bytes())
}

/// Writes the encoding that [`scope_key`] hashes.
pub fn encode_scope<N, V>(sink: &mut impl Sink, input: &ScopeInput<'_, N, V>, view: &RequestView<'_>)
where
    N: AsRef<[u8]>,
    V: AsRef<[u8]>,
{
    sink.put(b"zlrs scope 1");
    bytes(sink, Tag::Tenant, &input.tenant.0);
    bytes(sink, Tag::Upstream, input.upstream.as_bytes());
    bytes(sink, Tag::Method, input.method.as_bytes());
    bytes(sink, Tag::Path, input.path.as_bytes());
    bytes(sink, Tag::Query, input.query.as_bytes());
    encode_headers(sink, input.headers);

    let mut factors: Vec<&(String, String)> = input.factors.iter().collect();
    factors.sort_unstable();
    list(sink, Tag::Factors, factors.len());
    for (name, fact) in factors {
        bytes(sink, Tag::Factor, name.as_bytes());
        bytes(sink, Tag::FactorValue, fact.as_bytes());
    }

    bytes(sink, Tag::Protocol, view.protocol.name().as_bytes());
    bytes(sink, Tag::Attribution, &[u8::from(view.attribution)]);
    bytes(sink, Tag::HasAsk, &[u8::from(view.ask.is_some())]);
    list(sink, Tag::Body, view.scope.len());
    for (name, field) in &view.scope {
        bytes(sink, Tag::Key, name.as_bytes());
        value(sink, field);
    }
}

/// Headers of the scope: lower-case names sorted, values of one name in the order they came.
fn encode_headers<N: AsRef<[u8]>, V: AsRef<[u8]>>(sink: &mut impl Sink, headers: &[(N, V)]) {
    let mut kept: Vec<(Vec<u8>, &[u8])> = headers
        .iter()
        .map(|(name, value)| (name.as_ref().to_ascii_lowercase(), trim(value.as_ref())))
        .filter(|(name, _)| {
            std::str::from_utf8(name)
                .map_or(true, |name| !is_harmless(name) && !CREDENTIAL_HEADERS.contains(&name))
        })
        .collect();
    kept.sort_by(|left, right| left.0.cmp(&right.0));
    list(sink, Tag::Headers, kept.len());
    for (name, value) in kept {
        bytes(sink, Tag::Header, &name);
        bytes(sink, Tag::HeaderValue, value);
    }
}

/// The very same request: scope and ask.
#[must_use]
pub fn request_key(secret: &Secret, scope: &ScopeKey, ask: &str) -> RequestKey {
    let mut encoded = Vec::with_capacity(ask.len() + KEY_ROOM);
    encoded.put(b"zlrs request 1");
    bytes(&mut encoded, Tag::Scope, &scope.0);
    bytes(&mut encoded, Tag::Ask, ask.as_bytes());
    RequestKey(keyed_whole(secret, &encoded))
}

/// The node: scope and canonical form, with the version of the rules that made the form.
#[must_use]
pub fn node_key(secret: &Secret, scope: &ScopeKey, canon_version: u32, form: &str) -> NodeKey {
    let mut encoded = Vec::with_capacity(form.len() + KEY_ROOM);
    encoded.put(b"zlrs node 1");
    bytes(&mut encoded, Tag::Scope, &scope.0);
    bytes(&mut encoded, Tag::CanonVersion, &canon_version.to_le_bytes());
    bytes(&mut encoded, Tag::Form, form.as_bytes());
    NodeKey(keyed_whole(secret, &encoded))
}

/// Bytes of a key's encoding beside its text.
const KEY_ROOM: usize = 96;

/// A keyed hash of what lies in one piece: chunks of 1 KiB are then hashed side by side, which they are not when they
/// come in parts.
fn keyed_whole(secret: &Secret, encoded: &[u8]) -> [u8; 32] {
    *blake3::keyed_hash(&secret.0, encoded).as_bytes()
}

/// Without the optional white space around a header value.
fn trim(value: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| *byte == b' ' || *byte == b'\t';
    let start = value.iter().position(|byte| !is_space(byte)).unwrap_or(value.len());
    let end = value.iter().rposition(|byte| !is_space(byte)).map_or(start, |last| last + 1);
    &value[start..end]
}
