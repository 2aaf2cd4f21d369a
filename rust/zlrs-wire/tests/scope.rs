//! Keys: what must differ differs, what is ignored does not.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use zlrs_wire::json::Value;
use zlrs_wire::request::fields::{self, Field, Rule};
use zlrs_wire::scope::encode::{Tag, bytes, list, value};
use zlrs_wire::scope::{
    CREDENTIAL_HEADERS, HARMLESS_HEADERS, ScopeInput, Secret, TenantKey, header_barrier, node_key,
    request_key, scope_key, tenant_key,
};
use zlrs_wire::{Protocol, Reason, RequestView};

type Header = (String, String);

const SECRET: Secret = Secret::new([7; 32]);

fn header(name: &str, value: &str) -> Header {
    (name.to_owned(), value.to_owned())
}

/// Scope and ask of a request, or `None` where it is not eligible.
fn keys_with(
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

fn keys(protocol: Protocol, body: &Json) -> Option<([u8; 32], [u8; 32])> {
    keys_with(protocol, body, &[], &[])
}

fn plain() -> Json {
    json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]})
}

/// Values of many shapes for one field, all different.
fn values() -> Vec<Json> {
    vec![
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(1),
        json!(0.5),
        json!(2),
        json!("a"),
        json!("b"),
        json!(""),
        json!([]),
        json!(["text"]),
        json!(["a"]),
        json!({}),
        json!({"type": "ephemeral"}),
        json!({"type": "a"}),
        json!({"include_usage": true}),
        json!([{"type": "text", "text": "a"}]),
        json!([{"role": "user", "content": "a"}]),
        json!([{"role": "user", "content": "b"}]),
        json!([{"role": "user", "content": [{"type": "text", "text": "a"}]}]),
    ]
}

/// Of two values of one field: equal keys only where the field is ignored.
fn check_field(protocol: Protocol, (name, rule): &Field, place: impl Fn(&Json, Option<&Json>) -> Json) {
    let (mut eligible, mut seen) = (0, BTreeMap::<([u8; 32], [u8; 32]), Json>::new());
    let base = plain();
    for value in std::iter::once(None).chain(values().iter().map(Some)) {
        let body = place(&base, value);
        let Some(key) = keys(protocol, &body) else { continue };
        eligible += 1;
        if let Some(other) = seen.insert(key, body.clone()) {
            assert!(rule.is_ignored(), "{name}: {other} and {body} have one key");
        }
    }
    if rule.is_ignored() {
        assert_eq!(seen.len(), 1, "{name} is not ignored");
        assert!(eligible > 1, "{name} was never eligible");
    }
    let never = matches!(rule, Rule::Never(_));
    assert!(eligible > 0 || never || matches!(rule, Rule::Model | Rule::Turns), "{name} was never eligible");
}

#[test]
fn every_top_level_field_is_in_the_scope_or_on_the_ignore_list() {
    for protocol in [Protocol::Messages, Protocol::Chat] {
        for field in fields::body(protocol) {
            check_field(protocol, field, |base, value| {
                let mut body = base.clone();
                if let Some(value) = value {
                    body[field.0] = value.clone();
                }
                body
            });
        }
    }
}

