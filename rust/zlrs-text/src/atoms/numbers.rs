//! Numbers with what stands around them: sign, scale, unit, percent, money.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use crate::atoms::numerals;
use crate::atoms::pattern::compiled;
use crate::atoms::value::{Quantity, Value};
use crate::decimal::Decimal;
use crate::units::{self, Unit};

/// Currencies that stand before the number.
const PREFIXES: &[(&str, &str)] = &[
    ("US$", "USD"),
    ("HK$", "HKD"),
    ("A$", "AUD"),
    ("C$", "CAD"),
    ("S$", "SGD"),
    ("NT$", "TWD"),
    ("$", "$"),
    ("€", "EUR"),
    ("£", "GBP"),
    ("¥", "¥"),
    ("￥", "¥"),
    ("₹", "INR"),
    ("₩", "KRW"),
    ("USD", "USD"),
    ("EUR", "EUR"),
    ("GBP", "GBP"),
    ("JPY", "JPY"),
    ("CNY", "CNY"),
    ("RMB", "CNY"),
    ("HKD", "HKD"),
    ("AUD", "AUD"),
    ("CAD", "CAD"),
    ("CHF", "CHF"),
    ("SGD", "SGD"),
    ("INR", "INR"),
    ("人民币", "CNY"),
];

/// Currencies that stand behind the number, with the power of ten of the named coin.
const SUFFIXES: &[(&str, &str, i64)] = &[
    ("dollars", "$", 0),
    ("dollar", "$", 0),
    ("bucks", "$", 0),
    ("cents", "$", -2),
    ("euros", "EUR", 0),
    ("euro", "EUR", 0),
    ("€", "EUR", 0),
    ("£", "GBP", 0),
    ("yuan", "CNY", 0),
    ("yen", "JPY", 0),
    ("rupees", "INR", 0),
    ("USD", "USD", 0),
    ("EUR", "EUR", 0),
    ("GBP", "GBP", 0),
    ("JPY", "JPY", 0),
    ("CNY", "CNY", 0),
    ("RMB", "CNY", 0),
    ("HKD", "HKD", 0),
    ("AUD", "AUD", 0),
    ("CAD", "CAD", 0),
    ("CHF", "CHF", 0),
    ("SGD", "SGD", 0),
    ("INR", "INR", 0),
    ("美元", "USD", 0),
    ("美金", "USD", 0),
    ("欧元", "EUR", 0),
    ("英镑", "GBP", 0),
    ("日元", "JPY", 0),
    ("港元", "HKD", 0),
    ("港币", "HKD", 0),
    ("人民币", "CNY", 0),
    ("块钱", "CNY", 0),
    ("元", "CNY", 0),
    ("块", "CNY", 0),
];

const SCALES: &[(&str, i64)] = &[
    ("thousand", 3),
    ("million", 6),
    ("billion", 9),
    ("trillion", 12),
    ("万亿", 12),
    ("千万", 7),
    ("百万", 6),
    ("万", 4),
    ("亿", 8),
];

/// Scales that are letters: read so only before a currency or, `k`, behind plain digits.
const LETTER_SCALES: &[(&str, i64)] =
    &[("bn", 9), ("mn", 6), ("k", 3), ("K", 3), ("M", 6), ("m", 6), ("B", 9)];

static NUMBER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    compiled(&format!(
        r"(?P<digits>\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)|(?P<han>[零〇一二两三四五六七八九十百千万亿]+)|(?-u:\b)(?i:(?P<words>{}))(?-u:\b)",
        numerals::english_pattern()
    ))
});

static UNIT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let (short, long): (Vec<_>, Vec<_>) =
        units::names().into_iter().partition(|name| name.chars().count() <= 3);
    let join = |names: Vec<&str>| names.into_iter().map(regex::escape).collect::<Vec<_>>().join("|");
    compiled(&format!(r"^[ \x{{A0}}\x{{202F}}-]?(?:(?i:{})|(?:{}))", join(long), join(short)))
});

