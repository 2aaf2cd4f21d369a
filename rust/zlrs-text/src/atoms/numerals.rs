//! Numbers spelt in words and in Chinese characters. What is not spelt as a number is written is none: a wrong value
//! would be another number's.

use std::ops::Range;

/// The value of a Chinese numeral such as 一百二十, 三百五 or 一亿三千万. `None` for what is none.
pub(crate) fn chinese(text: &str) -> Option<u64> {
    let (value, length) = chinese_prefix(text)?;
    (length == text.len()).then_some(value)
}

/// The value of a Chinese numeral and its bytes: all of `text`, or what stands before a 千 that cannot belong to it,
/// as in 二十千克.
pub(crate) fn chinese_prefix(text: &str) -> Option<(u64, usize)> {
    if matches!(text, "零" | "〇") {
        return Some((0, text.len()));
    }
    let mut reading = Reading::default();
    for (at, character) in text.char_indices() {
        if let Some(value) = chinese_digit(character) {
            reading.digit(value)?;
            continue;
        }
        match character {
            '十' => reading.small(10)?,
            '百' => reading.small(100)?,
            '千' => {
                let before = reading.clone();
                if reading.small(1_000).is_none() {
                    return Some((before.end()?, at)).filter(|_| at > 0);
                }
            }
            '万' => reading.large(10_000)?,
            '亿' => reading.large(100_000_000)?,
            _ => return None,
        }
    }
    Some((reading.end()?, text.len()))
}

/// A Chinese numeral as far as it is read.
#[derive(Clone, Default)]
struct Reading {
    /// Of the powers 万 and 亿 that are complete.
    total: u64,
    /// Below the next of them.
    section: u64,
    digit: Option<u64>,
    /// Whether a 零 waits for its digit.
    zero: bool,
    /// The last power: 0 at the start, 10,000 behind 万 and 亿.
    last: u64,
    /// The last of 万 and 亿; 0 where there was none.
    large: u64,
    /// Whether 亿 was followed at once: what comes then is counted in 万.
    owes_wan: bool,
}

impl Reading {
    fn digit(&mut self, value: u64) -> Option<()> {
        if value == 0 {
            // Digits one by one (二〇二五) are no numeral, nor is a 零 at the start.
            let is_wrong = self.digit.is_some() || self.zero || self.last == 0;
            self.zero = true;
            return (!is_wrong).then_some(());
        }
        self.digit.replace(value).is_none().then_some(())
    }

    /// Whether a place of `power` may follow: the next one below, or behind 零 any that is lower.
    fn follows(&mut self, power: u64) -> Option<()> {
        self.owes_wan |= !self.zero && self.large == 100_000_000 && self.last == 10_000;
        let is_right = match (self.last, self.zero) {
            (0, _) => true,
            (10_000, true) => power <= 1_000,
            (last, true) => power < last / 10,
            (last, false) => power == last / 10,
        };
        self.zero = false;
        is_right.then_some(())
    }

    fn small(&mut self, power: u64) -> Option<()> {
        // 十五 is 15; 百 and 千 alone (百度, 几千) are no numbers.
        let digit = self.digit.take().or((power == 10).then_some(1))?;
        self.follows(power)?;
        self.section += digit * power;
        self.last = power;
        Some(())
    }

    fn large(&mut self, power: u64) -> Option<()> {
        if let Some(digit) = self.digit.take() {
            self.follows(1)?;
            self.section += digit;
        }
        if self.zero {
            return None;
        }
        if self.large == 0 || power < self.large {
            // 一亿三千万: only what follows the higher power is counted in the lower one.
            if self.section == 0 {
                return None;
            }
            self.total = self.total.checked_add(self.section.checked_mul(power)?)?;
        } else if power > self.large {
            // 三万亿, 一万二千亿: the lower power counts the higher one.
            self.total = self.total.checked_add(self.section)?.checked_mul(power)?;
        } else {
            return None;
        }
        (self.section, self.last, self.large, self.owes_wan) = (0, 10_000, power, false);
        Some(())
    }

    fn end(mut self) -> Option<u64> {
        let Some(digit) = self.digit.take() else {
            // 一亿三千 may be 130,000,000 or 100,003,000.
            return (self.last > 0 && !self.zero && !self.owes_wan).then_some(self.total + self.section);
        };
        // 三百五 is 350 and 一亿三 is 130,000,000: a last digit counts tenths of the power before it.
        let power = match (self.zero, self.last) {
            (_, 0 | 10) | (true, _) => {
                self.follows(1)?;
                1
            }
            (false, 10_000) => self.large / 10,
            (false, last) => last / 10,
        };
        (!self.owes_wan).then_some(self.total + self.section + digit * power)
    }
}

