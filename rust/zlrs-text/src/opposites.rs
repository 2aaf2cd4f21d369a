//! Which words say the opposite of each other.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::lemma::{lemma, opposite_by_form};
use crate::synonyms::{CHINESE_OPPOSITES, ENGLISH_OPPOSITES, pairs as listed};

type Pairs = HashMap<&'static str, Vec<&'static str>>;

static PAIRS: LazyLock<Pairs> = LazyLock::new(|| {
    let mut pairs = Pairs::new();
    for (one, two) in listed(ENGLISH_OPPOSITES).chain(listed(CHINESE_OPPOSITES)) {
        pairs.entry(one).or_default().push(two);
        pairs.entry(two).or_default().push(one);
    }
    pairs
});

/// Words of a text that have opposites: lower-case words with their lemmas, and Chinese phrases.
pub(crate) struct Words {
    english: Vec<(String, String)>,
    chinese: Vec<&'static str>,
}

impl Words {
    pub(crate) fn of(text: &str) -> Words {
        let lower = text.to_lowercase();
        let english = lower
            .split(|character: char| !character.is_ascii_alphabetic() && character != '-')
            .filter(|word| word.len() > 1)
            .map(|word| (word.to_owned(), lemma(word).0))
            .collect();
        let chinese = if text.is_ascii() { Vec::new() } else { chinese_words(text) };
        Words { english, chinese }
    }

    fn english_only_here(&self, other: &Words) -> Vec<&(String, String)> {
        let known: HashSet<&str> = other.english.iter().map(|(_, lemma)| lemma.as_str()).collect();
        self.english.iter().filter(|(_, lemma)| !known.contains(lemma.as_str())).collect()
    }

    fn chinese_only_here(&self, other: &Words) -> Vec<&'static str> {
        let known: HashSet<&str> = other.chinese.iter().copied().collect();
        self.chinese.iter().filter(|word| !known.contains(*word)).copied().collect()
    }

    /// A word of one text whose opposite stands in the other one, where neither stands in both. Time is the product
    /// of the numbers of words that the texts do not share.
    pub(crate) fn opposite(&self, other: &Words) -> Option<(String, String)> {
        let (here, there) = (self.english_only_here(other), other.english_only_here(self));
        for (word, base) in here {
            for (other_word, other_base) in &there {
                let is_listed = [word, base].iter().any(|known| {
                    PAIRS.get(known.as_str()).is_some_and(|opposites| {
                        opposites.contains(&other_word.as_str()) || opposites.contains(&other_base.as_str())
                    })
                });
                if is_listed || opposite_by_form(base, other_base) || opposite_by_form(word, other_word) {
                    return Some((word.clone(), other_word.clone()));
                }
            }
        }
        let (here, there) = (self.chinese_only_here(other), other.chinese_only_here(self));
        let is_opposite =
            |word: &str, other: &str| PAIRS.get(word).is_some_and(|known| known.contains(&other));
        here.iter().find_map(|word| {
            let other = there.iter().find(|other| is_opposite(word, other))?;
            Some(((*word).to_owned(), (*other).to_owned()))
        })
    }
}

/// The longest words with opposites at each place of a Chinese text.
fn chinese_words(text: &str) -> Vec<&'static str> {
    const CHARACTERS: usize = 4;
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let mut ends: Vec<usize> =
            rest.char_indices().take(CHARACTERS).map(|(at, character)| at + character.len_utf8()).collect();
        ends.reverse();
        let word =
            ends.iter().filter(|_| !first.is_ascii()).find_map(|end| PAIRS.get_key_value(&rest[..*end]));
        let length = word.map_or(first.len_utf8(), |(word, _)| word.len());
        found.extend(word.map(|(word, _)| *word));
        rest = &rest[length..];
    }
    found
}
