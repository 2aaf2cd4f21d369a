//! Generated pairs whose truth is known by construction: for tests and evaluation.
//!
//! [`asks`] gives pairs of asks that want different answers, [`wrong_answers`] pairs of answers that may not be taken
//! for one, [`right_answers`] pairs that say the same. The generators are deterministic; every pair is there once.
//! They are no sample of real traffic: they show what a rule does to a *kind* of difference.

mod alike;
mod answers_chinese;
mod answers_english;
mod asks_chinese;
mod asks_english;
mod closed;
mod limit;
mod right_chinese;
mod right_english;

use std::collections::HashSet;

pub use self::limit::upper_limit;

/// Two asks or two answers, and what is between them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pair {
    /// What differs, or how the same thing is said otherwise.
    pub class: &'static str,
    /// The ask that both answers belong to; empty for pairs of asks.
    pub ask: String,
    /// One side.
    pub left: String,
    /// The other side.
    pub right: String,
}

/// Pairs of asks that want different answers: ≥ 5,000, English and Chinese.
#[must_use]
pub fn asks() -> Vec<Pair> {
    let mut pairs = Pairs::default();
    asks_english::generate(&mut pairs);
    asks_chinese::generate(&mut pairs);
    alike::asks(&mut pairs);
    pairs.list
}

/// Pairs of answers to one ask that contradict or differ in something that matters: ≥ 3,000, English and Chinese.
#[must_use]
pub fn wrong_answers() -> Vec<Pair> {
    let mut pairs = Pairs::default();
    answers_english::generate(&mut pairs);
    answers_chinese::generate(&mut pairs);
    alike::answers(&mut pairs);
    pairs.list
}

/// Pairs of answers to one ask that say the same.
#[must_use]
pub fn right_answers() -> Vec<Pair> {
    let mut pairs = Pairs::default();
    right_english::generate(&mut pairs);
    right_chinese::generate(&mut pairs);
    pairs.list
}

/// A class, templates with `{}`, and what goes there on either side.
type Flips = (&'static str, &'static [&'static str], &'static [(&'static str, &'static str)]);

/// Collects pairs, each once in either order.
#[derive(Default)]
struct Pairs {
    list: Vec<Pair>,
    seen: HashSet<(String, String)>,
}

impl Pairs {
    fn add(&mut self, class: &'static str, ask: &str, left: &str, right: &str) {
        let key = if left < right { (left, right) } else { (right, left) };
        if left != right && self.seen.insert((key.0.to_owned(), key.1.to_owned())) {
            self.list.push(Pair {
                class,
                ask: ask.to_owned(),
                left: left.to_owned(),
                right: right.to_owned(),
            });
        }
    }

    /// Each template with `{}` filled by the left and by the right of each pair of words.
    fn fill(&mut self, class: &'static str, templates: &[&str], words: &[(&str, &str)]) {
        for template in templates {
            for (left, right) in words {
                self.add(class, "", &template.replace("{}", left), &template.replace("{}", right));
            }
        }
    }

    /// As [`Pairs::fill`], with each of `objects` in the place of `{o}`.
    fn fill_with(
        &mut self,
        class: &'static str,
        templates: &[&str],
        objects: &[&str],
        words: &[(&str, &str)],
    ) {
        for template in templates {
            for object in objects {
                self.fill(class, &[template.replace("{o}", object).as_str()], words);
            }
        }
    }
}

/// All ordered pairs of different neighbours at distances 1 and 2 of a list, as a ring.
fn neighbours<'a>(list: &[&'a str]) -> Vec<(&'a str, &'a str)> {
    let at = |index: usize| list[index % list.len()];
    (0..list.len()).flat_map(|index| [(at(index), at(index + 1)), (at(index), at(index + 2))]).collect()
}