/// Numbers, percentages and money with their byte ranges, in order.
pub(crate) fn find(text: &str) -> Vec<(Range<usize>, Value)> {
    let Some(pattern) = NUMBER.as_ref() else { return Vec::new() };
    let mut found = Vec::new();
    for captures in pattern.captures_iter(text) {
        let Some(whole) = captures.get(0) else { continue };
        let (mut amount, places, is_word) = if let Some(digits) = captures.name("digits") {
            let Some(read) = read_digits(text, digits.range()) else { continue };
            (read.0, read.1, false)
        } else {
            let value = match captures.name("han") {
                Some(han) => numerals::chinese(han.as_str()),
                None => numerals::english(whole.as_str()),
            };
            let Some(value) = value else { continue };
            (Decimal::from_integer(value), 0, true)
        };
        let Read { mut range, suffix, shift, superscript } = read_suffix(text, whole.range(), is_word);
        let is_bare = matches!(suffix, Suffix::None);
        if is_word && is_bare && !stands_alone(whole.as_str()) && percent_before(text, range.start).is_none()
        {
            continue;
        }
        amount = amount.shifted(shift);
        let prefix = if is_word { None } else { prefix_before(text, range.start) };
        let start = prefix.map_or(range.start, |(start, _)| start);
        if is_negative(text, start) {
            amount = amount.negated();
            range.start = start - text[..start].chars().next_back().map_or(0, char::len_utf8);
        } else {
            range.start = start;
        }
        let mut quantity = Quantity { amount, unit: None, superscript, places };
        let value = match (suffix, prefix) {
            (Suffix::Percent, _) => Value::Percent(quantity),
            (Suffix::Currency(currency), _) => Value::Money { amount: quantity, currency },
            (_, Some((_, currency))) => Value::Money { amount: quantity, currency: local(currency, text) },
            (Suffix::Unit(unit), None) => {
                quantity.unit = Some(unit);
                Value::Number(quantity)
            }
            (Suffix::None, None) if ends_inside_word(text, range.end) => continue,
            (Suffix::None, None) => Value::Number(quantity),
        };
        let value = match percent_before(text, range.start) {
            Some(start) => {
                range.start = start;
                let Value::Number(quantity) = value else { continue };
                Value::Percent(quantity)
            }
            None => value,
        };
        found.push((range, value));
    }
    found
}

