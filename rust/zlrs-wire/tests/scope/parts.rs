//! The parts of a scope besides the body's fields.

use serde_json::json;
use zlrs_wire::scope::{
    CREDENTIAL_HEADERS, HARMLESS_HEADERS, ScopeInput, Secret, TenantKey, header_barrier, node_key,
    request_key, scope_key, tenant_key,
};
use zlrs_wire::{Protocol, Reason, RequestView};

use crate::samples::{Header, SECRET, header, keys, keys_with, plain};

#[test]
fn an_unknown_field_anywhere_is_not_eligible() {
    let block = json!({"type": "text", "text": "a", "new": 1});
    for body in [
        json!({"model": "m", "messages": [{"role": "user", "content": "a"}], "new": null}),
        json!({"model": "m", "messages": [{"role": "user", "content": "a", "new": null}]}),
        json!({"model": "m", "messages": [{"role": "user", "content": [block]}]}),
    ] {
        assert_eq!((keys(Protocol::Messages, &body), keys(Protocol::Chat, &body)), (None, None), "{body}");
    }
}

#[test]
fn two_asks_share_their_scope() {
    let ask = |content: serde_json::Value| {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"},
            {"role": "user", "content": content}]});
        keys(Protocol::Messages, &body).unwrap()
    };
    let block = |first: &str, last: &str| {
        ask(json!([{"type": "text", "text": first}, {"type": "text", "text": last}]))
    };
    for (left, right) in [(ask(json!("one")), ask(json!("two"))), (block("c", "one"), block("c", "two"))] {
        assert_eq!(left.0, right.0);
        assert_ne!(left.1, right.1);
    }
    // What comes before the ask in the last turn is scope.
    assert_ne!(block("c", "one").0, block("d", "one").0);
    assert_ne!(ask(json!("one")).0, ask(json!([{"type": "text", "text": "one"}])).0);
}

