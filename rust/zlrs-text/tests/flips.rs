//! Asks that want different answers: no form may merge them, every guard class must refuse them.

use std::collections::BTreeMap;

use zlrs_text::flips::{Pair, asks};
use zlrs_text::{Canon, Extractor, canonical, guard};

fn named(pairs: &[Pair], is_bad: impl Fn(&Pair) -> bool) -> Vec<String> {
    pairs
        .iter()
        .filter(|pair| is_bad(pair))
        .map(|pair| format!("{}: {:?} {:?}", pair.class, pair.left, pair.right))
        .collect()
}

#[test]
fn there_are_enough_of_every_class() {
    let pairs = asks();
    assert!(pairs.len() >= 5_000, "{}", pairs.len());
    let mut counts = BTreeMap::new();
    for pair in &pairs {
        *counts.entry((pair.class, pair.left.is_ascii())).or_insert(0) += 1;
    }
    for class in [
        "polarity",
        "number",
        "date",
        "unit",
        "entity",
        "order",
        "possessive",
        "quantifier",
        "tense",
        "modality",
    ] {
        for is_english in [true, false] {
            assert!(counts.get(&(class, is_english)).is_some_and(|count| *count >= 50), "{class} {counts:?}");
        }
    }
    assert!(counts.contains_key(&("superscript", false)));
}

#[test]
fn no_canonical_form_merges_a_flip() {
    let pairs = asks();
    let extractor = Extractor::default();
    for canon in [Canon::C1, Canon::C2] {
        let merged = named(&pairs, |pair| canonical(&pair.left, canon) == canonical(&pair.right, canon));
        assert!(merged.is_empty(), "{merged:#?}");
        let merged = named(&pairs, |pair| {
            extractor.form(&pair.left, canon).entry_key() == extractor.form(&pair.right, canon).entry_key()
        });
        assert!(merged.is_empty(), "{merged:#?}");
    }
}

#[test]
fn the_guards_refuse_every_flip() {
    let passed = named(&asks(), |pair| guard(&pair.left, &pair.right).is_none());
    assert!(passed.is_empty(), "{} pass: {:#?}", passed.len(), &passed[..passed.len().min(60)]);
}

#[test]
fn the_guards_are_symmetric() {
    let one_sided = named(&asks(), |pair| guard(&pair.right, &pair.left).is_none());
    assert!(one_sided.is_empty(), "{one_sided:#?}");
}