#[test]
fn every_field_of_a_turn_and_of_a_block_is_in_the_scope_or_on_the_ignore_list() {
    for protocol in [Protocol::Messages, Protocol::Chat] {
        for field in fields::turn(protocol) {
            check_field(protocol, field, |_, value| {
                let mut turn = json!({"role": "assistant", "content": "a"});
                if let Some(value) = value {
                    turn[field.0] = value.clone();
                }
                json!({"model": "m", "messages": [turn, {"role": "user", "content": "b"}]})
            });
        }
        for (kind, rule) in fields::blocks(protocol) {
            if matches!(rule, Rule::Never(_)) {
                let body = json!({"model": "m", "messages": [{"role": "user", "content": [{"type": kind}, {"type": "text", "text": "a"}]}]});
                assert_eq!(keys(protocol, &body), None, "{kind}");
            }
            for field in fields::block_fields(protocol, kind) {
                check_field(protocol, field, |_, value| {
                    let mut block = json!({"type": kind});
                    if ["text", "thinking", "refusal"].contains(kind) {
                        block[*kind] = json!("t");
                    }
                    if let Some(value) = value {
                        block[field.0] = value.clone();
                    }
                    json!({"model": "m", "messages": [{"role": "assistant", "content": [block]}, {"role": "user", "content": "b"}]})
                });
            }
        }
    }
}

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
fn cookies_and_encoded_bodies_are_barriers() {
    let barrier =
        |name: &str, value: &str| header_barrier(&[header(name, value)]).map(|refusal| refusal.reason);
    assert_eq!(barrier("Cookie", "a=b"), Some(Reason::Cookie));
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

/// A request from few choices, so that two of them are often the same but for what is ignored.
fn request() -> impl Strategy<Value = Json> {
    let text = || {
        prop::sample::select(vec![
            "a",
            "b",
            "",
            "ab",
            "x-anthropic-billing-header: cch=1;",
            "x-anthropic-billing-header: cch=2;",
        ])
    };
    let cache = || {
        prop::option::of(prop::sample::select(vec![
            json!(null),
            json!({"type": "ephemeral"}),
            json!({"type": "ephemeral", "ttl": "1h"}),
        ]))
    };
    let block = (text(), cache()).prop_map(|(text, cache)| {
        let mut block = json!({"type": "text", "text": text});
        if let Some(cache) = cache {
            block["cache_control"] = cache;
        }
        block
    });
    let content = || {
        prop_oneof![
            text().prop_map(Json::from),
            prop::collection::vec(block.clone(), 0..3).prop_map(Json::Array),
        ]
        .boxed()
    };
    let turn = (prop::sample::select(vec!["user", "assistant"]), content())
        .prop_map(|(role, content)| json!({"role": role, "content": content}));
    let extra = || {
        prop::option::of(prop::sample::select(vec![
            json!(null),
            json!(0),
            json!(1),
            json!({"a": "b"}),
            json!(true),
        ]))
    };
    (
        prop::option::of(content()),
        prop::collection::vec(turn, 0..3),
        content(),
        extra(),
        extra(),
        extra(),
        cache(),
    )
        .prop_map(|(system, mut turns, last, top_k, metadata, stream, cache)| {
            turns.push(json!({"role": "user", "content": last}));
            let mut body = json!({"model": "m", "messages": turns});
            for (name, value) in [
                ("system", system),
                ("top_k", top_k),
                ("metadata", metadata),
                ("stream", stream),
                ("cache_control", cache),
            ] {
                if let Some(value) = value {
                    body[name] = value;
                }
            }
            body
        })
}

/// What the rules say about a request, written plainly.
fn naive(mut body: Json) -> (bool, Json) {
    let object = body.as_object_mut().unwrap();
    for ignored in ["stream", "metadata", "cache_control"] {
        object.shift_remove(ignored);
    }
    let mut attribution = false;
    if let Some(system) = object.get_mut("system") {
        if let Some(text) = system.as_str() {
            if text.starts_with("x-anthropic") {
                attribution = true;
                *system = json!("");
            }
        } else if system[0]["text"].as_str().is_some_and(|text| text.starts_with("x-anthropic")) {
            attribution = true;
            system.as_array_mut().unwrap().remove(0);
        }
        strip_cache(system);
    }
    for turn in object["messages"].as_array_mut().unwrap() {
        strip_cache(&mut turn["content"]);
    }
    (attribution, body)
}

fn strip_cache(content: &mut Json) {
    for block in content.as_array_mut().into_iter().flatten() {
        block.as_object_mut().unwrap().shift_remove("cache_control");
    }
}

/// Takes an encoding apart again: that this works is why no two inputs share one.
fn decode<'a>(bytes: &'a [u8]) -> (Value<'a>, &'a [u8]) {
    let (tag, count) = (bytes[0], u64::from_le_bytes(bytes[1..9].try_into().unwrap()) as usize);
    let mut rest = &bytes[9..];
    let mut take = |count: usize| -> &'a str {
        let (part, after) = rest.split_at(count);
        rest = after;
        std::str::from_utf8(part).unwrap()
    };
    let value = match tag {
        tag if tag == Tag::Null as u8 => Value::Null,
        tag if tag == Tag::False as u8 => Value::Bool(false),
        tag if tag == Tag::True as u8 => Value::Bool(true),
        tag if tag == Tag::Number as u8 => Value::Number(take(count).into()),
        tag if tag == Tag::String as u8 || tag == Tag::Key as u8 => Value::String(take(count).into()),
        tag if tag == Tag::Array as u8 => {
            let mut items = Vec::new();
            for _ in 0..count {
                let (item, after) = decode(rest);
                items.push(item);
                rest = after;
            }
            Value::Array(items)
        }
        _ => {
            let mut members = Vec::new();
            for _ in 0..count {
                let (name, after) = decode(rest);
                let (member, after) = decode(after);
                members.push((name.as_str().unwrap().to_owned().into(), member));
                rest = after;
            }
            Value::Object(members)
        }
    };
    (value, rest)
}

