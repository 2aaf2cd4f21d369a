//! Places of texts, held against the strict tree.
#![expect(clippy::expect_used, reason = "helpers of tests stand outside the test functions")]

use proptest::prelude::*;
use serde_json::{Value, json};
use zlrs_wire::json::parse;
use zlrs_wire::places::{Writer, places};

fn found(body: &str) -> Vec<(String, Writer, String)> {
    let places = places(body.as_bytes()).expect(body);
    places.texts.into_iter().map(|text| (text.path, text.writer, text.text)).collect()
}

fn named(list: &[(&str, Writer, &str)]) -> Vec<(String, Writer, String)> {
    list.iter().map(|(path, writer, text)| ((*path).to_owned(), *writer, (*text).to_owned())).collect()
}

#[test]
fn every_text_of_a_messages_body_has_its_writer() {
    let body = r#" {"messages" : [
        {"content":"a\u0062","role":"user"},
        {"role":"assistant","content":[{"type":"thinking","thinking":"t","text":"no"},{"type":"text","text":"c"}]},
        {"role":"user","content":[
            {"type":"tool_result","tool_use_id":"x","content":[{"type":"text","text":"d"},{"type":"image"}]},
            {"type":"tool_result","content":"e"},{"type":"text","text":"f\n","cache_control":{"type":"ephemeral"}},
            {"type":"document","source":{"type":"text","data":"g"}}]},
        {"role":"system","content":"h"},{"role":"system","content":"i"}],
        "system":[{"type":"text","text":"one"},{"text":"two","type":"text"}], "max_tokens":5 } "#;
    let wanted = named(&[
        ("messages[0].content", Writer::User, "ab"),
        ("messages[1].content[1].text", Writer::Assistant, "c"),
        ("messages[2].content[0].content[0].text", Writer::Tool, "d"),
        ("messages[2].content[1].content", Writer::Tool, "e"),
        ("messages[2].content[2].text", Writer::User, "f\n"),
        ("messages[3].content", Writer::FirstSystem, "h"),
        ("messages[4].content", Writer::System, "i"),
        ("system[0].text", Writer::FirstSystem, "one"),
        ("system[1].text", Writer::System, "two"),
    ]);
    assert_eq!(found(body), wanted);
}

#[test]
fn chat_responses_and_batch_bodies() {
    assert_eq!(
        found(r#"{"messages":[{"role":"developer","content":"s"},{"role":"tool","content":"t"}]}"#),
        named(&[
            ("messages[0].content", Writer::FirstSystem, "s"),
            ("messages[1].content", Writer::Tool, "t")
        ])
    );
    assert_eq!(
        found(r#"{"input":"hello","instructions":"be kind"}"#),
        named(&[("input", Writer::User, "hello"), ("instructions", Writer::FirstSystem, "be kind")])
    );
    assert_eq!(
        found(
            r#"{"input":[{"role":"user","content":[{"type":"input_text","text":"a"}]},{"type":"function_call_output","output":"b"}]}"#
        ),
        named(&[("input[0].content[0].text", Writer::User, "a"), ("input[1].output", Writer::Tool, "b")])
    );
    assert_eq!(
        found(
            r#"{"requests":[{"custom_id":"1","params":{"system":"s","messages":[{"role":"user","content":"a"}]}},{"params":{"system":"z"}}]}"#
        ),
        named(&[
            ("requests[0].params.system", Writer::FirstSystem, "s"),
            ("requests[0].params.messages[0].content", Writer::User, "a"),
            ("requests[1].params.system", Writer::FirstSystem, "z"),
        ])
    );
}

#[test]
fn members_have_the_bytes_of_their_values() {
    let body = br#"{ "temperature" : 0.7 ,"tools":[{"a":"]}"}],"stream":true,"x":null}"#;
    let places = places(body).expect("good");
    let shown: Vec<(&str, &str)> = places
        .members
        .iter()
        .map(|(name, range)| (name.as_str(), std::str::from_utf8(&body[range.clone()]).expect("text")))
        .collect();
    assert_eq!(
        shown,
        [("temperature", "0.7"), ("tools", r#"[{"a":"]}"}]"#), ("stream", "true"), ("x", "null")]
    );
    assert_eq!(places.inside, 1);
}

#[test]
fn what_two_readers_could_read_differently_has_no_places() {
    for body in [r#"{"system":"a","system":"b"}"#, "{", r#"{"system":"\ud800"}"#, "[1] 2"] {
        assert!(places(body.as_bytes()).is_err(), "{body}");
    }
    assert!(places(b"[1,2]").expect("good").texts.is_empty());
    assert!(places(b"\"text\"").expect("good").texts.is_empty());
}

fn content() -> impl Strategy<Value = Value> {
    let block = (prop::sample::select(vec!["text", "image", "tool_result", "thinking"]), any::<String>())
        .prop_map(
            |(kind, text)| json!({"type": kind, "text": text, "content": [{"type": "text", "text": text}]}),
        );
    prop_oneof![
        any::<String>().prop_map(Value::String),
        prop::collection::vec(block, 0..4).prop_map(Value::Array),
        Just(Value::Null),
        Just(json!([1, "x", {"text": 5, "type": "text"}, []])),
    ]
}

proptest! {
    /// Putting other texts in at the places gives the body with those texts and nothing else changed.
    #[test]
    fn texts_can_be_put_in_place(
        system in content(),
        turns in prop::collection::vec(
            (prop::sample::select(vec!["user", "assistant", "system", "tool", "?"]), content()), 0..5),
        pretty in any::<bool>(),
    ) {
        let messages: Vec<Value> =
            turns.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect();
        let body = json!({"model": "m", "system": system, "messages": messages, "n": 1.5});
        let bytes = if pretty { serde_json::to_vec_pretty(&body) } else { serde_json::to_vec(&body) }.expect("JSON");
        let places = places(&bytes).expect("good");
        let mut out = Vec::new();
        let mut at = 0;
        for text in &places.texts {
            prop_assert!(text.range.start >= at);
            let read = parse(&bytes[text.range.clone()]).expect("string");
            prop_assert_eq!(read.as_str(), Some(text.text.as_str()));
            prop_assert_eq!(body.pointer(&pointer(&text.path)), Some(&json!(text.text)));
            out.extend_from_slice(&bytes[at..text.range.start]);
            out.extend_from_slice(&serde_json::to_vec(&format!("{}!", text.text)).expect("JSON"));
            at = text.range.end;
        }
        out.extend_from_slice(&bytes[at..]);
        let mut wanted = body.clone();
        for text in &places.texts {
            *wanted.pointer_mut(&pointer(&text.path)).expect("there") = json!(format!("{}!", text.text));
        }
        prop_assert_eq!(serde_json::from_slice::<Value>(&out).expect("JSON"), wanted);
    }

    /// Whatever the bytes are, the walk ends and its places lie inside.
    #[test]
    fn any_bytes(body in "[\\[\\]{}\",:a0\\\\ ]{0,40}") {
        if let Ok(places) = places(body.as_bytes()) {
            prop_assert!(places.members.iter().all(|(_, range)| range.end <= body.len()));
        }
    }
}

/// `a[0].b` as a JSON pointer.
fn pointer(path: &str) -> String {
    format!("/{}", path.replace("].", "/").replace('[', "/").replace(']', "").replace('.', "/"))
}