/// In a Chinese text ¥ is the yuan.
fn local(currency: &'static str, text: &str) -> &'static str {
    let is_chinese = text.chars().any(crate::script::is_han) && !text.chars().any(crate::script::is_kana);
    if currency == "¥" && is_chinese { "CNY" } else { currency }
}

/// The number, and its decimal places. `None` where the digits belong to something longer.
fn read_digits(text: &str, range: Range<usize>) -> Option<(Decimal, usize)> {
    let before = text[..range.start].chars().next_back();
    let second = text[..range.start].chars().rev().nth(1);
    let is_inside = before.is_some_and(|character| {
        character.is_ascii_alphanumeric()
            || character == '_'
            || matches!(character, '.' | ',') && second.is_some_and(|digit| digit.is_ascii_digit())
            || character == '-' && second.is_some_and(|letter| letter.is_ascii_alphabetic())
    });
    let mut after = text[range.end..].chars();
    let goes_on =
        matches!(after.next(), Some('.' | ',')) && after.next().is_some_and(|next| next.is_ascii_digit());
    if is_inside && !is_currency_code(text, range.start) || goes_on {
        return None;
    }
    let digits = text[range].replace(',', "");
    let places = digits.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    Some((Decimal::parse(&digits)?, places))
}

fn is_currency_code(text: &str, end: usize) -> bool {
    prefix_before(text, end).is_some()
}

/// The currency before `end`, and where it starts.
fn prefix_before(text: &str, end: usize) -> Option<(usize, &'static str)> {
    let before = text[..end].strip_suffix(' ').unwrap_or(&text[..end]);
    let (sign, currency) = PREFIXES.iter().find(|(sign, _)| before.ends_with(sign))?;
    let start = before.len() - sign.len();
    let is_whole = !sign.starts_with(|first: char| first.is_ascii_alphabetic())
        || !before[..start].ends_with(|letter: char| letter.is_ascii_alphanumeric());
    // "5 USD 6": the code belongs to the number before it.
    let is_taken = before[..start].trim_end().ends_with(|digit: char| digit.is_ascii_digit());
    (is_whole && !is_taken).then_some((start, currency))
}

/// A minus before the number: not between numbers and not a hyphen.
fn is_negative(text: &str, start: usize) -> bool {
    let mut before = text[..start].chars().rev();
    matches!(before.next(), Some('-' | '\u{2212}'))
        && before.next().is_none_or(|previous| previous.is_whitespace() || "([{:=,（：，".contains(previous))
}

fn percent_before(text: &str, start: usize) -> Option<usize> {
    text[..start].strip_suffix("百分之").map(str::len)
}

enum Suffix {
    None,
    Percent,
    Currency(&'static str),
    Unit(&'static Unit),
}

struct Read {
    range: Range<usize>,
    suffix: Suffix,
    shift: i64,
    superscript: String,
}

fn read_suffix(text: &str, range: Range<usize>, is_word: bool) -> Read {
    let mut end = range.end;
    let superscript: String =
        text[end..].chars().take_while(|character| is_superscript(*character)).collect();
    end += superscript.len();
    let mut shift = 0;
    let scales = SCALES.iter().filter(|_| !is_word || text[..end].ends_with(char::is_alphabetic));
    if let Some((word, power)) = scales.copied().find(|(word, _)| after_space(&text[end..], word).is_some()) {
        shift = power;
        end += after_space(&text[end..], word).unwrap_or(0);
    } else if !is_word {
        let has_currency = prefix_before(text, range.start).is_some();
        let letter = LETTER_SCALES.iter().find(|(letter, power)| {
            (has_currency || *power == 3) && after_space(&text[end..], letter) == Some(letter.len())
        });
        if let Some((letter, power)) = letter {
            shift = *power;
            end += letter.len();
        }
    }
    let rest = &text[end..];
    let percents = ["%", "％", "percent", "per cent", "percentage points", "个百分点"];
    if let Some(length) = percents.iter().find_map(|sign| after_space(rest, sign)) {
        return Read { range: range.start..end + length, suffix: Suffix::Percent, shift, superscript };
    }
    for (name, currency, power) in SUFFIXES {
        if let Some(length) = after_space(rest, name) {
            let suffix = Suffix::Currency(currency);
            return Read { range: range.start..end + length, suffix, shift: shift + power, superscript };
        }
    }
    if let Some(found) = UNIT.as_ref().and_then(|pattern| pattern.find(rest)) {
        let name = found.as_str().trim_start_matches([' ', '\u{A0}', '\u{202F}', '-']);
        if !ends_inside_word(text, end + found.end())
            && let Some(unit) = Unit::named(name)
        {
            return Read {
                range: range.start..end + found.end(),
                suffix: Suffix::Unit(unit),
                shift,
                superscript,
            };
        }
    }
    Read { range: range.start..end, suffix: Suffix::None, shift, superscript }
}

/// The length of `word` at the start of `text`, with a space before it, where the word ends there.
fn after_space(text: &str, word: &str) -> Option<usize> {
    let rest = text.strip_prefix(' ').unwrap_or(text);
    let head = rest.get(..word.len())?;
    let is_same = if word.len() > 3 { head.eq_ignore_ascii_case(word) } else { head == word };
    let length = text.len() - rest.len() + word.len();
    (is_same && !ends_inside_word(text, length)).then_some(length)
}

/// Whether a Latin word goes on at `end`.
fn ends_inside_word(text: &str, end: usize) -> bool {
    let is_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    text[..end].ends_with(is_word)
        && text[end..].starts_with(|next: char| next.is_ascii_alphabetic() || next == '_')
        || text[..end].ends_with(|last: char| last.is_ascii_alphabetic()) && text[end..].starts_with(is_word)
}

/// Superscript digits and signs.
pub(crate) fn is_superscript(character: char) -> bool {
    matches!(character, '²' | '³' | '¹' | '\u{2070}'..='\u{207F}')
}

/// Whether a numeral in words is a number by itself: "one" and 一 mostly are not.
fn stands_alone(word: &str) -> bool {
    if word.is_ascii() {
        return !word.eq_ignore_ascii_case("one");
    }
    word.chars().count() > 1
        && word.contains(['十', '百', '千', '万', '亿'])
        && !matches!(word, "万一" | "千万" | "百万" | "一千" | "一百" | "十万" | "万千" | "百十")
}
