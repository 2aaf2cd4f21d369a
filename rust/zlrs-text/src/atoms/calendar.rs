//! Dates and times of day: English and Chinese spellings of one value.

use std::fmt;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::atoms::numerals;
use crate::atoms::pattern::compiled;

/// A date as precisely as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Date {
    /// Year, month and day; what was not written is `None`.
    Day {
        /// Four digits.
        year: Option<u16>,
        /// 1 to 12.
        month: u8,
        /// 1 to 31.
        day: Option<u8>,
    },
    /// `3/4/2025`: day and month cannot be told apart.
    Ambiguous(u8, u8, Option<u16>),
    /// 1 (Monday) to 7 (Sunday), without and with "next" (1) or "last" (−1).
    Weekday(u8, i8),
    /// Days from today.
    Relative(i8),
}

/// A time of day as precisely as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Time {
    /// 0 to 24, where 24 is the end of the day; 1 to 12 where the half of the day was not written.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59, where written.
    pub second: Option<u8>,
    /// Whether the half of the day is known: `3:00` may be night or afternoon, and midnight (0) the start of a day or
    /// its end.
    pub is_certain: bool,
}

impl fmt::Display for Date {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Date::Day { year, month, day } => {
                write!(out, "{}-{month}-{}", year.map_or(-1, i32::from), day.unwrap_or(0))
            }
            Date::Ambiguous(one, two, year) => write!(out, "{one}/{two}/{}", year.unwrap_or(0)),
            Date::Weekday(day, shift) => write!(out, "weekday {day} {shift}"),
            Date::Relative(days) => write!(out, "today {days}"),
        }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let half = if self.is_certain { "" } else { "?" };
        write!(out, "{}:{:02}:{}{half}", self.hour, self.minute, self.second.map_or(-1, i16::from))
    }
}

const MONTHS: &str = "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?";
const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const RELATIVE: &[(&str, i8)] = &[
    ("the day after tomorrow", 2),
    ("day after tomorrow", 2),
    ("the day before yesterday", -2),
    ("day before yesterday", -2),
    ("tomorrow", 1),
    ("yesterday", -1),
    ("today", 0),
    ("大后天", 3),
    ("后天", 2),
    ("明天", 1),
    ("明日", 1),
    ("今天", 0),
    ("今日", 0),
    ("昨天", -1),
    ("昨日", -1),
    ("前天", -2),
];

static DATE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let relative = RELATIVE.iter().map(|(word, _)| *word).collect::<Vec<_>>();
    compiled(&format!(
        r"(?xi)
        (?-u:\b)(?P<y1>[0-9]{{4}})[-/.](?P<m1>[0-9]{{1,2}})[-/.](?P<d1>[0-9]{{1,2}})(?-u:\b)
        |(?:(?P<y2>[0-9]{{4}})\s?年\s?)?(?P<m2>[0-9]{{1,2}}|[一二三四五六七八九十]{{1,2}})\s?月\s?(?:(?P<d2>[0-9]{{1,2}}|[一二三四五六七八九十]{{1,3}})\s?[日号])?
        |(?-u:\b)(?P<d3>[0-9]{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<m3>{MONTHS})(?-u:\b)\.?(?:,?\s+(?P<y3>[0-9]{{4}})(?-u:\b))?
        |(?-u:\b)(?P<m4>{MONTHS})(?-u:\b)\.?\s+(?P<d4>[0-9]{{1,2}})(?:st|nd|rd|th)?(?-u:\b)(?:,?\s+(?P<y4>[0-9]{{4}})(?-u:\b))?
        |(?-u:\b)(?P<m5>{MONTHS})(?-u:\b)\.?,?\s+(?P<y5>[0-9]{{4}})(?-u:\b)
        |(?-u:\b)(?P<a>[0-9]{{1,2}})/(?P<b>[0-9]{{1,2}})/(?P<y6>[0-9]{{4}})(?-u:\b)
        |(?P<shift>(?-u:\b)next\s|(?-u:\b)last\s)?(?-u:\b)(?P<week>mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)days?(?-u:\b)
        |(?P<zshift>下下|上上|下个?|上个?)?(?:星期|周|礼拜)(?P<zweek>[一二三四五六日天])
        |(?P<rel>{})",
        // White space is ignored in this mode: it has to be said.
        relative.join("|").replace(' ', r"\s")
    ))
});

