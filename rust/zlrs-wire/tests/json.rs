//! Strict JSON, held against an independent reader.
#![expect(clippy::expect_used, reason = "helpers of tests stand outside the test functions")]

use proptest::prelude::*;
use zlrs_wire::Reason;
use zlrs_wire::json::{MAX_DEPTH, Value, parse};

fn reason(text: &str) -> (Reason, String) {
    let refusal = parse(text.as_bytes()).expect_err(text);
    (refusal.reason, refusal.path)
}

#[test]
fn refusals_name_their_reason_and_path() {
    let at = |reason, path: &str| (reason, path.to_owned());
    assert_eq!(reason(r#"{"a":1,"a":1}"#), at(Reason::DuplicateKey, "a"));
    assert_eq!(reason(r#"{"a":1,"b":2,"c":3,"a":1}"#), at(Reason::DuplicateKey, "a"));
    assert_eq!(reason(r#"{"a":1,"\u0061":1}"#), at(Reason::DuplicateKey, "a"));
    assert_eq!(reason(r#"{"x":[{"b":{"c":1,"c":2}}]}"#), at(Reason::DuplicateKey, "x[0].b.c"));
    assert_eq!(reason(r#"{"a b":[{"c":nope}]}"#), at(Reason::MalformedJson, r#"["a b"][0].c"#));
    assert_eq!(reason(r#"{"a":"\ud800"}"#), at(Reason::LoneSurrogate, "a"));
    assert_eq!(reason(r#"{"a":"\udc00x"}"#), at(Reason::LoneSurrogate, "a"));
    assert_eq!(reason(r#"["\ud83d\u0041"]"#), at(Reason::LoneSurrogate, "[0]"));
    assert_eq!(reason("{} x").0, Reason::MalformedJson);
    assert_eq!(reason("").0, Reason::MalformedJson);
    assert_eq!(reason("\u{FEFF}{}").0, Reason::MalformedJson);
    for number in ["01", "-", "1.", ".5", "+1", "1e", "NaN", "Infinity", "-Infinity", "0x1", "1_0", "--1"] {
        assert_eq!(reason(number).0, Reason::MalformedJson, "{number}");
    }
    assert_eq!(parse(b"\"\xff\"").expect_err("bytes").reason, Reason::InvalidUtf8);
    let many: Vec<String> = (0..40).map(|key| format!("\"k{key}\":0")).collect();
    assert_eq!(reason(&format!("{{{},\"k17\":1}}", many.join(","))), at(Reason::DuplicateKey, "k17"));
}

#[test]
fn depth_ends_at_the_limit() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse(nested(MAX_DEPTH).as_bytes()).is_ok());
    let refusal = parse(nested(MAX_DEPTH + 1).as_bytes()).expect_err("deep");
    assert_eq!(refusal.reason, Reason::TooDeep);
    assert_eq!(parse(nested(1_000_000).as_bytes()).expect_err("deeper").reason, Reason::TooDeep);
}

#[test]
fn numbers_keep_their_text() {
    for number in ["1", "1.0", "1e0", "-0", "0.10", "123456789012345678901234567890", "1e400"] {
        assert_eq!(parse(number.as_bytes()).expect("number").as_number(), Some(number));
    }
}

/// Any JSON value; keys of one object differ.
fn any_value() -> impl Strategy<Value = Value<'static>> {
    let number = prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>()
            .prop_filter("finite", |number| number.is_finite())
            .prop_map(|number| format!("{number:e}")),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number.prop_map(|text| Value::Number(text.into())),
        any::<String>().prop_map(Value::text),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::btree_map(any::<String>(), inner, 0..24).prop_map(|members| Value::Object(
                members.into_iter().map(|(name, value)| (name.into(), value)).collect()
            )),
        ]
    })
}

/// The value as the independent reader sees it.
fn to_serde(value: &Value<'_>) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Number(text) => serde_json::from_str(text).expect("a number"),
        Value::String(text) => text.as_ref().into(),
        Value::Array(items) => items.iter().map(to_serde).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.to_string(), to_serde(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
    }
}

/// Both readers agree, but for what only the strict one refuses.
fn agrees(bytes: &[u8]) -> Result<(), TestCaseError> {
    let theirs = serde_json::from_slice::<serde_json::Value>(bytes);
    match (parse(bytes), theirs) {
        (Ok(ours), Ok(theirs)) => prop_assert_eq!(to_serde(&ours), theirs),
        (Ok(_), Err(error)) => prop_assert!(error.to_string().contains("out of range"), "{}", error),
        (Err(refusal), Ok(_)) => {
            prop_assert!(matches!(refusal.reason, Reason::DuplicateKey | Reason::TooDeep), "{:?}", refusal);
        }
        (Err(_), Err(_)) => {}
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn writing_and_reading_is_identity(value in any_value()) {
        let text = value.to_json();
        prop_assert_eq!(&parse(&text).unwrap(), &value);
        let theirs: serde_json::Value = serde_json::from_slice(&text).unwrap();
        prop_assert_eq!(to_serde(&value), theirs);
    }

    #[test]
    fn another_writers_text_is_read_alike(value in any_value()) {
        let text = serde_json::to_vec_pretty(&to_serde(&value)).unwrap();
        agrees(&text)?;
        prop_assert!(parse(&text).is_ok());
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        agrees(&bytes)?;
    }

    #[test]
    fn json_like_bytes_are_read_alike(text in r#"[\[\]{}:,"\\ntrufalse0-9.eE+\- ud8Cc]{0,40}"#) {
        agrees(text.as_bytes())?;
    }

    #[test]
    fn damaged_text_is_read_alike(value in any_value(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut text = value.to_json();
        let at = at.index(text.len());
        text[at] = byte;
        agrees(&text)?;
    }
}
