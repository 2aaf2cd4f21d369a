//! Request headers that the graph obeys, and the values it answers with.

use proptest::prelude::*;
use zlrs_wire::header::{
    Bound, DecisionKind, DecisionValue, GraphHeaders, HEADERS, HeaderError, Route, Stage, canonical,
};
use zlrs_wire::scope::NodeKey;
use zlrs_wire::{Reason, Refusal};

fn parse(headers: &[(&str, &str)]) -> Result<GraphHeaders, HeaderError> {
    GraphHeaders::parse(headers, false)
}

#[test]
fn every_header_is_read() {
    let headers = [
        ("x-zlrs-no-graph", "true"),
        ("X-ZLRS-CACHE-ONLY", " True "),
        ("X-ZLRS-Multi-Modal", "false"),
        ("X-ZLRS-Diagnostic", "full"),
        ("X-ZLRS-Cohort", "Team-A_1.x"),
    ];
    let expected = GraphHeaders {
        no_graph: true,
        cache_only: true,
        multi_modal: false,
        diagnostic: true,
        cohort: Some("Team-A_1.x".to_owned()),
        historical: false,
        degraded: Vec::new(),
    };
    assert_eq!(parse(&headers), Ok(expected));
    assert_eq!(parse(&[("accept", "x")]), Ok(GraphHeaders::default()));
}

#[test]
fn a_value_that_is_not_in_the_table_names_everything() {
    let error = parse(&[("x-zlrs-no-graph", "maybe")]).expect_err("a bad value");
    assert_eq!(
        error.to_string(),
        r#"header X-ZLRS-No-Graph: the value "maybe" is not allowed; allowed: false, true"#
    );
    for (name, value) in [
        ("X-ZLRS-Cohort", ""),
        ("X-ZLRS-Cohort", "a b"),
        ("X-ZLRS-Cohort", "é"),
        ("X-ZLRS-Diagnostic", "true"),
        ("X-ZLRS-Cache-Only", "1"),
    ] {
        assert!(parse(&[(name, value)]).is_err(), "{name}: {value}");
    }
    assert!(parse(&[("X-ZLRS-Cohort", &"a".repeat(64))]).is_ok());
    assert!(parse(&[("X-ZLRS-Cohort", &"a".repeat(65))]).is_err());
    assert!(GraphHeaders::parse(&[(b"x-zlrs-cohort", b"\xff")], false).is_err());
    assert!(parse(&[("X-ZLRS-No-Graph", "true"), ("x-zlrs-no-graph", "false")]).is_err());
    assert!(parse(&[("X-ZLRS-No-Graph", "true"), ("x-zlrs-no-graph", "true")]).is_ok());
}

#[test]
fn historical_names_are_read_degrade_and_lose_against_canonical_ones() {
    for name in ["bypass-zero-layer", "bypass_zero_layer"] {
        let headers = parse(&[(name, "true")]).expect("read");
        assert!(headers.no_graph && headers.historical, "{name}");
    }
    assert!(parse(&[("cache-only", "true")]).expect("read").cache_only);
    assert!(parse(&[("x-multi-modal", "true")]).expect("read").multi_modal);
    let degraded = parse(&[("cache-only", "perhaps")]).expect("degrades");
    assert_eq!((degraded.cache_only, degraded.degraded), (false, vec!["X-ZLRS-Cache-Only"]));
    let both = parse(&[("bypass-zero-layer", "true"), ("X-ZLRS-No-Graph", "false")]).expect("read");
    assert!(!both.no_graph && !both.historical);
}

#[test]
fn the_vendors_name_space_is_read_only_when_asked_for() {
    let headers = [("X-Anthropic-Diagnostic", "full")];
    assert_eq!(GraphHeaders::parse(&headers, false), Ok(GraphHeaders::default()));
    assert!(GraphHeaders::parse(&headers, true).expect("read").diagnostic);
}

#[test]
fn names_are_found_in_any_case() {
    assert_eq!(canonical(b"x-zlrs-DECISION"), Some("X-ZLRS-Decision"));
    assert_eq!(canonical(b"x-anthropic-session"), None);
    assert!(HEADERS.iter().all(|header| header.name.starts_with("X-ZLRS-")));
}

#[test]
fn a_decision_is_written_as_the_table_says() {
    let mut decision = DecisionValue::new(DecisionKind::Hit);
    decision.route = Some(Route::Same);
    decision.node = Some(NodeKey([0xab; 32]));
    decision.stage = Some(Stage::Full);
    decision.bound = Some(Bound::Replay);
    assert_eq!(decision.to_string(), "hit;route=same;node=abababababababab;stage=full;bound=replay");
    decision.bound = Some(Bound::Rate(0.001));
    decision.trials = Some((3232, 0));
    assert!(decision.to_string().ends_with(";bound=0.00100;n=3232;s=0"));
    let mut skipped = DecisionValue::new(DecisionKind::Skipped);
    skipped.refusal = Some(Refusal::new(Reason::UnknownField, "messages[0].foo"));
    assert_eq!(skipped.to_string(), "skipped;reason=unknown_field:messages[0].foo");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_headers_never_panic(headers in prop::collection::vec((any::<Vec<u8>>(), any::<Vec<u8>>()), 0..6)) {
        let _ = GraphHeaders::parse(&headers, true);
    }

    #[test]
    fn a_path_never_brings_other_bytes_into_a_header(path in any::<String>()) {
        let mut decision = DecisionValue::new(DecisionKind::Skipped);
        decision.refusal = Some(Refusal::new(Reason::UnknownField, path));
        let value = decision.to_string();
        prop_assert!(value.len() < 160);
        prop_assert!(value.bytes().all(|byte| byte.is_ascii_graphic()));
        prop_assert_eq!(value.matches(';').count(), 1);
    }
}
