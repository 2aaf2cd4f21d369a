//! Measures the guards: how many generated flips they refuse, by class, the reasons they give, and the time of forms,
//! guards and comparisons.
//! `cargo run --release -p zlrs-text --example guards`
#![allow(clippy::print_stdout, reason = "the table is what the program is for")]

use std::collections::BTreeMap;
use std::time::Instant;

use zlrs_text::flips::{asks, wrong_answers};
use zlrs_text::{Canon, Extractor, agree, canonical, guard};

fn main() {
    let pairs = asks();
    let extractor = Extractor::default();
    let mut classes: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for pair in &pairs {
        let counts = classes.entry(pair.class).or_default();
        let refusal = guard(&pair.left, &pair.right);
        let form = |text: &str| extractor.form(text, Canon::C2).entry_key();
        counts[0] += 1;
        counts[1] += usize::from(canonical(&pair.left, Canon::C2) == canonical(&pair.right, Canon::C2));
        counts[2] += usize::from(form(&pair.left) == form(&pair.right));
        counts[3] += usize::from(refusal.is_some());
        *reasons.entry(refusal.map_or("none", |refusal| refusal.reason.name())).or_default() += 1;
    }
    println!("{:12} {:>6} {:>10} {:>8} {:>8}", "class", "pairs", "canonical", "entries", "refused");
    for (class, [count, merged, entries, refused]) in &classes {
        println!("{class:12} {count:>6} {merged:>10} {entries:>8} {refused:>8}");
    }
    let sum = |at: usize| classes.values().map(|counts| counts[at]).sum::<usize>();
    println!("{:12} {:>6} {:>10} {:>8} {:>8}\n", "all", sum(0), sum(1), sum(2), sum(3));
    for (reason, count) in reasons {
        println!("{reason:14} {count:>6}");
    }
    println!();
    let answers = wrong_answers();
    times("form", pairs.len(), |at| drop(extractor.form(&pairs[at].left, Canon::C2)));
    times("guard", pairs.len(), |at| drop(guard(&pairs[at].left, &pairs[at].right)));
    times("agree", answers.len(), |at| {
        let _ = agree(&answers[at].ask, &answers[at].left, &answers[at].right);
    });
}

/// The median and the 99th percentile of one call, in microseconds.
fn times(name: &str, count: usize, mut call: impl FnMut(usize)) {
    let mut times: Vec<f64> = (0..count)
        .map(|at| {
            let start = Instant::now();
            call(at);
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{name:6} p50 {:>6.1} µs, p99 {:>6.1} µs", times[count / 2], times[count * 99 / 100]);
}