static TIME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    compiled(
        r"(?xi)
        (?-u:\b)(?P<h1>[0-9]{1,2})(?:[:.](?P<n1>[0-9]{2}))?(?::(?P<s1>[0-9]{2}))?\s?(?P<half>a\.m\.|p\.m\.|am(?-u:\b)|pm(?-u:\b))
        |(?-u:\b)(?P<h2>[0-9]{1,2}):(?P<n2>[0-9]{2})(?::(?P<s2>[0-9]{2}))?(?-u:\b)
        |(?P<zhalf>凌晨|清晨|早晨|早上|上午|中午|下午|傍晚|晚上|夜晚|夜里|半夜|深夜)?\s?(?P<h3>[0-9]{1,2}|[一二两三四五六七八九十]{1,3})[点點](?:(?P<zh>半)|(?P<n3>[0-9]{2})\s?分?|(?P<n4>[0-9])\s?分)?(?:钟)?
        |(?-u:\b)(?P<noon>noon|midnight)(?-u:\b)",
    )
});

/// Dates with their byte ranges.
pub(crate) fn dates(text: &str) -> Vec<(std::ops::Range<usize>, Date)> {
    let Some(pattern) = DATE.as_ref() else { return Vec::new() };
    pattern
        .captures_iter(text)
        .filter_map(|found| {
            let mut range = trimmed(text, found.get(0)?.range());
            if continues(text, range.start) {
                return None;
            }
            if found.name("week").is_some() && text[range.clone()].ends_with(['s', 'S']) {
                // "On Mondays" is not "on Monday": the letter stays in the text.
                range.end -= 1;
            }
            Some((range, date(&found)?))
        })
        .collect()
}

/// Whether digits go on from a number before `start`: 123点 has no 23点 in it, nor has 10.05 am 05 am.
fn continues(text: &str, start: usize) -> bool {
    const HAN_DIGITS: &str = "零〇一二两三四五六七八九十百千";
    let mut before = text[..start].chars().rev();
    let is_digit = |character: char| character.is_ascii_digit();
    let Some(first) = text[start..].chars().next() else { return false };
    match before.next() {
        Some('.' | ':' | ',') => is_digit(first) && before.next().is_some_and(is_digit),
        Some(last) => {
            is_digit(first) && is_digit(last) || HAN_DIGITS.contains(first) && HAN_DIGITS.contains(last)
        }
        None => false,
    }
}

/// A month's full stop or a space at the end is not part of the date.
fn trimmed(text: &str, range: std::ops::Range<usize>) -> std::ops::Range<usize> {
    range.start..range.start + text[range.clone()].trim_end_matches([' ', '.']).len()
}

fn date(found: &Captures<'_>) -> Option<Date> {
    let get = |name: &str| found.name(name).map(|part| part.as_str());
    let any = |names: &[&str]| names.iter().find_map(|name| get(name));
    if let Some(word) = get("rel") {
        let word = word.to_lowercase();
        return RELATIVE.iter().find(|(known, _)| *known == word).map(|(_, days)| Date::Relative(*days));
    }
    if let Some(day) = get("week") {
        let day = WEEKDAYS.iter().position(|known| day.to_lowercase().starts_with(known))?;
        let shift =
            get("shift").map_or(0, |word| if word.trim().eq_ignore_ascii_case("next") { 1 } else { -1 });
        return Some(Date::Weekday(day as u8 + 1, shift));
    }
    if let Some(day) = get("zweek") {
        let day = if day == "天" {
            7
        } else {
            "一二三四五六日".chars().position(|known| day.starts_with(known))? + 1
        };
        let shift = get("zshift").map_or(0, |word| {
            let count = if word.chars().nth(1) == word.chars().next() { 2 } else { 1 };
            if word.starts_with('下') { count } else { -count }
        });
        return Some(Date::Weekday(day as u8, shift));
    }
    let year = any(&["y1", "y2", "y3", "y4", "y5", "y6"]).and_then(|digits| digits.parse().ok());
    if let (Some(one), Some(two)) = (get("a"), get("b")) {
        let (one, two) = (one.parse::<u8>().ok()?, two.parse::<u8>().ok()?);
        return match (one > 12, two > 12) {
            (true, false) => day(year, two, Some(one)),
            (false, true) => day(year, one, Some(two)),
            (false, false) if one == two => day(year, one, Some(two)),
            (false, false) => Some(Date::Ambiguous(one, two, year)),
            (true, true) => None,
        };
    }
    let number = |text: &str| text.parse::<u8>().ok().or_else(|| numerals::chinese(text)?.try_into().ok());
    let month = match any(&["m3", "m4", "m5"]) {
        Some(name) => month_number(name)?,
        None => number(any(&["m1", "m2"])?)?,
    };
    let written_day = any(&["d1", "d2", "d3", "d4"]);
    day(year, month, written_day.map(number).unwrap_or_default()).filter(|date| {
        // "五个月" has no month; a bare "3月" has neither year nor day and is still a date.
        written_day.is_none() || matches!(date, Date::Day { day: Some(_), .. })
    })
}