fn any_value() -> impl Strategy<Value = Value<'static>> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i32>().prop_map(|number| Value::Number(number.to_string().into())),
        any::<String>().prop_map(Value::text),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((any::<String>(), inner), 0..4).prop_map(|members| Value::Object(
                members.into_iter().map(|(name, value)| (name.into(), value)).collect()
            )),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn keys_are_equal_exactly_where_the_rules_say_so(
        left in request(),
        other in request(),
        changed in prop::collection::vec(prop::bool::weighted(0.3), 6),
    ) {
        let mut right = left.clone();
        let names = ["messages", "system", "top_k", "metadata", "stream", "cache_control"];
        for (name, _) in names.iter().zip(changed).filter(|(_, changed)| *changed) {
            match other.get(name) {
                Some(value) => right[*name] = value.clone(),
                None => drop(right.as_object_mut().unwrap().shift_remove(*name)),
            }
        }
        let (Some(left_keys), Some(right_keys)) = (keys(Protocol::Messages, &left), keys(Protocol::Messages, &right)) else {
            return Ok(());
        };
        prop_assert_eq!(left_keys == right_keys, naive(left.clone()) == naive(right.clone()), "{} {}", left, right);
    }

    #[test]
    fn an_encoding_can_be_taken_apart(value_in in any_value()) {
        let mut encoded = Vec::new();
        value(&mut encoded, &value_in);
        let (decoded, rest) = decode(&encoded);
        prop_assert!(rest.is_empty());
        prop_assert_eq!(decoded, value_in);
    }

    #[test]
    fn no_two_lists_of_fields_have_one_encoding(
        left in prop::collection::vec("[ab]{0,3}", 0..5),
        right in prop::collection::vec("[ab]{0,3}", 0..5),
    ) {
        let encode = |fields: &[String]| {
            let mut out = Vec::new();
            list(&mut out, Tag::Body, fields.len());
            fields.iter().for_each(|field| bytes(&mut out, Tag::Key, field.as_bytes()));
            out
        };
        prop_assert_eq!(encode(&left) == encode(&right), left == right);
    }

    #[test]
    fn tenants_are_their_credentials(
        left in prop::collection::vec((prop::sample::select(CREDENTIAL_HEADERS), "[ab]{0,2}"), 0..4),
        right in prop::collection::vec((prop::sample::select(CREDENTIAL_HEADERS), "[ab]{0,2}"), 0..4),
    ) {
        // Of one header the order of values counts, between headers it does not.
        let naive = |headers: &[(&str, String)]| CREDENTIAL_HEADERS
            .iter()
            .map(|name| headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.clone()).collect::<Vec<_>>())
            .collect::<Vec<_>>();
        let equal = tenant_key(&SECRET, &left) == tenant_key(&SECRET, &right);
        prop_assert_eq!(equal, naive(&left) == naive(&right));
    }
}
