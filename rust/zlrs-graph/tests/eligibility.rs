//! The never-lists: each line is a request that must not be answered from the graph, and its reason.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test stops at what is wrong")]

use zlrs_graph::{AbsentTemperature, Settings, check_form, check_headers, check_words, volatile_words};
use zlrs_wire::{Protocol, RequestView};

/// The reason's header value, or the ask.
fn body(settings: &Settings, protocol: Protocol, body: &str) -> Result<String, String> {
    let view = RequestView::parse(protocol, body.as_bytes()).map_err(|refusal| refusal.header_value())?;
    let ask = check_form(settings, &view).and_then(|ask| check_words(ask).map(|()| ask));
    ask.map(str::to_owned).map_err(|refusal| refusal.header_value())
}

/// A Messages body with more fields.
fn messages(more: &str) -> String {
    format!(
        r#"{{"model":"m","max_tokens":9,"messages":[{{"role":"user","content":"Where is order 7?"}}]{more}}}"#
    )
}

/// A Messages body with other turns.
fn turns(turns: &str) -> String {
    format!(r#"{{"model":"m","max_tokens":9,"temperature":0,"messages":[{turns}]}}"#)
}

fn chat(more: &str) -> String {
    format!(r#"{{"model":"m","messages":[{{"role":"user","content":"Where is order 7?"}}]{more}}}"#)
}

#[test]
fn what_is_eligible_gives_its_ask() {
    let settings = Settings::default();
    for more in [
        r#","temperature":0"#,
        r#","temperature":0.0"#,
        r#","temperature":0.1"#,
        r#","temperature":1e-3"#,
        r#","temperature":0,"stream":true,"top_p":0.9,"system":"Be brief.","metadata":{"user_id":"x"}"#,
        r#","temperature":0,"tools":[],"container":null"#,
    ] {
        assert_eq!(
            body(&settings, Protocol::Messages, &messages(more)).as_deref(),
            Ok("Where is order 7?"),
            "{more}"
        );
    }
    for more in [
        r#","temperature":0"#,
        r#","temperature":0,"n":1,"stream":true,"stream_options":{"include_usage":true}"#,
    ] {
        assert_eq!(
            body(&settings, Protocol::Chat, &chat(more)).as_deref(),
            Ok("Where is order 7?"),
            "{more}"
        );
    }
}

#[test]
fn never_lists_of_messages() {
    let settings = Settings::default();
    let user = r#"{"role":"user","content":"Where is order 7?"}"#;
    let block = |block: &str| {
        turns(&format!(r#"{{"role":"user","content":[{block},{{"type":"text","text":"What?"}}]}}"#))
    };
    let table: Vec<(String, &str)> = vec![
        (messages(""), "temperature_default"),
        (messages(r#","temperature":null"#), "temperature_default"),
        (messages(r#","temperature":0.11"#), "temperature_high"),
        (messages(r#","temperature":1"#), "temperature_high"),
        (messages(r#","temperature":-0.1"#), "temperature_high"),
        (messages(r#","temperature":"0""#), "wrong_type:temperature"),
        (messages(r#","temperature":0,"tools":[{"name":"t","input_schema":{}}]"#), "tools:tools"),
        (messages(r#","temperature":0,"tool_choice":{"type":"auto"}"#), "tools:tool_choice"),
        (messages(r#","temperature":0,"mcp_servers":[{}]"#), "tools:mcp_servers"),
        (messages(r#","temperature":0,"container":"c_1""#), "stateful:container"),
        (
            messages(r#","temperature":0,"previous_response_id":"r"}"#).replace("}}", "}"),
            "stateful:previous_response_id",
        ),
        (messages(r#","temperature":0,"surprise":{"deep":1}"#), "unknown_field:surprise"),
        (messages(r#","temperature":0,"model":"twice""#), "duplicate_key:model"),
        (turns(r#"{"role":"user","content":"x","surprise":1}"#), "unknown_field:messages[0].surprise"),
        (turns(&format!(r#"{user},{{"role":"assistant","content":"It is"}}"#)), "no_ask:messages[1]"),
        (turns(r#"{"role":"user","content":"  "}"#), "no_ask:messages[0]"),
        (turns(""), "no_ask:messages"),
        (block(r#"{"type":"image","source":{}}"#), "modality:messages[0].content[0].type"),
        (block(r#"{"type":"document","source":{}}"#), "modality:messages[0].content[0].type"),
        (
            block(r#"{"type":"tool_result","tool_use_id":"t","content":"x"}"#),
            "tools:messages[0].content[0].type",
        ),
        (block(r#"{"type":"something_new"}"#), "unknown_value:messages[0].content[0].type"),
        (
            turns(&format!(
                r#"{{"role":"assistant","content":[{{"type":"tool_use","id":"t","name":"n","input":{{}}}}]}},{user}"#
            )),
            "tools:messages[0].content[0].type",
        ),
        (turns(r#"{"role":"user","content":"What is the latest version?"}"#), "volatile"),
        ("{".to_owned(), "malformed_json"),
        ("[]".to_owned(), "wrong_type"),
    ];
    for (request, reason) in table {
        assert_eq!(body(&settings, Protocol::Messages, &request), Err(reason.to_owned()), "{request}");
    }
}

#[test]
fn never_lists_of_chat() {
    let settings = Settings::default();
    let cold = |more: &str| chat(&format!(r#","temperature":0{more}"#));
    let table: Vec<(String, &str)> = vec![
        (chat(""), "temperature_default"),
        (chat(r#","temperature":0.7"#), "temperature_high"),
        (cold(r#","n":2"#), "choices:n"),
        (cold(r#","tools":[{"type":"function"}]"#), "tools:tools"),
        (cold(r#","functions":[{}]"#), "tools:functions"),
        (cold(r#","modalities":["text","audio"]"#), "modality:modalities"),
        (cold(r#","audio":{"voice":"v"}"#), "modality:audio"),
        (cold(r#","store":true"#), "stateful:store"),
        (cold(r#","conversation":"c""#), "stateful:conversation"),
        (cold(r#","web_search_options":{}"#), "tools:web_search_options"),
        (cold(r#","surprise":1"#), "unknown_field:surprise"),
        (
            r#"{"model":"m","temperature":0,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}},{"type":"text","text":"What?"}]}]}"#.to_owned(),
            "modality:messages[0].content[0].type",
        ),
        (
            r#"{"model":"m","temperature":0,"messages":[{"role":"tool","tool_call_id":"t","content":"x"},{"role":"user","content":"And?"}]}"#.to_owned(),
            "tools:messages[0].role",
        ),
    ];
    for (request, reason) in table {
        let given = body(&settings, Protocol::Chat, &request);
        assert_eq!(given, Err(reason.to_owned()), "{request}");
    }
}

#[test]
fn headers_that_keep_a_request_away() {
    let settings = Settings::default();
    let check = |headers: &[(&str, &str)]| {
        check_headers(&settings, headers).map_err(|refusal| refusal.header_value())
    };
    assert_eq!(
        check(&[("accept", "*/*"), ("x-zlrs-no-graph", "false"), ("content-encoding", "identity")]),
        Ok(())
    );
    for (header, reason) in [
        (("Cookie", "a=b"), "cookie:cookie"),
        (("Content-Encoding", "gzip"), "encoded_body:content-encoding"),
        (("X-ZLRS-No-Graph", "true"), "no_graph_header"),
        (("bypass-zero-layer", "true"), "no_graph_header"),
        (("bypass_zero_layer", "TRUE"), "no_graph_header"),
        (("bypass-zero-layer", "yes please"), "no_graph_header"),
        (("X-ZLRS-Multi-Modal", "true"), "multi_modal_header"),
        (("x-multi-modal", "true"), "multi_modal_header"),
        (("X-ZLRS-No-Graph", "maybe"), "unknown_value:x-zlrs-no-graph"),
    ] {
        assert_eq!(check(&[("accept", "*/*"), header]), Err(reason.to_owned()), "{header:?}");
    }
    let off = Settings { same: false, ..Settings::default() };
    assert_eq!(check_headers::<&str, &str>(&off, &[]).unwrap_err().header_value(), "graph_off");
}

#[test]
fn settings_move_only_what_they_name() {
    let absent = Settings { absent_temperature: AbsentTemperature::Eligible, ..Settings::default() };
    assert!(body(&absent, Protocol::Messages, &messages("")).is_ok());
    assert_eq!(
        body(&absent, Protocol::Messages, &messages(r#","temperature":1"#)),
        Err("temperature_high".into())
    );
    let zero = Settings { temperature_limit: 0.0, ..Settings::default() };
    assert!(body(&zero, Protocol::Messages, &messages(r#","temperature":0"#)).is_ok());
    assert_eq!(
        body(&zero, Protocol::Messages, &messages(r#","temperature":0.01"#)),
        Err("temperature_high".into())
    );
    let short = Settings { max_ask_chars: 17, ..Settings::default() };
    assert!(body(&short, Protocol::Messages, &messages(r#","temperature":0"#)).is_ok());
    let shorter = Settings { max_ask_chars: 16, ..Settings::default() };
    assert_eq!(
        body(&shorter, Protocol::Messages, &messages(r#","temperature":0"#)),
        Err("ask_too_long".into())
    );
}

#[test]
fn asks_about_a_moving_present() {
    for (ask, word) in [
        ("What is happening now?", "now"),
        ("NOW!", "now"),
        ("now", "now"),
        ("Summarise today's news", "today"),
        ("the latest release", "latest"),
        ("Who is the current president?", "current"),
        ("What time is it in Oslo?", "what time"),
        ("plans for this   week", "this week"),
        ("Sales, last\nquarter", "last quarter"),
        ("the state as of 2024", "as of"),
        ("prices so far", "so far"),
        ("weather-today", "today"),
        ("Was gibt es Neues? (today)", "today"),
        ("今天天气怎么样", "今天"),
        ("请告诉我现在的汇率", "现在"),
        ("最新的版本是什么？", "最新"),
        ("現在幾點？", "現在"),
        ("What is 最近 news", "最近"),
    ] {
        assert_eq!(volatile_words(ask).as_deref(), Some(word), "{ask}");
    }
    for ask in [
        "How do I know the order number?",
        "Explain snow and nowhere",
        "Is this may be a problem",
        "What are the todays_var semantics?",
        "currents in a circuit",
        "The latestness principle",
        "What is the return period?",
        "解释一下光合作用",
        "",
    ] {
        assert_eq!(volatile_words(ask), None, "{ask}");
    }
}
