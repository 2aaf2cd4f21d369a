//! Forms: templates with typed places, and the values that fill them.

use proptest::prelude::*;
use zlrs_text::{Canon, Extractor, Form};

fn form(text: &str) -> Form {
    Extractor::default().form(text, Canon::C2)
}

#[test]
fn one_form_for_all_values_of_a_type() {
    for (left, right) in [
        ("Where is order #12345?", "where is order #99"),
        ("What is 15% of $200?", "what is 20% of $1,000"),
        ("Is the shop open on 2025-03-04?", "Is the shop open on March 5, 2026?"),
        ("订单号 123456 到哪里了", "订单号 999999 到哪里了"),
    ] {
        assert_eq!(form(left).template, form(right).template);
        assert_ne!(form(left).entry_key(), form(right).entry_key());
    }
}

#[test]
fn one_entry_for_spellings_of_one_value() {
    for (left, right) in [
        ("Is the shop open on 2025-03-04?", "is the shop open on March 4, 2025"),
        ("What is 15% of $1000?", "what is 15 percent of $1,000.00?"),
        ("How far is 5 km?", "how far is 5 kilometers"),
    ] {
        // The number of decimal places stays: $1000 and $1,000.00 are two entries.
        let is_one = !left.contains("$1000");
        assert_eq!(form(left).entry_key() == form(right).entry_key(), is_one, "{left:?}");
    }
}

#[test]
fn nothing_is_taken_out_where_the_wording_is_the_subject() {
    for text in ["how do you spell 5 km", "translate \"hello\"", "count the words in 5 km"] {
        assert_eq!(form(text).atoms, vec![], "{text:?}");
        assert_eq!(form(text).template, form(text).text);
    }
}

#[test]
fn no_text_can_pretend_to_have_a_place() {
    let real = form("where is order #12345");
    let forged = form(&real.template);
    assert_ne!(real.template, forged.template);
}

/// Texts with values, words and the template's own mark.
fn ask() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "what",
        "is",
        "order",
        "#12345",
        "5 km",
        "5km",
        "$5",
        "12%",
        "\u{E000}",
        "\u{E000}number;",
        "number;",
        "3 pm",
        "tomorrow",
        "\"5\"",
        "`x`",
        "三天",
        "订单号",
        "3.10",
        "3.1",
        "not",
        ",",
        "-",
        "5",
        "one",
        "two days",
    ]);
    prop::collection::vec(pieces, 0..8).prop_map(|parts| parts.join(" "))
}

/// The template's literal parts, unescaped, and the kinds of its places.
fn parsed(template: &str) -> (Vec<String>, Vec<String>) {
    let (mut literals, mut kinds) = (Vec::new(), Vec::new());
    let mut literal = String::new();
    let mut characters = template.chars();
    while let Some(character) = characters.next() {
        if character != '\u{E000}' {
            literal.push(character);
            continue;
        }
        let kind: String = characters.by_ref().take_while(|next| !matches!(next, '\u{E000}' | ';')).collect();
        if kind.is_empty() {
            literal.push('\u{E000}');
        } else {
            kinds.push(kind);
            literals.push(std::mem::take(&mut literal));
        }
    }
    literals.push(literal);
    (literals, kinds)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_template_and_its_values_hold_the_whole_text(text in prop_oneof![ask(), any::<String>()]) {
        let form = form(&text);
        let (literals, kinds) = parsed(&form.template);
        let mut rebuilt = literals[0].clone();
        for (atom, literal) in form.atoms.iter().zip(&literals[1..]) {
            rebuilt.push_str(&form.text[atom.span.clone()]);
            rebuilt.push_str(literal);
        }
        prop_assert_eq!(kinds, form.atoms.iter().map(|atom| atom.value.kind().to_owned()).collect::<Vec<_>>());
        prop_assert_eq!(rebuilt, form.text);
    }

    #[test]
    fn one_entry_means_equal_values(one in ask(), two in ask()) {
        let (one, two) = (form(&one), form(&two));
        if one.entry_key() == two.entry_key() {
            prop_assert_eq!(&one.template, &two.template);
            let values = |form: &Form| form.atoms.iter().map(|atom| atom.value.clone()).collect::<Vec<_>>();
            prop_assert_eq!(values(&one), values(&two));
        }
    }
}
