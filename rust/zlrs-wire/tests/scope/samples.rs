//! A plain request, and the keys of any.

use serde_json::{Value as Json, json};
use zlrs_wire::scope::{ScopeInput, Secret, header_barrier, request_key, scope_key, tenant_key};
use zlrs_wire::{Protocol, RequestView};

pub(crate) type Header = (String, String);

pub(crate) const SECRET: Secret = Secret::new([7; 32]);

pub(crate) fn header(name: &str, value: &str) -> Header {
    (name.to_owned(), value.to_owned())
}

/// Scope and ask of a request, or `None` where it is not eligible.
pub(crate) fn keys_with(
    protocol: Protocol,
    body: &Json,
    headers: &[Header],
    factors: &[Header],
) -> Option<([u8; 32], [u8; 32])> {
    let text = body.to_string();
    let view = RequestView::parse(protocol, text.as_bytes()).ok()?;
    if view.barrier.is_some() || header_barrier(headers).is_some() {
        return None;
    }
    let input = ScopeInput {
        tenant: tenant_key(&SECRET, headers),
        upstream: "u",
        method: "POST",
        path: "/v1/messages",
        query: "",
        headers,
        factors,
    };
    let scope = scope_key(&SECRET, &input, &view);
    Some((scope.0, request_key(&SECRET, &scope, view.ask.as_deref()?).0))
}

pub(crate) fn keys(protocol: Protocol, body: &Json) -> Option<([u8; 32], [u8; 32])> {
    keys_with(protocol, body, &[], &[])
}

pub(crate) fn plain() -> Json {
    json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]})
}
