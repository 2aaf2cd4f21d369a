//! Personal numbers that can be told by their shape and their check digits: pure functions, no model.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use crate::atoms::compiled;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Personal {
    /// An identity card number of mainland China: 18 places, a real birthday, ISO 7064 check digit.
    ChineseId,
    /// A bank card number: 13 to 19 digits with a Luhn check digit.
    BankCard,
    /// An IBAN: the check digits modulo 97.
    Iban,
    /// A mobile number of mainland China.
    ChineseMobile,
    /// A telephone number with `+` and a country code.
    Phone,
    /// An electronic mail address.
    Email,
}

impl Personal {
    /// All kinds.
    pub const ALL: &'static [Personal] = &[
        Personal::ChineseId,
        Personal::BankCard,
        Personal::Iban,
        Personal::ChineseMobile,
        Personal::Phone,
        Personal::Email,
    ];

    /// The name for configuration and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Personal::ChineseId => "chinese_id",
            Personal::BankCard => "bank_card",
            Personal::Iban => "iban",
            Personal::ChineseMobile => "chinese_mobile",
            Personal::Phone => "phone",
            Personal::Email => "email",
        }
    }
}

static DIGITS: LazyLock<Option<Regex>> =
    LazyLock::new(|| compiled(r"\+?[0-9](?:[ -]?[0-9]){9,18}(?:[ -]?[0-9Xx])?"));
static IBAN: LazyLock<Option<Regex>> =
    LazyLock::new(|| compiled(r"(?-u:\b)[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]){11,30}(?-u:\b)"));
static EMAIL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    compiled(r"(?i)(?-u:\b)[a-z0-9._%+-]{1,64}@[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63})+(?-u:\b)")
});
static PHONE: LazyLock<Option<Regex>> =
    LazyLock::new(|| compiled(r"\+[1-9][0-9]{0,3}(?:[ ().-]{0,2}[0-9]){6,13}"));

/// The personal numbers of the wanted `kinds` in `text`, in order, without overlap. Linear in the length of the text.
#[must_use]
pub fn personal(text: &str, kinds: &[Personal]) -> Vec<(Range<usize>, Personal)> {
    let mut found: Vec<(Range<usize>, Personal)> = Vec::new();
    let mut add = |range: Range<usize>, kind: Personal| {
        if kinds.contains(&kind) {
            found.push((range, kind));
        }
    };
    for email in EMAIL.iter().flat_map(|pattern| pattern.find_iter(text)) {
        add(email.range(), Personal::Email);
    }
    for iban in IBAN.iter().flat_map(|pattern| pattern.find_iter(text)) {
        if let Some(length) = iban_length(iban.as_str()) {
            add(iban.start()..iban.start() + length, Personal::Iban);
        }
    }
    for number in DIGITS.iter().flat_map(|pattern| pattern.find_iter(text)) {
        let (range, digits) = trimmed(text, number.range());
        if !is_inside(text, &range)
            && let Some(kind) = numbered(&digits)
        {
            add(range, kind);
        }
    }
    for phone in PHONE.iter().flat_map(|pattern| pattern.find_iter(text)) {
        if !is_inside(text, &phone.range()) {
            add(phone.range(), Personal::Phone);
        }
    }
    found.sort_by_key(|(range, _)| (range.start, std::cmp::Reverse(range.end)));
    let mut end = 0;
    found.retain(|(range, _)| {
        let is_free = range.start >= end;
        end = if is_free { range.end } else { end };
        is_free
    });
    found
}

/// `text` with each of `spans` as `mark` repeated for each letter and digit but the last `kept` ones; separators stay.
#[must_use]
pub fn masked(text: &str, spans: &[(Range<usize>, Personal)], mark: char, kept: usize) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for (range, _) in spans {
        out.push_str(&text[at..range.start]);
        let part = &text[range.clone()];
        let mut left = part.chars().filter(|character| character.is_alphanumeric()).count();
        for character in part.chars() {
            if character.is_alphanumeric() {
                out.push(if left > kept { mark } else { character });
                left -= 1;
            } else {
                out.push(character);
            }
        }
        at = range.end;
    }
    out.push_str(&text[at..]);
    out
}

