//! Real questions of different intents: no canonical form may merge two that are not the same string.
//!
//! Pairs are taken within each set: the two sets name one intent differently ("declined_card_payment" and
//! "card_declined"), so that pairs across them tell nothing.
//!
//! `ZLRS_DATA` names a folder with `intents/banking77_train.csv` and `intents/clinc150_train_val.json`; without it the
//! test is skipped and says so.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "helpers of a test")]

use std::collections::HashMap;
use std::path::PathBuf;

use jiter::JsonValue;
use zlrs_text::{Canon, Extractor, canonical};

/// One question with two labels in the data: it differs in a contraction alone.
const LABELLED_TWICE: [&str; 2] = ["what is my pay", "what's my pay"];

type Key = Box<dyn Fn(&str) -> String>;

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("ZLRS_DATA").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("skipped: ZLRS_DATA does not name a folder with the intents data");
    }
    folder
}

/// (question, intent), from the two sets.
fn questions(folder: &std::path::Path) -> Vec<(String, String)> {
    let csv = std::fs::read_to_string(folder.join("intents/banking77_train.csv")).unwrap();
    let mut out =
        records(&csv).skip(1).map(|(text, label)| (text, format!("banking/{label}"))).collect::<Vec<_>>();
    assert_eq!(out.len(), 10_003);
    let json = std::fs::read(folder.join("intents/clinc150_train_val.json")).unwrap();
    let JsonValue::Object(sets) = JsonValue::parse(&json, false).unwrap() else {
        panic!("an object of sets")
    };
    for (_, list) in sets.iter() {
        let JsonValue::Array(list) = list else { panic!("a list of pairs") };
        for pair in list.iter() {
            let JsonValue::Array(pair) = pair else { panic!("a pair") };
            let [JsonValue::Str(text), JsonValue::Str(label)] = &pair[..] else { panic!("two strings") };
            out.push((text.to_string(), format!("clinc/{label}")));
        }
    }
    assert!(out.len() > 28_000, "{}", out.len());
    out
}

/// Records of two fields; the first one may be quoted.
fn records(csv: &str) -> impl Iterator<Item = (String, String)> + '_ {
    let mut rest = csv;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut text = String::new();
        if let Some(mut quoted) = rest.strip_prefix('"') {
            loop {
                let at = quoted.find('"')?;
                text.push_str(&quoted[..at]);
                quoted = &quoted[at + 1..];
                match quoted.strip_prefix('"') {
                    Some(more) => {
                        text.push('"');
                        quoted = more;
                    }
                    None => break,
                }
            }
            rest = quoted.strip_prefix(',')?;
        } else {
            let (field, after) = rest.split_once(',')?;
            field.clone_into(&mut text);
            rest = after;
        }
        let (label, after) = rest.split_once('\n').unwrap_or((rest, ""));
        rest = after;
        Some((text, label.trim_end_matches('\r').to_owned()))
    })
}

#[test]
fn no_form_merges_questions_of_different_intents() {
    let Some(folder) = folder() else { return };
    let questions = questions(&folder);
    let extractor = Extractor::default();
    let keys: [(&str, Key); 4] = [
        ("identical", Box::new(str::to_owned)),
        ("c1", Box::new(|text| canonical(text, Canon::C1))),
        ("c2", Box::new(|text| canonical(text, Canon::C2))),
        ("form and values", Box::new(move |text| extractor.form(text, Canon::C2).entry_key())),
    ];
    for (name, key) in keys {
        let mut groups: HashMap<String, Vec<&(String, String)>> = HashMap::new();
        for question in &questions {
            groups.entry(key(&question.0)).or_default().push(question);
        }
        let forms = groups.len();
        let (mut identical, mut twice, mut collisions) = (0_usize, 0_usize, Vec::new());
        for group in groups.values() {
            for (at, one) in group.iter().enumerate() {
                let set = |label: &str| label.split('/').next().unwrap().to_owned();
                for two in group[at + 1..].iter().filter(|two| two.1 != one.1 && set(&two.1) == set(&one.1)) {
                    if one.0 == two.0 {
                        identical += 1;
                    } else if [&one.0, &two.0].iter().all(|text| LABELLED_TWICE.contains(&text.as_str())) {
                        twice += 1;
                    } else {
                        collisions.push(format!("{:?} ({}) {:?} ({})", one.0, one.1, two.0, two.1));
                    }
                }
            }
        }
        println!(
            "{name}: {} questions, {forms} forms, {identical} identical pairs of different intents, {twice} labelled twice, {} other collisions",
            questions.len(),
            collisions.len()
        );
        assert!(collisions.is_empty(), "{name}: {collisions:#?}");
    }
}
