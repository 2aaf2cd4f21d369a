//! The error table, its bodies and its reference page.

use std::collections::HashSet;
use std::path::Path;

use zlrs_wire::catalogue::{ErrorKind, reference_page};
use zlrs_wire::error_body::ErrorBody;
use zlrs_wire::{Protocol, Reason};

#[test]
fn names_and_classes_are_unique_and_plain() {
    let names: HashSet<&str> = ErrorKind::ALL.iter().map(|kind| kind.name()).collect();
    let classes: HashSet<&str> = ErrorKind::ALL.iter().map(|kind| kind.entry().python).collect();
    assert_eq!((names.len(), classes.len()), (ErrorKind::ALL.len(), ErrorKind::ALL.len()));
    for kind in ErrorKind::ALL {
        let entry = kind.entry();
        assert!(entry.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{}", entry.name);
        assert!(entry.status == 0 || (400..600).contains(&entry.status), "{}", entry.name);
        assert!(entry.suggestion.ends_with('.') && !entry.when.ends_with('.'), "{}", entry.name);
        assert!(!entry.when.contains('|') && !entry.suggestion.contains('|'), "{}", entry.name);
        assert_eq!(ErrorKind::from_name(entry.name), Some(*kind));
    }
    assert_eq!(ErrorKind::from_name("no_such_error"), None);
}

#[test]
fn the_protocols_own_types_have_their_status() {
    for (name, status) in [
        ("invalid_request_error", 400),
        ("authentication_error", 401),
        ("billing_error", 402),
        ("permission_error", 403),
        ("not_found_error", 404),
        ("request_too_large", 413),
        ("rate_limit_error", 429),
        ("api_error", 500),
        ("timeout_error", 504),
        ("overloaded_error", 529),
    ] {
        assert_eq!(ErrorKind::from_name(name).map(ErrorKind::status), Some(status), "{name}");
    }
}

#[test]
fn reasons_are_unique_and_plain() {
    let names: HashSet<&str> = Reason::ALL.iter().map(|reason| reason.name()).collect();
    assert_eq!(names.len(), Reason::ALL.len());
    for reason in Reason::ALL {
        assert!(
            reason
                .name()
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'),
            "{reason}"
        );
    }
}

#[test]
fn bodies_have_each_protocols_shape() {
    let body = ErrorBody {
        kind: ErrorKind::KvCorrupt,
        message: "state \"s\" is\ndamaged",
        suggestion: None,
        param: None,
        code: None,
        request_id: "req_1",
    };
    let messages: serde_json::Value =
        serde_json::from_slice(&body.to_json(Protocol::Messages)).expect("json");
    assert_eq!(
        messages,
        serde_json::json!({"type": "error", "request_id": "req_1", "error": {
            "type": "kv_corrupt", "message": "state \"s\" is\ndamaged", "code": "ERR_KV_CORRUPT_0x7F",
            "suggestion": ErrorKind::KvCorrupt.entry().suggestion,
        }})
    );
    let body = ErrorBody {
        kind: ErrorKind::InvalidRequest,
        message: "too long",
        suggestion: Some("cut it"),
        param: Some("messages"),
        code: Some("context_length_exceeded"),
        request_id: "req_1",
    };
    let chat: serde_json::Value = serde_json::from_slice(&body.to_json(Protocol::Chat)).expect("json");
    assert_eq!(
        chat,
        serde_json::json!({"error": {"message": "too long", "type": "invalid_request_error", "param": "messages",
            "code": "context_length_exceeded", "suggestion": "cut it"}})
    );
    let plain = ErrorBody { kind: ErrorKind::Authentication, param: None, code: None, ..body };
    let chat: serde_json::Value = serde_json::from_slice(&plain.to_json(Protocol::Chat)).expect("json");
    assert_eq!(chat["error"]["code"], "invalid_api_key");
    assert!(chat["error"]["param"].is_null());
}

/// `ZLRS_WRITE_DOCS=1` writes the page instead of comparing it.
#[test]
fn the_reference_page_is_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/errors.md");
    if std::env::var_os("ZLRS_WRITE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder");
        std::fs::write(&path, reference_page()).expect("the page");
    }
    let page = std::fs::read_to_string(&path).expect("docs/reference/errors.md");
    assert_eq!(page, reference_page(), "run the tests of zlrs-wire with ZLRS_WRITE_DOCS=1");
}