#[test]
fn string_and_single_block_are_two_scopes() {
    let block =
        json!({"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]});
    assert_ne!(keys(Protocol::Messages, &plain()), keys(Protocol::Messages, &block));
}

#[test]
fn the_order_of_keys_says_nothing_but_in_opaque_values() {
    let read = |body: &str| {
        let view = RequestView::parse(Protocol::Chat, body.as_bytes()).expect("a request");
        let headers: [Header; 0] = [];
        let input = ScopeInput {
            tenant: TenantKey([0; 32]),
            upstream: "",
            method: "",
            path: "",
            query: "",
            headers: &headers,
            factors: &[],
        };
        scope_key(&SECRET, &input, &view)
    };
    let body =
        r#"{"model":"m","seed":1,"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]}"#;
    let other = r#"{ "messages":[{"content":[{"text":"a","type":"text"}],"role":"user"}], "seed":1,"model":"\u006d"}"#;
    assert_eq!(read(body), read(other));
    // A server may answer in the order of a schema.
    let schema = |fields: &str| body.replace("\"seed\":1", &format!("\"response_format\":{{{fields}}}"));
    assert_ne!(read(&schema(r#""a":1,"b":2"#)), read(&schema(r#""b":2,"a":1"#)));
    // Numbers are compared by their text.
    assert_ne!(read(body), read(&body.replace("\"seed\":1", "\"seed\":1.0")));
}

#[test]
fn endpoint_tenant_headers_and_factors_are_in_the_scope() {
    let body = plain().to_string();
    let view = RequestView::parse(Protocol::Messages, body.as_bytes()).expect("a request");
    let none: [Header; 0] = [];
    let base = ScopeInput {
        tenant: TenantKey([0; 32]),
        upstream: "a",
        method: "b",
        path: "c",
        query: "d",
        headers: &none[..],
        factors: &[],
    };
    let factors = [header("tier", "gold")];
    let other_factors = [header("tier", "silver")];
    let version = [header("anthropic-version", "2023-06-01")];
    let beta = [header("Anthropic-Beta", "x")];
    let other_beta = [header("anthropic-beta", "y")];
    let betas = [header("anthropic-beta", "x"), header("anthropic-beta", "y")];
    let swapped = [header("anthropic-beta", "y"), header("anthropic-beta", "x")];
    let compute = [header("X-ZLRS-Compute", "aggressive")];
    let unknown = [header("x-anything", "")];
    let inputs = [
        base,
        ScopeInput { tenant: TenantKey([1; 32]), headers: &none[..], ..base_of("a", "b", "c", "d") },
        ScopeInput { headers: &none[..], ..base_of("ab", "", "c", "d") },
        ScopeInput { headers: &none[..], ..base_of("a", "bc", "", "d") },
        ScopeInput { headers: &none[..], ..base_of("a", "b", "cd", "") },
        ScopeInput { headers: &none[..], factors: &factors, ..base_of("a", "b", "c", "d") },
        ScopeInput { headers: &none[..], factors: &other_factors, ..base_of("a", "b", "c", "d") },
        ScopeInput { headers: &version[..], ..base_of("a", "b", "c", "d") },
        ScopeInput { headers: &beta[..], ..base_of("a", "b", "c", "d") },
        ScopeInput { headers: &other_beta[..], ..base_of("a", "b", "c", "d") },
        ScopeInput { headers: &betas[..], ..base_of("a", "b", "c", "d") },
        ScopeInput { headers: &swapped[..], ..base_of("a", "b", "c", "d") },
        ScopeInput { headers: &compute[..], ..base_of("a", "b", "c", "d") },
        ScopeInput { headers: &unknown[..], ..base_of("a", "b", "c", "d") },
        ScopeInput { headers: &none[..], ..base_of("A", "b", "c", "d") },
        ScopeInput { headers: &none[..], ..base_of("a", "B", "c", "d") },
        ScopeInput { headers: &none[..], ..base_of("a", "b", "C", "d") },
        ScopeInput { headers: &none[..], ..base_of("a", "b", "c", "D") },
        ScopeInput { headers: &none[..], ..base_of("a", "b", "c", "") },
    ];
    let scopes: std::collections::BTreeSet<_> =
        inputs.iter().map(|input| scope_key(&SECRET, input, &view)).collect();
    assert_eq!(scopes.len(), inputs.len());
    let other_secret = scope_key(&Secret::new([8; 32]), &inputs[0], &view);
    assert!(!scopes.contains(&other_secret));
}

fn base_of<'i>(
    upstream: &'i str,
    method: &'i str,
    path: &'i str,
    query: &'i str,
) -> ScopeInput<'i, String, String> {
    ScopeInput { tenant: TenantKey([0; 32]), upstream, method, path, query, headers: &[], factors: &[] }
}

#[test]
fn harmless_headers_change_nothing_and_credentials_change_the_tenant_only() {
    let base = keys(Protocol::Messages, &plain());
    for name in
        HARMLESS_HEADERS.iter().copied().chain(["x-stainless-retry-count", "X-Stainless-Arch", "User-Agent"])
    {
        let headers = [header(name, "anything")];
        assert_eq!(keys_with(Protocol::Messages, &plain(), &headers, &[]), base, "{name}");
        assert!(!CREDENTIAL_HEADERS.contains(&name), "{name}");
    }
    let mut tenants = std::collections::BTreeSet::new();
    for name in CREDENTIAL_HEADERS {
        for value in ["a", "b"] {
            tenants.insert(tenant_key(&SECRET, &[header(name, value)]));
            tenants.insert(tenant_key(
                &SECRET,
                &[header("authorization", "a"), header(name, value), header(name, "c")],
            ));
        }
    }
    tenants.insert(tenant_key::<String, String>(&SECRET, &[]));
    assert_eq!(tenants.len(), CREDENTIAL_HEADERS.len() * 4 + 1);
    assert_eq!(
        tenant_key(&SECRET, &[header("X-Api-Key", " k\t")]),
        tenant_key(&SECRET, &[header("x-api-key", "k"), header("accept", "x")])
    );
}

#[test]
fn cookies_sessions_and_encoded_bodies_are_barriers() {
    let barrier =
        |name: &str, value: &str| header_barrier(&[header(name, value)]).map(|refusal| refusal.reason);
    assert_eq!(barrier("Cookie", "a=b"), Some(Reason::Cookie));
    assert_eq!(barrier("X-ZLRS-Session", "create"), Some(Reason::Stateful));
    assert_eq!(barrier("x-anthropic-session", "s"), Some(Reason::Stateful));
    assert_eq!(barrier("Content-Encoding", "gzip"), Some(Reason::EncodedBody));
    assert_eq!(barrier("content-encoding", " Identity "), None);
    assert_eq!(barrier("accept-encoding", "gzip"), None);
}

#[test]
fn a_node_is_its_scope_form_and_canon_version() {
    let headers: [Header; 0] = [];
    let body = plain().to_string();
    let view = RequestView::parse(Protocol::Messages, body.as_bytes()).expect("a request");
    let scope =
        scope_key(&SECRET, &ScopeInput { headers: &headers[..], ..base_of("a", "b", "c", "d") }, &view);
    let node = node_key(&SECRET, &scope, 1, "f");
    assert_ne!(node, node_key(&SECRET, &scope, 2, "f"));
    assert_ne!(node, node_key(&SECRET, &scope, 1, "g"));
    assert_ne!(node.0, request_key(&SECRET, &scope, "f").0);
    assert_eq!(node.hex().len(), 64);
    assert_eq!(format!("{SECRET:?}"), "Secret(..)");
}
