//! Numbers with what stands around them: sign, scale, unit, percent, money.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use crate::atoms::currency::{self, Currency};
use crate::atoms::numerals;
use crate::atoms::pattern::compiled;
use crate::atoms::value::{Quantity, Value};
use crate::decimal::Decimal;
use crate::names;
use crate::script::{Language, language};
use crate::units::{self, Unit};

const SCALES: &[(&str, i64)] = &[
    ("thousand", 3),
    ("million", 6),
    ("billion", 9),
    ("trillion", 12),
    ("万亿", 12),
    ("千万", 7),
    ("百万", 6),
    ("千", 3),
    ("百", 2),
    ("万", 4),
    ("亿", 8),
];

/// Scales that are letters: read so only before a currency or, `k`, behind plain digits.
const LETTER_SCALES: &[(&str, i64)] =
    &[("bn", 9), ("mn", 6), ("k", 3), ("K", 3), ("M", 6), ("m", 6), ("B", 9)];

/// Letters that are units behind a space and may be something else without it: 5G, 7B, the 90s, seat 5A, $5m.
const GLUED: [&str; 5] = ["m", "s", "g", "B", "A"];

static NUMBER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    compiled(&format!(
        r"(?P<digits>[0-9]{{1,3}}(?:,[0-9]{{3}})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?|\.[0-9]+)|(?P<han>[零〇一二两三四五六七八九十百千万亿]+)|(?-u:\b)(?i:(?P<words>{}))(?-u:\b)",
        numerals::english_pattern()
    ))
});

static UNIT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let (short, long): (Vec<_>, Vec<_>) =
        units::names().into_iter().partition(|name| name.chars().count() <= 3);
    let join = |names: Vec<&str>| names.into_iter().map(regex::escape).collect::<Vec<_>>().join("|");
    compiled(&format!(r"^[ \x{{A0}}\x{{202F}}-]?(?:(?i:{})|(?:{}))", join(long), join(short)))
});

/// A number before what stands around it is read.
struct Plain {
    range: Range<usize>,
    amount: Decimal,
    places: usize,
    /// See [`Quantity::zeros`].
    zeros: usize,
    is_word: bool,
}

impl Plain {
    fn word(range: Range<usize>, value: u64) -> Plain {
        Plain { range, amount: Decimal::from_integer(value), places: 0, zeros: 0, is_word: true }
    }
}

/// Numbers, percentages and money with their byte ranges, in order.
pub(crate) fn find(text: &str) -> Vec<(Range<usize>, Value)> {
    let Some(pattern) = NUMBER.as_ref() else { return Vec::new() };
    let mut found = Vec::new();
    for captures in pattern.captures_iter(text) {
        let Some(whole) = captures.get(0) else { continue };
        let range = whole.range();
        if captures.name("digits").is_some() {
            found.extend(read_digits(text, range).and_then(|number| value(text, number)));
        } else if captures.name("han").is_some() {
            found.extend(read_chinese(text, range).and_then(|number| value(text, number)));
        } else {
            let numerals = numerals::english(whole.as_str());
            // "between one hundred and five" holds two numbers.
            let is_range = whole.as_str().contains("and") && text[..range.start].ends_with("between ");
            for (part, number) in numerals.into_iter().filter(|_| !is_range) {
                let part = range.start + part.start..range.start + part.end;
                let is_ordinal = text[part.end..].starts_with(['-', ' '])
                    && text[part.start..part.end].ends_with("ty")
                    && text[part.end + 1..].starts_with("second")
                    && !text[part.end + 1..].starts_with("seconds");
                if !is_ordinal {
                    found.extend(value(text, Plain::word(part, number)));
                }
            }
        }
    }
    found
}

