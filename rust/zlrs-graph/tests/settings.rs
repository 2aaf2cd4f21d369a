//! Settings: strict JSON, checked ranges.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test stops at what is wrong")]

use zlrs_graph::{AbsentTemperature, Settings, SettingsError};

#[test]
fn an_empty_object_is_all_defaults_and_defaults_read_back() {
    let defaults = Settings::from_json(b"{}").unwrap();
    assert_eq!(defaults, Settings::default());
    assert_eq!((defaults.ttl_s, defaults.temperature_limit), (86_400, 0.1));
    assert!(defaults.same && defaults.credential_check && defaults.audit);
    let written = serde_json::to_vec(&defaults).unwrap();
    assert_eq!(Settings::from_json(&written).unwrap(), defaults);
}

#[test]
fn given_values_are_taken() {
    let json = br#"{"same":false,"ttl_s":60,"absent_temperature":"eligible","credential_check":false}"#;
    let settings = Settings::from_json(json).unwrap();
    assert!(!settings.same && !settings.credential_check);
    assert_eq!((settings.ttl_s, settings.absent_temperature), (60, AbsentTemperature::Eligible));
}

#[test]
fn what_is_not_known_or_not_of_its_type_is_refused() {
    for json in [
        r#"{"tttl_s":60}"#,
        r#"{"ttl_s":"60"}"#,
        r#"{"ttl_s":-1}"#,
        r#"{"ttl_s":1.5}"#,
        r#"{"ttl_s":60,"ttl_s":61}"#,
        r#"{"absent_temperature":"yes"}"#,
        r#"{"same":1}"#,
        r#"{"same":true} trailing"#,
        "[]x",
        "",
        "null",
    ] {
        assert!(matches!(Settings::from_json(json.as_bytes()), Err(SettingsError::Shape(_))), "{json}");
    }
}

#[test]
fn values_out_of_range_are_refused_with_the_range() {
    for (json, name) in [
        (r#"{"ttl_s":0}"#, "ttl_s"),
        (r#"{"ttl_s":2592001}"#, "ttl_s"),
        (r#"{"max_answer_bytes":0}"#, "max_answer_bytes"),
        (r#"{"max_ask_chars":0}"#, "max_ask_chars"),
        (r#"{"temperature_limit":0.2}"#, "temperature_limit"),
        (r#"{"temperature_limit":-0.1}"#, "temperature_limit"),
        (r#"{"credential_window_s":0}"#, "credential_window_s"),
        (r#"{"max_entries":0}"#, "max_entries"),
        (r#"{"max_bytes":10}"#, "max_bytes"),
        (r#"{"read_deadline_ms":0}"#, "read_deadline_ms"),
        (r#"{"read_deadline_ms":1001}"#, "read_deadline_ms"),
    ] {
        let error = Settings::from_json(json.as_bytes()).unwrap_err();
        assert!(matches!(&error, SettingsError::Range { name: given, .. } if *given == name), "{json}");
        assert!(error.to_string().contains("allowed is"), "{error}");
    }
}
