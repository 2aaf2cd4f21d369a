//! Measures the comparator on generated pairs: the rate of false agreement with its 95 % limit, and the recall of
//! agreement. `cargo run --release -p zlrs-text --example comparator [-- --list]`
#![allow(clippy::print_stdout, reason = "the table is what the program is for")]

use std::collections::BTreeMap;

use zlrs_text::flips::{Pair, right_answers, upper_limit, wrong_answers};
use zlrs_text::{Agreement, agree};

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
        let is_listed = lists.is_some_and(|wanted| (wanted == Agreement::Agree) == (at == 0));
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
}