fn chinese_digit(character: char) -> Option<u64> {
    Some(match character {
        '零' | '〇' => 0,
        '一' => 1,
        '二' | '两' => 2,
        '三' => 3,
        '四' => 4,
        '五' => 5,
        '六' => 6,
        '七' => 7,
        '八' => 8,
        '九' => 9,
        _ => return None,
    })
}

const SMALL: [&str; 20] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];
const TENS: [&str; 8] = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
const SCALES: [(&str, u64); 4] =
    [("hundred", 100), ("thousand", 1_000), ("million", 1_000_000), ("billion", 1_000_000_000)];

/// The numerals of a run of English number words, with their byte ranges in it: "two hundred and six" is one, "five six"
/// and "two and three" are two. None where "and" may join a numeral or two numbers ("five hundred and six thousand").
/// Linear in the length of the run.
pub(crate) fn english(run: &str) -> Vec<(Range<usize>, u64)> {
    let lower = run.to_ascii_lowercase();
    let mut found = Vec::new();
    let mut numeral = Words::default();
    let (mut start, mut end) = (0, 0);
    let (mut is_joined, mut has_joined) = (false, false);
    for (range, word) in words(&lower) {
        if word == "and" {
            is_joined = true;
            continue;
        }
        if has_joined && SCALES.iter().any(|(known, _)| *known == word) {
            return Vec::new();
        }
        if end > 0 && (!is_joined || numeral.may_be_joined) && numeral.push(word) {
            has_joined |= is_joined;
        } else {
            if end > 0 {
                found.push((start..end, numeral.value()));
            }
            (numeral, start, has_joined) = (Words::default(), range.start, false);
            if !numeral.push(word) {
                return found;
            }
        }
        is_joined = false;
        end = range.end;
    }
    if end > 0 {
        found.push((start..end, numeral.value()));
    }
    found
}

/// Words with their byte ranges.
fn words(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    let is_gap = |character: char| character.is_whitespace() || character == '-';
    let mut at = 0;
    text.split_inclusive(is_gap).filter_map(move |piece| {
        let start = at;
        at += piece.len();
        let word = piece.trim_end_matches(is_gap);
        (!word.is_empty()).then_some((start..start + word.len(), word))
    })
}

/// An English numeral as far as it is read.
#[derive(Default)]
struct Words {
    total: u64,
    section: u64,
    /// The last of thousand, million and billion; 0 where there was none.
    scale: u64,
    /// Whether "and" may follow: behind hundred, thousand and so on.
    may_be_joined: bool,
}

impl Words {
    /// Adds a word; false where it cannot belong to the numeral.
    fn push(&mut self, word: &str) -> bool {
        if let Some((_, scale)) = SCALES.iter().find(|(known, _)| *known == word) {
            let (is_hundred, section) = (*scale == 100, self.section);
            if section == 0
                || is_hundred && section >= 100
                || !is_hundred && self.scale > 0 && *scale >= self.scale
            {
                return false;
            }
            if is_hundred {
                self.section = section * 100;
            } else {
                self.total += section * scale;
                (self.section, self.scale) = (0, *scale);
            }
            self.may_be_joined = true;
            return true;
        }
        let small = SMALL.iter().position(|known| *known == word).map(|value| value as u64);
        let tens = TENS.iter().position(|known| *known == word).map(|value| (value as u64 + 2) * 10);
        let Some(value) = small.or(tens) else { return false };
        let rest = self.section % 100;
        let is_right = rest == 0 || rest >= 20 && rest.is_multiple_of(10) && (1..10).contains(&value);
        if is_right {
            self.section += value;
            self.may_be_joined = false;
        }
        is_right
    }

    fn value(&self) -> u64 {
        self.total + self.section
    }
}

/// A pattern for runs of English number words.
pub(crate) fn english_pattern() -> String {
    let start = SMALL[1..].iter().chain(&TENS).copied().collect::<Vec<_>>().join("|");
    let scales = SCALES.map(|(word, _)| word).join("|");
    format!(r"(?:{start})(?:(?:[\s-]and[\s-]|[\s-])(?:{start}|{scales}))*")
}