/// The range without a last separator, and its digits.
fn trimmed(text: &str, range: Range<usize>) -> (Range<usize>, String) {
    let digits = text[range.clone()]
        .chars()
        .filter(|character| character.is_ascii_alphanumeric() || *character == '+')
        .collect();
    (range, digits)
}

/// Part of a longer number or word.
fn is_inside(text: &str, range: &Range<usize>) -> bool {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
    text[..range.start].ends_with(is_part) || text[range.end..].starts_with(is_part)
}

fn numbered(digits: &str) -> Option<Personal> {
    if digits.len() == 18 && is_chinese_id(digits) {
        return Some(Personal::ChineseId);
    }
    let is_all_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_all_digits && (13..=19).contains(&digits.len()) && is_luhn(digits) {
        return Some(Personal::BankCard);
    }
    let mobile = digits
        .strip_prefix("+86")
        .or_else(|| digits.strip_prefix("86").filter(|rest| rest.len() == 11))
        .unwrap_or(digits);
    let is_mobile = mobile.len() == 11
        && mobile.starts_with('1')
        && matches!(mobile.as_bytes()[1], b'3'..=b'9')
        && mobile.bytes().all(|byte| byte.is_ascii_digit());
    is_mobile.then_some(Personal::ChineseMobile)
}

/// GB 11643: a birthday in places 7 to 14 and a check digit by ISO 7064 MOD 11-2.
#[must_use]
pub fn is_chinese_id(digits: &str) -> bool {
    const WEIGHTS: [u32; 17] = [7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2];
    let bytes = digits.as_bytes();
    if bytes.len() != 18 || bytes[0] == b'0' || !bytes[..17].iter().all(u8::is_ascii_digit) {
        return false;
    }
    let number =
        |range: Range<usize>| bytes[range].iter().fold(0_u32, |sum, byte| sum * 10 + u32::from(byte - b'0'));
    let (year, month, day) = (number(6..10), number(10..12), number(12..14));
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    let sum: u32 =
        bytes[..17].iter().zip(WEIGHTS).map(|(byte, weight)| u32::from(byte - b'0') * weight).sum();
    let check = b"10X98765432"[(sum % 11) as usize];
    (1850..=2200).contains(&year) && (1..=days).contains(&day) && bytes[17].to_ascii_uppercase() == check
}

/// The check digit of ISO/IEC 7812-1 (Luhn). Zeros alone are no number.
#[must_use]
pub fn is_luhn(digits: &str) -> bool {
    let is_number = !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && digits.bytes().any(|byte| byte != b'0');
    let sum: u32 = digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(at, byte)| {
            let value = u32::from(byte.wrapping_sub(b'0')) << (at % 2);
            value / 10 + value % 10
        })
        .sum();
    is_number && sum.is_multiple_of(10)
}

/// ISO 13616: the rearranged number is 1 modulo 97.
#[must_use]
pub fn is_iban(text: &str) -> bool {
    let plain: Vec<u8> = text.bytes().filter(|byte| *byte != b' ').collect();
    if !(15..=34).contains(&plain.len())
        || !plain.iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
    {
        return false;
    }
    let rest = plain[4..].iter().chain(&plain[..4]).fold(0_u32, |rest, byte| match byte {
        b'0'..=b'9' => (rest * 10 + u32::from(byte - b'0')) % 97,
        _ => (rest * 100 + u32::from(byte - b'A') + 10) % 97,
    });
    rest == 1 && plain[..2].iter().all(u8::is_ascii_uppercase) && plain[2..4].iter().all(u8::is_ascii_digit)
}

/// The length of the IBAN at the start of `text`: words behind it may look like a part.
fn iban_length(text: &str) -> Option<usize> {
    let ends =
        text.char_indices().filter(|(_, character)| *character == ' ').map(|(at, _)| at).chain([text.len()]);
    ends.collect::<Vec<_>>().into_iter().rev().find(|end| is_iban(&text[..*end]))
}
