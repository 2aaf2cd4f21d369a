//! Currencies: how they are written before and behind an amount, and what each spelling means.

use crate::script::{is_han, is_kana};

/// A currency as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Currency {
    /// ISO 4217 code, or the sign that several countries use.
    pub code: &'static str,
    /// The spelling, where it may mean another country's money: 元 is Hong Kong's too, and rupees are Pakistan's.
    pub spelling: &'static str,
}

impl Currency {
    const fn new(code: &'static str) -> Currency {
        Currency { code, spelling: "" }
    }

    const fn spelt(code: &'static str, spelling: &'static str) -> Currency {
        Currency { code, spelling }
    }

    /// The currency of an amount with a sign before it and a name behind it, as `$5 CAD`. None where they differ.
    pub(crate) fn with(self, behind: Currency) -> Option<Currency> {
        let dollars = ["$", "USD", "HKD", "AUD", "CAD", "SGD", "TWD"];
        let is_meant = match self.code {
            "$" => dollars.contains(&behind.code),
            "¥" => matches!(behind.code, "CNY" | "JPY" | "¥"),
            code => code == behind.code,
        };
        let is_told = self.code == behind.code && self.spelling.is_empty();
        is_meant.then_some(if is_told { self } else { behind })
    }

    /// In a Chinese text ¥ is the yuan, where Japan is not spoken of.
    pub(crate) fn in_text(self, text: &str) -> Currency {
        let is_yuan = self.code == "¥"
            && text.chars().any(is_han)
            && !text.chars().any(is_kana)
            && !["日本", "日元", "日币", "日圆"].iter().any(|word| text.contains(word));
        if is_yuan { Currency::spelt("CNY", "元") } else { self }
    }
}

/// Currencies that stand before the number.
const PREFIXES: &[(&str, Currency)] = &[
    ("US$", Currency::new("USD")),
    ("HK$", Currency::new("HKD")),
    ("A$", Currency::new("AUD")),
    ("C$", Currency::new("CAD")),
    ("S$", Currency::new("SGD")),
    ("NT$", Currency::new("TWD")),
    ("$", Currency::new("$")),
    ("€", Currency::new("EUR")),
    ("£", Currency::new("GBP")),
    ("¥", Currency::new("¥")),
    ("￥", Currency::new("¥")),
    ("₹", Currency::new("INR")),
    ("₩", Currency::new("KRW")),
    ("USD", Currency::new("USD")),
    ("EUR", Currency::new("EUR")),
    ("GBP", Currency::new("GBP")),
    ("JPY", Currency::new("JPY")),
    ("CNY", Currency::new("CNY")),
    ("RMB", Currency::new("CNY")),
    ("HKD", Currency::new("HKD")),
    ("AUD", Currency::new("AUD")),
    ("CAD", Currency::new("CAD")),
    ("CHF", Currency::new("CHF")),
    ("SGD", Currency::new("SGD")),
    ("INR", Currency::new("INR")),
    ("人民币", Currency::new("CNY")),
];

/// Currencies that stand behind the number, with the power of ten of the named coin.
const SUFFIXES: &[(&str, Currency, i64)] = &[
    ("dollars", Currency::new("$"), 0),
    ("dollar", Currency::new("$"), 0),
    ("bucks", Currency::new("$"), 0),
    ("cents", Currency::new("$"), -2),
    ("euros", Currency::new("EUR"), 0),
    ("euro", Currency::new("EUR"), 0),
    ("€", Currency::new("EUR"), 0),
    ("£", Currency::new("GBP"), 0),
    ("yuan", Currency::new("CNY"), 0),
    ("yen", Currency::new("JPY"), 0),
    ("rupees", Currency::spelt("INR", "rupees"), 0),
    ("USD", Currency::new("USD"), 0),
    ("EUR", Currency::new("EUR"), 0),
    ("GBP", Currency::new("GBP"), 0),
    ("JPY", Currency::new("JPY"), 0),
    ("CNY", Currency::new("CNY"), 0),
    ("RMB", Currency::new("CNY"), 0),
    ("HKD", Currency::new("HKD"), 0),
    ("AUD", Currency::new("AUD"), 0),
    ("CAD", Currency::new("CAD"), 0),
    ("CHF", Currency::new("CHF"), 0),
    ("SGD", Currency::new("SGD"), 0),
    ("INR", Currency::new("INR"), 0),
    ("美元", Currency::new("USD"), 0),
    ("美金", Currency::new("USD"), 0),
    ("欧元", Currency::new("EUR"), 0),
    ("英镑", Currency::new("GBP"), 0),
    ("日元", Currency::new("JPY"), 0),
    ("港元", Currency::new("HKD"), 0),
    ("港币", Currency::new("HKD"), 0),
    ("人民币", Currency::new("CNY"), 0),
    ("块钱", Currency::spelt("CNY", "元"), 0),
    ("元", Currency::spelt("CNY", "元"), 0),
    ("块", KUAI, 0),
];

/// 块 is money, and a piece of anything.
const KUAI: Currency = Currency::spelt("CNY", "块");

/// What may follow 块 where it is money.
const BEHIND_KUAI: &str = "吗呢吧啊够对行贵";

/// The currency at the end of `before`, and where it starts.
pub(crate) fn prefix(before: &str) -> Option<(usize, Currency)> {
    let before = before.strip_suffix(' ').unwrap_or(before);
    let (sign, currency) = PREFIXES.iter().find(|(sign, _)| before.ends_with(sign))?;
    let start = before.len() - sign.len();
    let is_whole = !sign.starts_with(|first: char| first.is_ascii_alphabetic())
        || !before[..start].ends_with(|letter: char| letter.is_ascii_alphanumeric());
    // "5 USD 6": the code belongs to the number before it.
    let is_taken = before[..start].trim_end().ends_with(|digit: char| digit.is_ascii_digit());
    (is_whole && !is_taken).then_some((start, *currency))
}

/// The currency at the start of `rest`, its bytes and its power of ten; `length` is the length of a word that starts
/// there, if it does.
pub(crate) fn suffix(
    rest: &str,
    length: impl Fn(&str, &str) -> Option<usize>,
) -> Option<(Currency, usize, i64)> {
    SUFFIXES.iter().find_map(|(name, currency, power)| {
        let end = length(rest, name)?;
        let is_piece = *currency == KUAI
            && rest[end..].starts_with(|next: char| is_han(next) && !BEHIND_KUAI.contains(next));
        (!is_piece).then_some((*currency, end, *power))
    })
}
