//! Times hygiene on 10,000 characters. `cargo run --release -p zlrs-text --example hygiene`
#![allow(clippy::print_stdout, reason = "the table is what the program is for")]

use std::time::Instant;

use zlrs_text::hygiene::{Rules, clean, measure};

const RUNS: usize = 201;

/// The median time of a run, in milliseconds.
fn median_ms(mut run: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[RUNS / 2]
}

fn main() {
    let clean_page =
        "The plan costs $12 a month and may be cancelled at any time. It says \"as is\", see `terms`.\n";
    let dirty_page = "The  plan   costs\u{200B} $12 a month!!!!  \r\n\r\n\r\n\r\n------------\nsame line here\nsame line here\n 😀😀 ok\n";
    let chinese_page = "套餐每月12元(不含税)，可以随时取消。  他说“照旧”，见 `terms`。\n\n\n";
    println!(
        "{:10} {:>10} {:>9} {:>9} {:>10} {:>10} {:>9}",
        "text", "characters", "clean ms", "measure", "efficiency", "after", "emoji"
    );
    for (name, page) in [("clean", clean_page), ("dirty", dirty_page), ("chinese", chinese_page)] {
        // No page is the one before.
        let mut text = String::new();
        for at in 0..1_000 {
            text.push_str(&at.to_string());
            text.push_str(page);
        }
        let text: String = text.chars().take(10_000).collect();
        let cleaned = clean(&text, Rules::all());
        let (time, measuring) = (
            median_ms(|| drop(clean(&text, Rules::all()))),
            median_ms(|| {
                let _ = measure(&text);
            }),
        );
        println!(
            "{name:10} {:>10} {time:>9.3} {measuring:>9.3} {:>10.2} {:>10.2} {:>9.3}",
            cleaned.before.characters,
            cleaned.before.efficiency,
            cleaned.after.efficiency,
            cleaned.before.emoji_share
        );
    }
}
