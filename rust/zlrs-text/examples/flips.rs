//! Prints every generated pair of asks that want different answers: class, one side, the other, with tabs between.
#![allow(clippy::print_stdout, reason = "an example prints")]

fn main() {
    for pair in zlrs_text::flips::asks() {
        println!("{}\t{}\t{}", pair.class, pair.left, pair.right);
    }
}
