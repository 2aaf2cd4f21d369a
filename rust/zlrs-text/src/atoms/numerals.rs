//! Numbers spelt in words and in Chinese characters.

/// The value of a Chinese numeral such as 一百二十 or 三万. `None` for what is none.
pub(crate) fn chinese(text: &str) -> Option<u64> {
    let (mut total, mut section, mut digit) = (0_u64, 0_u64, None);
    let mut last_power = 1;
    for character in text.chars() {
        if let Some(value) = chinese_digit(character) {
            if digit.is_some() {
                return None;
            }
            if value == 0 {
                last_power = 10;
            } else {
                digit = Some(value);
            }
            continue;
        }
        let power = match character {
            '十' => 10,
            '百' => 100,
            '千' => 1_000,
            '万' => 10_000,
            '亿' => 100_000_000,
            _ => return None,
        };
        if power < 10_000 {
            section += digit.take().filter(|value| *value > 0).unwrap_or(1) * power;
        } else {
            total = (total + section + digit.take().unwrap_or(0)).checked_mul(power)?;
            section = 0;
        }
        last_power = power;
    }
    // 三百五 is 350: a last digit counts tenths of the power before it.
    let rest = digit.unwrap_or(0) * if last_power > 10 && digit.is_some() { last_power / 10 } else { 1 };
    (!text.is_empty()).then_some(total + section + rest)
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

/// The value of an English numeral such as "twenty-five" or "two hundred and six".
pub(crate) fn english(text: &str) -> Option<u64> {
    let (mut total, mut section) = (0_u64, 0_u64);
    let mut is_empty = true;
    for word in text.to_lowercase().split([' ', '-']).filter(|word| !word.is_empty() && *word != "and") {
        is_empty = false;
        if let Some(value) = SMALL.iter().position(|known| *known == word) {
            section += value as u64;
        } else if let Some(value) = TENS.iter().position(|known| *known == word) {
            section += (value as u64 + 2) * 10;
        } else {
            let (_, scale) = SCALES.iter().find(|(known, _)| *known == word)?;
            if *scale == 100 {
                section = section.max(1) * 100;
            } else {
                total += section.max(1) * scale;
                section = 0;
            }
        }
    }
    (!is_empty).then_some(total + section)
}

/// A pattern for English numerals. "one" alone and "second" are mostly no numbers: callers check.
pub(crate) fn english_pattern() -> String {
    let small = SMALL[1..].join("|");
    let tens = TENS.join("|");
    format!(
        r"(?:{small}|(?:{tens})(?:-(?:{}))?)(?:[\s-](?:hundred|thousand|million|billion))*",
        SMALL[1..10].join("|")
    )
}
