//! Keys against the rules written plainly, and why no two inputs share an encoding.

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use zlrs_wire::Protocol;
use zlrs_wire::json::Value;
use zlrs_wire::scope::encode::{Tag, bytes, list, value};
use zlrs_wire::scope::{CREDENTIAL_HEADERS, tenant_key};

use crate::samples::{SECRET, keys};

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
            for field in fields {
                bytes(&mut out, Tag::Key, field.as_bytes());
            }
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
