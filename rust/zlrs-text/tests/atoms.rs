//! Typed values: what is found, and which spellings are one value.

use proptest::prelude::*;
use zlrs_text::{Atom, DomainPattern, Extractor, TextError, Value};

fn slots(text: &str) -> Vec<Atom> {
    Extractor::default().slots(text)
}

/// The one value of `text`.
fn one(text: &str) -> Value {
    let mut found = slots(text);
    assert_eq!(found.len(), 1, "{text:?}: {found:?}");
    found.remove(0).value
}

fn kinds(text: &str) -> Vec<&'static str> {
    slots(text).iter().map(|atom| atom.value.kind()).collect()
}

#[test]
fn spellings_of_one_value() {
    for (left, right) in [
        ("about 1,000 users", "about 1000 users"),
        ("1 km away", "1000 m away"),
        ("1.5 hours", "90 minutes"),
        ("2 公里", "2000米"),
        ("5 kilograms", "5kg"),
        ("a 5-day trip", "a five day trip"),
        ("三天", "3 days"),
        ("一百二十克", "120 g"),
        ("$1,000.00", "$1000"),
        ("$5k", "$5,000"),
        ("US$20", "20 USD"),
        ("20 euros", "€20"),
        ("¥50 元旦", "50元 元旦"),
        ("3 万元", "30000元"),
        ("12%", "12 percent"),
        ("百分之十二", "12%"),
        ("March 4, 2025", "2025-03-04"),
        ("4th of March 2025", "2025年3月4日"),
        ("13/04/2025", "2025-04-13"),
        ("next Monday", "下周一"),
        ("tomorrow", "明天"),
        ("3 pm", "15:00"),
        ("3:30 p.m.", "下午3点半"),
        ("noon", "12 pm"),
        ("call +1 (555) 010-9999", "call +15550109999"),
        ("138 0013 8000", "13800138000"),
    ] {
        assert_eq!(one(left), one(right), "{left:?} {right:?}");
    }
}

#[test]
fn values_that_differ() {
    for (left, right) in [
        ("10²", "102"),
        ("10²", "10"),
        ("5 m²", "5 m"),
        ("5 MB", "5 Mb"),
        ("5 mW", "5 MW"),
        ("5 °C", "5 °F"),
        ("1 month", "30 days"),
        ("5 working days", "5 days"),
        ("$5", "€5"),
        ("$5", "5%"),
        ("-5 °C", "5 °C"),
        ("3/4/2025", "4/3/2025"),
        ("3/4/2025", "2025-03-04"),
        ("3:00", "3 pm"),
        ("3 am", "3 pm"),
        ("next Monday", "Monday"),
        ("3 pounds", "£3"),
        ("order #1234567", "invoice #1234567"),
    ] {
        assert_ne!(one(left), one(right), "{left:?} {right:?}");
    }
}

#[test]
fn what_was_written_is_kept_for_asks() {
    for (left, right) in [("3.10", "3.1"), ("1 km", "1000 m"), ("90 minutes", "1.5 hours")] {
        assert_eq!(one(left), one(right));
        assert_ne!(one(left).key(), one(right).key(), "{left:?} {right:?}");
    }
    assert_eq!(one("5 kilometers").key(), one("5km").key());
}

#[test]
fn what_is_no_value() {
    for text in [
        "enable 2FA",
        "an A4 sheet",
        "iPhone15",
        "COVID-19",
        "mp3",
        "one of them",
        "which one",
        "万一",
        "一些",
        "a second look",
        "1.000,50",
        "file_2",
        "x2y",
    ] {
        assert_eq!(slots(text), vec![], "{text:?}");
    }
}