fn month_number(name: &str) -> Option<u8> {
    const STARTS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let lower = name.to_lowercase();
    STARTS.iter().position(|start| lower.starts_with(start)).map(|at| at as u8 + 1)
}

fn day(year: Option<u16>, month: u8, day: Option<u8>) -> Option<Date> {
    let is_real = (1..=12).contains(&month) && day.is_none_or(|day| (1..=31).contains(&day));
    is_real.then_some(Date::Day { year, month, day })
}

/// Times of day with their byte ranges.
pub(crate) fn times(text: &str) -> Vec<(std::ops::Range<usize>, Time)> {
    let Some(pattern) = TIME.as_ref() else { return Vec::new() };
    let found = pattern.captures_iter(text).filter_map(|found| Some((found.get(0)?.range(), time(&found)?)));
    found.filter(|(range, _)| !continues(text, range.start)).collect()
}

fn time(found: &Captures<'_>) -> Option<Time> {
    let get = |name: &str| found.name(name).map(|part| part.as_str());
    if let Some(word) = get("noon") {
        let is_noon = word.eq_ignore_ascii_case("noon");
        return Some(Time {
            hour: if is_noon { 12 } else { 0 },
            minute: 0,
            second: None,
            is_certain: is_noon,
        });
    }
    let hour = get("h1").or(get("h2")).or(get("h3"))?;
    let hour = hour.parse::<u8>().ok().or_else(|| numerals::chinese(hour)?.try_into().ok())?;
    let minute = match ["n1", "n2", "n3", "n4"].into_iter().find_map(get) {
        Some(digits) => digits.parse().ok()?,
        None if get("zh").is_some() => 30,
        None => 0,
    };
    let second = match get("s1").or(get("s2")) {
        Some(digits) => Some(digits.parse::<u8>().ok()?),
        None => None,
    };
    if hour > 24 || minute > 59 || second.is_some_and(|second| second > 59) {
        return None;
    }
    let (hour, is_certain) = match (get("half"), get("zhalf")) {
        (Some(half), _) => english_hour(hour, half.starts_with(['p', 'P']), minute == 0)?,
        (None, Some(half)) => (chinese_hour(half, hour)?, true),
        (None, None) => (hour, hour > 12 || hour == 0),
    };
    Some(Time { hour, minute, second, is_certain })
}

/// The hour before "am" or "pm". "12 am" is midnight, and of which day is not said.
fn english_hour(hour: u8, is_afternoon: bool, is_full: bool) -> Option<(u8, bool)> {
    match (is_afternoon, hour) {
        (false, 12) => Some((0, !is_full)),
        (false, 0..=11) | (true, 12..=23) => Some((hour, true)),
        (true, 1..=11) => Some((hour + 12, true)),
        _ => None,
    }
}

/// The hour behind a part of the day. None where they do not fit, or where the part of the day may be one or the other:
/// 晚上1点 is one o'clock at night for some and nothing for others. Twelve in the evening is the end of the day: 今天晚上12点
/// is a day later than 今天凌晨12点.
fn chinese_hour(half: &str, hour: u8) -> Option<u8> {
    match (half, hour) {
        ("凌晨", 12) => Some(0),
        ("凌晨", 0..=6)
        | ("清晨" | "早晨" | "早上" | "上午", 1..=11)
        | ("中午", 11..=15)
        | ("下午", 12..=18)
        | ("傍晚", 15..=20)
        | ("晚上" | "夜晚", 17..=24)
        | ("夜里" | "半夜" | "深夜", 1..=5 | 21..=24) => Some(hour),
        ("中午", 1..=3) | ("下午", 1..=11) | ("傍晚", 3..=8) | ("晚上" | "夜晚", 5..=11) => {
            Some(hour + 12)
        }
        ("夜里" | "半夜" | "深夜", 9..=11) => Some(hour + 12),
        ("晚上" | "夜晚" | "夜里" | "半夜" | "深夜", 12) => Some(24),
        _ => None,
    }
}