/// The value of a number with its sign, scale, unit, percent sign or currency.
fn value(text: &str, number: Plain) -> Option<(Range<usize>, Value)> {
    let Plain { range, amount, places, zeros, is_word } = number;
    let word = &text[range.clone()];
    let prefix = if is_word { None } else { currency::prefix(&text[..range.start]) };
    let Read { mut range, suffix, shift, superscript, spelling } =
        read_suffix(text, range, is_word, prefix.map(|(_, currency)| currency));
    let is_bare = matches!(suffix, Suffix::None);
    if is_word && is_bare && !stands_alone(word) && percent_before(text, range.start).is_none() {
        return None;
    }
    let start = prefix.map_or(range.start, |(start, _)| start);
    let sign = sign_before(text, start);
    let amount = amount.shifted(shift);
    let amount = if sign > 0 { amount.negated() } else { amount };
    range.start = start - sign;
    let mut quantity = Quantity { superscript, places, ..Quantity::plain(amount) };
    let value = match (suffix, prefix) {
        (Suffix::Percent, _) => Value::Percent(quantity),
        (Suffix::Currency(currency), _) | (_, Some((_, currency))) => {
            let currency = currency.in_text(text);
            quantity.spelling = currency.spelling;
            Value::Money { amount: quantity, currency: currency.code }
        }
        (Suffix::Unit(unit), None) => {
            quantity.unit = Some(unit);
            quantity.spelling = spelling;
            Value::Number(quantity)
        }
        (Suffix::None, None) if ends_inside_word(text, range.end) => return None,
        (Suffix::None, None) => {
            quantity.spelling = spelling;
            quantity.zeros = zeros;
            quantity.is_version = places > 0 && word.ends_with('0') && follows_name(text, range.start);
            Value::Number(quantity)
        }
    };
    match percent_before(text, range.start) {
        Some(start) => {
            range.start = start;
            let Value::Number(quantity) = value else { return None };
            Some((range, Value::Percent(quantity)))
        }
        None => Some((range, value)),
    }
}

/// Whether the word before a number is a name, so that the number is a version: Python 3.10 is not Python 3.1.
fn follows_name(text: &str, start: usize) -> bool {
    let before = text[..start].trim_end_matches(' ');
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '#' | '.');
    let word = before.len() - before.trim_end_matches(is_letter).len();
    let (before, word) = before.split_at(before.len() - word);
    let is_inside = before.trim_end().ends_with(|last: char| !matches!(last, '.' | '!' | '?' | ':' | '\n'));
    word.starts_with(|first: char| first.is_ascii_uppercase()) && is_inside
        || names::is_name(&word.to_ascii_lowercase())
}

/// The number, its decimal places and the zeros before it. `None` where the digits belong to something longer.
fn read_digits(text: &str, range: Range<usize>) -> Option<Plain> {
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
    if is_inside && currency::prefix(&text[..range.start]).is_none() || goes_on {
        return None;
    }
    let written = &text[range.clone()];
    let is_grouped = written.contains(',');
    let (whole, fraction) = written.split_once('.').unwrap_or((written, ""));
    // Where a comma stands before decimals, 1,500 kg are one and a half; 0,500 is so everywhere.
    if is_grouped && (whole.starts_with('0') || whole.len() == 5 && has_decimal_comma(text)) {
        return None;
    }
    let leading = whole.len() - whole.trim_start_matches('0').len();
    let zeros = if leading == whole.len() { leading.saturating_sub(1) } else { leading };
    let zeros = if zeros > 0 && is_part_of_date(text, &range) { 0 } else { zeros };
    let places = fraction.len();
    let amount =
        if is_grouped { Decimal::parse(&written.replace(',', ""))? } else { Decimal::parse(written)? };
    Some(Plain { range, amount, places, zeros, is_word: false })
}

/// Whether texts in the language of `text` write 1,5 for one and a half.
fn has_decimal_comma(text: &str) -> bool {
    use Language::{Cyrillic, French, German, Italian, Portuguese, Spanish};
    matches!(language(text), Some(Cyrillic | French | German | Italian | Portuguese | Spanish))
}

/// Whether two digits are a day or a month: in 03/04, 03/04/25 and 03-04-2025 a zero means nothing.
fn is_part_of_date(text: &str, range: &Range<usize>) -> bool {
    const LONGEST: usize = 10;
    if range.len() != 2 {
        return false;
    }
    let is_date = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'/' | b'-');
    let bytes = text.as_bytes();
    let start = range.start
        - bytes[..range.start].iter().rev().take(LONGEST).take_while(|byte| is_date(byte)).count();
    let end = range.end + bytes[range.end..].iter().take(LONGEST).take_while(|byte| is_date(byte)).count();
    let written = &text[start..end];
    let short = |part: &str| (1..=2).contains(&part.len());
    let slashes: Vec<&str> = written.split('/').collect();
    let hyphens: Vec<&str> = written.split('-').collect();
    match (&slashes[..], &hyphens[..]) {
        ([one, two], _) => short(one) && short(two),
        ([one, two, year], _) => short(one) && short(two) && matches!(year.len(), 2 | 4),
        (_, [one, two, year]) => short(one) && short(two) && year.len() == 4,
        _ => false,
    }
}

