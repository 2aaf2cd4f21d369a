//! Measures the comparator on generated pairs: the rate of false agreement with its 95 % limit, and the recall of
//! agreement. `cargo run --release -p zlrs-text --example comparator [-- --list]`
//!
//! Where `ZLRS_DATA` names a folder with `pairs/gptcache_999.json`, also on sentences that no table was made for: each
//! sentence against its rewording, against other sentences, and against itself with one word replaced, put in, left out
//! or moved at random.
#![allow(clippy::print_stdout, reason = "the table is what the program is for")]

use std::collections::BTreeMap;

use jiter::JsonValue;
use zlrs_text::flips::{Pair, right_answers, upper_limit, wrong_answers};
use zlrs_text::{Agreement, agree, lemma};

fn table(title: &str, pairs: &[Pair], lists: Option<Agreement>) -> [usize; 3] {
    let mut classes: BTreeMap<(&str, bool), [usize; 3]> = BTreeMap::new();
    let mut sums = [0; 3];
    for pair in pairs {
        let verdict = agree(&pair.ask, &pair.left, &pair.right);
        let at = match verdict.agreement {
            Agreement::Agree => 0,
            Agreement::Contradict => 1,
            Agreement::Undecided => 2,
        };
        sums[at] += 1;
        let is_english = pair.ask.is_ascii();
        classes.entry((pair.class, is_english)).or_default()[at] += 1;
        let is_listed = lists == Some(verdict.agreement);
        if is_listed {
            println!("{} {:?}\n  {:?}\n  {:?}", pair.class, verdict.reason, pair.left, pair.right);
        }
    }
    println!(
        "{title}: {} pairs\n{:18} {:>9} {:>7} {:>10} {:>9}",
        pairs.len(),
        "class",
        "language",
        "agree",
        "contradict",
        "undecided"
    );
    for ((class, is_english), [agrees, contradicts, undecided]) in classes {
        println!(
            "{class:18} {:>9} {agrees:>7} {contradicts:>10} {undecided:>9}",
            if is_english { "English" } else { "Chinese" }
        );
    }
    println!();
    sums
}

/// Sentences and their rewordings.
fn sentences(folder: &std::path::Path) -> Option<Vec<(String, String)>> {
    let bytes = std::fs::read(folder.join("pairs/gptcache_999.json")).ok()?;
    let JsonValue::Array(list) = JsonValue::parse(&bytes, false).ok()? else { return None };
    list.iter()
        .map(|pair| {
            let JsonValue::Object(pair) = pair else { return None };
            let text = |name: &str| {
                pair.iter().find(|(key, _)| key == name).and_then(|(_, value)| match value {
                    JsonValue::Str(text) => Some(text.to_string()),
                    _ => None,
                })
            };
            Some((text("origin")?, text("similar")?))
        })
        .collect()
}

/// One word replaced, put in, left out or moved; words are long enough to be content.
fn mutated(sentences: &[(String, String)]) -> Vec<Pair> {
    let words: Vec<&str> = sentences
        .iter()
        .flat_map(|(text, _)| text.split(' '))
        .filter(|word| {
            word.len() > 5 && !word.ends_with("ly") && word.bytes().all(|byte| byte.is_ascii_lowercase())
        })
        .collect();
    // A linear congruential generator: the same pairs each time.
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut out = Vec::new();
    for (text, _) in sentences {
        let all: Vec<&str> = text.split(' ').collect();
        let places: Vec<usize> = (0..all.len()).filter(|at| words.contains(&all[*at])).collect();
        if places.len() < 2 {
            continue;
        }
        for class in ["replaced", "put in", "left out", "moved"] {
            let mut changed = all.clone();
            let (at, other) = (places[random(places.len())], words[random(words.len())]);
            match class {
                "replaced" => changed[at] = other,
                "put in" => changed.insert(at, other),
                "left out" => drop(changed.remove(at)),
                _ => changed.swap(at, places[random(places.len())]),
            }
            let right = changed.join(" ");
            // "library" in place of "libraries" changes nothing, nor does a word moved onto its like.
            let bases = |words: &[&str]| words.iter().map(|word| lemma(word).0).collect::<Vec<_>>();
            if bases(&changed) != bases(&all) {
                out.push(Pair { class, ask: "What is it?".to_owned(), left: text.clone(), right });
            }
        }
    }
    out
}

fn held_out(is_listing: bool) {
    let Some(sentences) = std::env::var_os("ZLRS_DATA").and_then(|folder| sentences(folder.as_ref())) else {
        println!(
            "held-out sentences: skipped, ZLRS_DATA does not name a folder with pairs/gptcache_999.json"
        );
        return;
    };
    let pair = |class, left: &String, right: &String| Pair {
        class,
        ask: "What is it?".to_owned(),
        left: left.clone(),
        right: right.clone(),
    };
    let reworded: Vec<Pair> = sentences.iter().map(|(left, right)| pair("reworded", left, right)).collect();
    let count = sentences.len();
    let others: Vec<Pair> = (0..count)
        .flat_map(|at| (1..=20).map(move |step| (at, (at + step) % count)))
        .filter(|(one, two)| sentences[*one].0 != sentences[*two].0)
        .map(|(one, two)| pair("other sentence", &sentences[one].0, &sentences[two].1))
        .collect();
    for (title, pairs) in [
        ("held out, wrong", mutated(&sentences)),
        ("held out, wrong", others),
        ("held out, reworded", reworded),
    ] {
        let listed = if title.ends_with("reworded") { Agreement::Contradict } else { Agreement::Agree };
        let sums = table(title, &pairs, is_listing.then_some(listed));
        println!(
            "AGREE: {} of {}, 95 % upper limit {:.4} %\n",
            sums[0],
            pairs.len(),
            100.0 * upper_limit(sums[0], pairs.len())
        );
    }
}

fn main() {
    let is_listing = std::env::args().any(|argument| argument == "--list");
    let wrong = table("wrong pairs", &wrong_answers(), is_listing.then_some(Agreement::Agree));
    let right = table("right pairs", &right_answers(), is_listing.then_some(Agreement::Undecided));
    let (trials, rights) = (wrong.iter().sum::<usize>(), right.iter().sum::<usize>());
    println!(
        "false AGREE: {} of {trials}, beta (95 % upper limit) = {:.4} %",
        wrong[0],
        100.0 * upper_limit(wrong[0], trials)
    );
    println!("CONTRADICT on wrong pairs: {:.1} %", 100.0 * wrong[1] as f64 / trials as f64);
    println!("recall of AGREE: {} of {rights} = {:.1} %", right[0], 100.0 * right[0] as f64 / rights as f64);
    println!("false CONTRADICT: {} of {rights} = {:.1} %", right[1], 100.0 * right[1] as f64 / rights as f64);
    println!();
    held_out(is_listing);
}