#[test]
fn the_built_in_patterns() {
    for (text, pattern, value) in [
        ("where is order #12345", "order", "12345"),
        ("where is order no. AB-1234", "order", "AB-1234"),
        ("order 1002003 is late", "order", "1002003"),
        ("ORD-2024-0001 is late", "order", "ORD-2024-0001"),
        ("订单号：20240101001 在哪里", "order", "20240101001"),
        ("pay invoice INV-2024-001", "invoice", "INV-2024-001"),
        ("发票号码 12345678", "invoice", "12345678"),
        ("ticket number 88123", "ticket", "88123"),
        ("工单编号:TS-9981", "ticket", "TS-9981"),
        ("tracking number 1Z999AA10123456784", "tracking", "1Z999AA10123456784"),
        ("运单号SF1234567890", "tracking", "SF1234567890"),
        ("account number 99881", "customer", "99881"),
        ("会员号 M10023", "customer", "M10023"),
        ("booking ref X7Q9PL", "booking", "X7Q9PL"),
        ("transaction id 4f8a99b1", "transaction", "4f8a99b1"),
        ("SKU: AB-100-XL", "product", "AB-100-XL"),
        ("flight CA1234 to Rome", "flight", "CA1234"),
        ("mail a.b@example.org", "email", "a.b@example.org"),
        ("id 123e4567-e89b-12d3-a456-426614174000", "uuid", "123e4567-e89b-12d3-a456-426614174000"),
        ("since version 3.10", "version", "3.10"),
        ("runs 1.2.3 today?", "version", "1.2.3"),
        ("call 555-010-9999", "phone", "5550109999"),
    ] {
        let found = slots(text);
        let want = Value::Id { pattern: pattern.to_owned(), value: value.to_owned() };
        assert!(found.iter().any(|atom| atom.value == want), "{text:?}: {found:?}");
    }
    assert_eq!(kinds("order 100 pizzas"), ["number"]);
    assert_eq!(kinds("on 2024-01-05"), ["date"]);
}

#[test]
fn quotations_code_and_addresses_come_first() {
    assert_eq!(kinds("what does \"5 km\" mean"), ["quotation"]);
    assert_eq!(kinds("run `sleep 5`"), ["code"]);
    assert_eq!(kinds("see https://example.org/a?b=5."), ["url"]);
    assert_eq!(one("see https://example.org/a?b=5."), Value::Url("https://example.org/a?b=5".to_owned()));
    assert_eq!(one("他说“你好”"), Value::Quoted("你好".to_owned()));
}

#[test]
fn words_and_names() {
    let found = |text: &str| -> Vec<String> {
        Extractor::default()
            .atoms(text)
            .iter()
            .map(|atom| format!("{}={}", atom.value.kind(), atom.value.key()))
            .collect()
    };
    assert_eq!(
        found("Can't I always return my shoes before New York opens?"),
        [
            "modality=can",
            "negation=not",
            "person=i",
            "quantifier=always",
            "person=my",
            "comparison=before",
            "entity=new york"
        ]
    );
    assert_eq!(found("把美元换成欧元"), ["direction=把", "entity=美元", "direction=换成", "entity=欧元"]);
    assert_eq!(found("我的订单没有到"), ["person=我的", "negation=没", "direction=到"]);
    assert_eq!(found("convert usd to EUR"), ["entity=usd", "entity=eur"]);
}

#[test]
fn configured_patterns_come_before_the_built_in_ones_and_have_limits() {
    let pattern = DomainPattern::new("policy", r"\bP-(?P<id>\d{4})\b").unwrap();
    let extractor = Extractor::new(vec![pattern.clone()]).unwrap();
    let found = extractor.slots("policy P-1234 of order #P-9999");
    assert_eq!(found[0].value, Value::Id { pattern: "policy".to_owned(), value: "1234".to_owned() });
    assert_eq!(found[0].span, 9..13);
    assert!(matches!(
        Extractor::new(vec![pattern.clone(), pattern.clone()]),
        Err(TextError::PatternTwice { .. })
    ));
    assert!(matches!(DomainPattern::new("No", "a"), Err(TextError::PatternName { .. })));
    assert!(matches!(DomainPattern::new("a", &"x".repeat(501)), Err(TextError::PatternTooLong { .. })));
    assert!(matches!(DomainPattern::new("a", "("), Err(TextError::Pattern { .. })));
    assert!(matches!(DomainPattern::new("a", "(\\w{500}){500}"), Err(TextError::Pattern { .. })));
    assert!(matches!(DomainPattern::new("a", "x*"), Err(TextError::PatternEmpty { .. })));
    assert!(matches!(
        Extractor::new(vec![DomainPattern::new("order", "x").unwrap()]),
        Err(TextError::PatternTwice { .. })
    ));
    let many = (0..65).map(|at| DomainPattern::new(&format!("p{at}"), "x").unwrap()).collect();
    assert!(matches!(Extractor::new(many), Err(TextError::TooManyPatterns { given: 65 })));
}

