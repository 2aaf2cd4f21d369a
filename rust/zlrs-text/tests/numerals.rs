//! Numbers in words and in Chinese characters: what is read is the number, and what may be two numbers is none.

#![allow(clippy::panic, reason = "helpers of a test")]

use proptest::prelude::*;
use zlrs_text::{Canon, Decimal, Extractor, Value, guard};

fn key(text: &str) -> String {
    Extractor::default().form(text, Canon::C2).entry_key()
}

fn one(text: &str) -> Value {
    let mut found = Extractor::default().slots(text);
    assert_eq!(found.len(), 1, "{text:?}: {found:?}");
    found.remove(0).value
}

#[test]
fn numerals() {
    let amount = |text: &str| match one(text) {
        Value::Number(quantity) | Value::Money { amount: quantity, .. } | Value::Percent(quantity) => {
            quantity.amount.to_string()
        }
        other => panic!("{text:?}: {other:?}"),
    };
    for (text, want) in [
        ("一亿三千万元", "13e7"),
        ("三万亿元", "3e12"),
        ("一万二千亿元", "12e11"),
        ("一亿零三千元", "100003e3"),
        ("二十万三千元", "203e3"),
        ("二十万零三千元", "203e3"),
        ("三百五十元", "35e1"),
        ("三百五元", "35e1"),
        ("三百零五元", "305"),
        ("一百一十五元", "115"),
        ("三万五元", "35e3"),
        ("二十千克", "2e1"),
        ("五千克", "5e3"),
        ("百分之百", "1e2"),
        ("3千元", "3e3"),
        ("5百块钱", "5e2"),
        ("3千克", "3"),
        ("零下五度", "-5"),
        ("-5 km", "-5"),
        ("two hundred and six km", "206"),
        ("two hundred thousand km", "2e5"),
        ("nineteen hundred km", "19e2"),
        ("twenty five km", "25"),
        ("twenty-five km", "25"),
        ("one hundred twenty km", "12e1"),
        ("two million six thousand and one km", "2006001"),
    ] {
        assert_eq!(amount(text), want, "{text:?}");
    }
    for text in [
        "万元",
        "亿元",
        "零五年",
        "二〇二五年",
        "五〇公里",
        "一亿三千",
        "百度",
        "几千元",
        "三五天",
        "一万万元",
        "between one hundred and five",
        "five hundred and six thousand",
        "the twenty-second floor",
        "0,500 kg",
    ] {
        assert_eq!(Extractor::default().slots(text), vec![], "{text:?}");
    }
    for (left, right) in [
        ("一亿三千万元够吗", "十三万亿元够吗"),
        ("万元够吗", "亿元够吗"),
        ("Is two hundred and six enough?", "Is 200 and 6 enough?"),
        ("Are 5 days fine?", "Are -5 days fine?"),
        ("零下5度冷吗", "5度冷吗"),
        ("kostet das 1,500 kg und ist es da", "kostet das 1500 kg und ist es da"),
    ] {
        assert_ne!(key(left), key(right), "{left:?} {right:?}");
        assert!(guard(left, right).is_some(), "{left:?} {right:?}");
    }
    assert_eq!(key("零下5度冷吗"), key("-5度冷吗"));
    assert_eq!(key("Is two hundred and six enough?"), key("is 206 enough"));
}

/// A number as it is written in Chinese characters.
fn chinese(number: u64) -> String {
    fn below_wan(number: u64, is_inside: bool, out: &mut String) {
        let mut is_skipped = is_inside && number < 1000;
        let mut has_begun = false;
        for (power, name) in [(1000, "千"), (100, "百"), (10, "十"), (1, "")] {
            let digit = number / power % 10;
            if digit == 0 {
                is_skipped |= has_begun;
                continue;
            }
            if is_skipped {
                out.push('零');
            }
            out.extend("零一二三四五六七八九".chars().nth(digit as usize));
            out.push_str(name);
            (is_skipped, has_begun) = (false, true);
        }
    }
    fn below_yi(number: u64, is_inside: bool, out: &mut String) {
        let (high, low) = (number / 10_000, number % 10_000);
        if high > 0 {
            below_wan(high, is_inside, out);
            out.push('万');
        }
        if low > 0 {
            below_wan(low, is_inside || high > 0, out);
        }
    }
    let mut out = String::new();
    let (high, low) = (number / 100_000_000, number % 100_000_000);
    if high > 0 {
        below_yi(high, false, &mut out);
        out.push('亿');
    }
    if low > 0 {
        // 一亿零三千: the place of 千万 is empty.
        if high > 0 && (1_000..10_000).contains(&low) {
            out.push('零');
        }
        below_yi(low, high > 0, &mut out);
    }
    out
}