/// A Chinese numeral: all of the run, or what stands before a unit such as 千克.
fn read_chinese(text: &str, range: Range<usize>) -> Option<Plain> {
    let run = &text[range.clone()];
    if run == "百" && percent_before(text, range.start).is_some() {
        return Some(Plain::word(range, 100));
    }
    let (value, length) = numerals::chinese_prefix(run)?;
    let end = range.start + length;
    let has_unit = end == range.end || unit_at(text, end).is_some();
    has_unit.then(|| Plain::word(range.start..end, value))
}

/// The bytes of a minus before the number: not between numbers and not a hyphen; 零下 and 负.
fn sign_before(text: &str, start: usize) -> usize {
    let before = &text[..start];
    for word in ["零下", "负"] {
        if let Some(rest) = before.strip_suffix(word)
            && !rest.ends_with(['正', '胜', '抱'])
        {
            return word.len();
        }
    }
    let mut before = before.chars().rev();
    let Some(sign @ ('-' | '\u{2212}')) = before.next() else { return 0 };
    let is_minus =
        before.next().is_none_or(|previous| previous.is_whitespace() || "([{:=,（：，".contains(previous));
    if is_minus { sign.len_utf8() } else { 0 }
}

fn percent_before(text: &str, start: usize) -> Option<usize> {
    text[..start].strip_suffix("百分之").map(str::len)
}

enum Suffix {
    None,
    Percent,
    Currency(Currency),
    Unit(&'static Unit),
}

struct Read {
    range: Range<usize>,
    suffix: Suffix,
    shift: i64,
    superscript: String,
    /// See [`Quantity::spelling`].
    spelling: &'static str,
}

/// What stands behind a number; with a currency before it, only what an amount may have there.
fn read_suffix(text: &str, range: Range<usize>, is_word: bool, prefix: Option<Currency>) -> Read {
    let mut end = range.end;
    let superscript: String =
        text[end..].chars().take_while(|character| is_superscript(*character)).collect();
    end += superscript.len();
    let mut shift = 0;
    let mut spelling = "";
    let scales = SCALES.iter().filter(|_| !is_word || text[..end].ends_with(char::is_alphabetic));
    // 3千元 is 3000 元, and 3千克 are 3 kg.
    let is_scale = |word: &str, length: usize| {
        !matches!(word, "千" | "百") || currency::suffix(&text[end + length..], after_space).is_some()
    };
    let scale = scales.copied().find_map(|(word, power)| {
        Some((power, after_space(&text[end..], word).filter(|length| is_scale(word, *length))?))
    });
    if let Some((power, length)) = scale {
        shift = power;
        end += length;
    } else if !is_word {
        let letter = LETTER_SCALES.iter().find(|(letter, power)| {
            (prefix.is_some() || *power == 3) && after_space(&text[end..], letter) == Some(letter.len())
        });
        if let Some((letter, power)) = letter {
            shift = *power;
            // A 4K screen has no 4000 of anything.
            spelling = letter;
            end += letter.len();
        }
    }
    let rest = &text[end..];
    let read = |length: usize, suffix, shift, spelling| Read {
        range: range.start..end + length,
        suffix,
        shift,
        superscript: superscript.clone(),
        spelling,
    };
    if let Some((currency, length, power)) = currency::suffix(rest, after_space) {
        match prefix.map(|prefix| prefix.with(currency)) {
            None => return read(length, Suffix::Currency(currency), shift + power, ""),
            Some(Some(both)) => return read(length, Suffix::Currency(both), shift + power, ""),
            Some(None) => {}
        }
    }
    if prefix.is_some() {
        // The day of a "$20 day pass" is no unit of the dollars.
        return read(0, Suffix::None, shift, "");
    }
    if let Some(length) = ["%", "％", "percent", "per cent"].iter().find_map(|sign| after_space(rest, sign))
    {
        return read(length, Suffix::Percent, shift, "");
    }
    if let Some((unit, length)) = unit_at(text, end) {
        let name = &text[end..end + length];
        let glued = GLUED.iter().find(|letter| name.trim_start_matches('-') == **letter);
        return read(length, Suffix::Unit(unit), shift, glued.copied().unwrap_or(""));
    }
    read(0, Suffix::None, shift, spelling)
}

/// The unit at `at`, with a space or a hyphen before it, and its bytes.
fn unit_at(text: &str, at: usize) -> Option<(&'static Unit, usize)> {
    let found = UNIT.as_ref()?.find(&text[at..])?;
    let name = found.as_str().trim_start_matches([' ', '\u{A0}', '\u{202F}', '-']);
    let is_whole = !ends_inside_word(text, at + found.end());
    Some((Unit::named(name).filter(|_| is_whole)?, found.len()))
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