#[test]
fn patterns_are_switched_off_by_name_configured_or_built_in() {
    let policy = || DomainPattern::new("policy", r"\bP-\d{4}\b").unwrap();
    let text = "policy P-1234 of order #P-9999, ticket #4711";
    let found = |extractor: &Extractor| -> Vec<String> {
        let ids = extractor.slots(text).into_iter().filter_map(|atom| match atom.value {
            Value::Id { pattern, value } => Some(format!("{pattern} {value}")),
            _ => None,
        });
        ids.collect()
    };
    let all = || Extractor::new(vec![policy()]).unwrap();
    let without = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        all().without(&names)
    };
    assert_eq!(found(&all()), ["policy P-1234", "policy P-9999", "ticket 4711"]);
    assert_eq!(found(&without(&["policy"]).unwrap()), ["order P-9999", "ticket 4711"]);
    assert_eq!(found(&without(&["ticket"]).unwrap()), ["policy P-1234", "policy P-9999"]);
    assert_eq!(found(&without(&["policy", "order", "ticket"]).unwrap()), Vec::<String>::new());
    assert_eq!(found(&all().without_built_in()), ["policy P-1234", "policy P-9999"]);
    let unknown = without(&["polizy"]).unwrap_err();
    assert!(
        unknown.to_string().contains("\"polizy\"") && unknown.to_string().contains("flight"),
        "{unknown}"
    );
    // What tells sets of patterns apart, so that evidence of one does not speak for another.
    let ids = [
        Extractor::default().patterns_id(),
        all().patterns_id(),
        all().without_built_in().patterns_id(),
        without(&["order"]).unwrap().patterns_id(),
        Extractor::default().without(&["order".to_owned()]).unwrap().patterns_id(),
        Extractor::new(vec![DomainPattern::new("policy", r"\bP-\d{5}\b").unwrap()]).unwrap().patterns_id(),
    ];
    assert!(ids[0].is_empty());
    for (at, one) in ids.iter().enumerate() {
        assert!(ids[..at].iter().all(|other| other != one), "{at}");
    }
    assert_eq!(without(&["policy"]).unwrap().patterns_id(), ids[0]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn spans_are_in_order_inside_the_text_and_do_not_overlap(text in prop_oneof![any::<String>(), "[a-z0-9 .,:$%'\"`#+-年月日元天三订单]{0,60}"]) {
        let mut at = 0;
        for atom in Extractor::default().atoms(&text) {
            prop_assert!(atom.span.start >= at && !atom.span.is_empty(), "{:?}", atom);
            prop_assert!(text.get(atom.span.clone()).is_some());
            at = atom.span.end;
        }
    }

    #[test]
    fn equal_values_have_one_base_key(a in 0_u32..3000, b in 0_u32..3000, u in prop::sample::select(vec!["m", "km", "cm", "minutes", "hours", "g", "kg", ""]), v in prop::sample::select(vec!["m", "km", "cm", "minutes", "hours", "g", "kg", ""])) {
        let (one, two) = (one(&format!("x {a} {u}")), one(&format!("x {b} {v}")));
        let is_equal = one == two;
        prop_assert_eq!(is_equal, one.base_key() == two.base_key());
        if one.key() == two.key() {
            prop_assert_eq!(one, two);
        }
    }

    #[test]
    fn numbers_are_read_as_they_are(whole in 0_u64..10_000_000_000, comma in any::<bool>()) {
        let digits = whole.to_string();
        let grouped: String = digits.chars().rev().enumerate().flat_map(|(at, digit)| {
            if at > 0 && at % 3 == 0 { vec![',', digit] } else { vec![digit] }
        }).collect::<Vec<_>>().into_iter().rev().collect();
        let Value::Number(quantity) = one(&format!("there are {} of them", if comma { &grouped } else { &digits })) else { panic!() };
        prop_assert_eq!(quantity.amount, zlrs_text::Decimal::from_integer(whole));
    }
}