/// A number in English words, with "and" as in Britain or without.
fn english(number: u64, and: &str) -> String {
    const SMALL: [&str; 20] = [
        "",
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
    const TENS: [&str; 10] =
        ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
    let below_hundred = |number: usize| match number {
        0..20 => SMALL[number].to_owned(),
        _ if number.is_multiple_of(10) => TENS[number / 10].to_owned(),
        _ => format!("{}-{}", TENS[number / 10], SMALL[number % 10]),
    };
    let below_thousand = |number: usize, and: &str| match (number / 100, number % 100) {
        (0, rest) => below_hundred(rest),
        (hundreds, 0) => format!("{} hundred", SMALL[hundreds]),
        (hundreds, rest) => format!("{} hundred {and}{}", SMALL[hundreds], below_hundred(rest)),
    };
    let mut parts = Vec::new();
    for (scale, name) in [(1_000_000_000, " billion"), (1_000_000, " million"), (1_000, " thousand"), (1, "")]
    {
        let part = (number / scale % 1000) as usize;
        if part > 0 {
            // "And" before a scale may join two numbers: there it is left out.
            parts.push(format!("{}{name}", below_thousand(part, if scale == 1 { and } else { "" })));
        }
    }
    parts.join(" ")
}

fn amount_of(text: &str) -> Decimal {
    match one(text) {
        Value::Number(quantity) => quantity.amount,
        other => panic!("{text:?}: {other:?}"),
    }
}

fn numbers(limit: u64) -> impl Strategy<Value = u64> {
    // Of any length, with and without zeros inside.
    (0..limit, 0_u32..16, prop::collection::vec(0_u32..16, 0..6)).prop_map(|(number, shift, zeros)| {
        let mut number = number / 10_u64.pow(shift);
        for place in zeros.into_iter().map(|place| 10_u64.pow(place)) {
            number -= number / place % 10 * place;
        }
        number.max(1)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_chinese_numeral_is_read_as_its_number(number in numbers(10_000_000_000_000_000)) {
        let numeral = chinese(number);
        prop_assert_eq!(amount_of(&format!("要{numeral}公斤吗")), Decimal::from_integer(number), "{}", numeral);
        // 十五 is 一十五.
        if let Some(short) = numeral.strip_prefix('一').filter(|short| short.starts_with('十')) {
            prop_assert_eq!(amount_of(&format!("要{short}公斤吗")), Decimal::from_integer(number), "{}", short);
        }
    }

    #[test]
    fn an_english_numeral_is_read_as_its_number(number in numbers(1_000_000_000_000), and in prop::sample::select(vec!["", "and "])) {
        let numeral = english(number, and);
        prop_assert_eq!(amount_of(&format!("is {numeral} kg fine")), Decimal::from_integer(number), "{}", numeral);
    }

    #[test]
    fn two_chinese_numerals_never_share_a_value(one in "[一二三十百千万亿零]{1,7}", two in "[一二三十百千万亿零]{1,7}") {
        // Whatever is read, is read as a numeral of that number: the shortest forms apart, there is one.
        let read = |text: &str| {
            let found = Extractor::default().slots(&format!("要{text}公斤吗"));
            match &found[..] {
                [atom] if atom.span.len() == text.len() + "公斤".len() => match &atom.value {
                    Value::Number(quantity) => Some(quantity.amount.clone()),
                    _ => None,
                },
                _ => None,
            }
        };
        if let (Some(left), Some(right)) = (read(&one), read(&two)) {
            prop_assert!(left != right || one.contains('万') || one.contains('零') || plain(&one) == plain(&two), "{} {}", one, two);
        }
    }
}

/// Without what may be left out: the 一 of 一十 and the power of a last digit.
fn plain(numeral: &str) -> String {
    let mut out = numeral.replace("一十", "十");
    for (power, next) in [("亿", "千万"), ("千", "百"), ("百", "十")] {
        if let Some(at) = out.rfind(power).map(|at| at + power.len())
            && out[at..].chars().count() == 1
            && out[at..].starts_with(['一', '二', '三'])
        {
            out.push_str(next);
        }
    }
    out.replace("一十", "十")
}
