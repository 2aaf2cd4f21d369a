//! Asks about what changes by itself: now, today, the latest. Their answers are never kept.
//!
//! A word list, in English and Chinese. It errs on the careful side: a harmless ask that says "now" goes upstream,
//! which costs a call; the other mistake would cost a stale answer.

/// English words that speak of the present wherever they stand.
const WORDS: &[&str] = &[
    "ago",
    "current",
    "currently",
    "latest",
    "newest",
    "now",
    "nowadays",
    "ongoing",
    "presently",
    "recent",
    "recently",
    "today",
    "tomorrow",
    "tonight",
    "trending",
    "upcoming",
    "yesterday",
];

/// Pairs that do so together.
const PAIRS: &[(&str, &str)] = &[
    ("as", "of"),
    ("at", "present"),
    ("so", "far"),
    ("the", "moment"),
    ("these", "days"),
    ("to", "date"),
    ("what", "date"),
    ("what", "day"),
    ("what", "time"),
    ("which", "day"),
];

/// The first word of a moving span of time…
const MOVING: &[&str] = &["coming", "last", "next", "past", "this"];
/// …and its second. Not "may": "this may be" says nothing of time.
const SPANS: &[&str] = &[
    "afternoon",
    "april",
    "august",
    "century",
    "day",
    "days",
    "decade",
    "december",
    "evening",
    "february",
    "friday",
    "hour",
    "hours",
    "january",
    "july",
    "june",
    "march",
    "minute",
    "minutes",
    "monday",
    "month",
    "months",
    "morning",
    "night",
    "november",
    "october",
    "quarter",
    "saturday",
    "season",
    "semester",
    "september",
    "spring",
    "summer",
    "sunday",
    "thursday",
    "tuesday",
    "wednesday",
    "week",
    "weekend",
    "weeks",
    "winter",
    "year",
    "years",
];

/// Chinese words, simplified and traditional. Chinese writes no word boundaries, so they count anywhere.
const CHINESE: &[&str] = &[
    "现在",
    "現在",
    "今天",
    "今日",
    "今晚",
    "今早",
    "今晨",
    "今年",
    "明天",
    "明日",
    "明年",
    "昨天",
    "昨日",
    "昨晚",
    "前天",
    "后天",
    "後天",
    "去年",
    "目前",
    "当前",
    "當前",
    "如今",
    "眼下",
    "此刻",
    "此时",
    "此時",
    "最新",
    "最近",
    "近期",
    "近日",
    "近来",
    "近來",
    "刚刚",
    "剛剛",
    "刚才",
    "剛才",
    "本周",
    "本週",
    "这周",
    "這週",
    "上周",
    "上週",
    "下周",
    "下週",
    "这个月",
    "這個月",
    "本月",
    "上个月",
    "上個月",
    "下个月",
    "下個月",
    "本季",
    "几点",
    "幾點",
    "几号",
    "幾號",
    "星期几",
    "星期幾",
    "实时",
    "實時",
    "即时",
    "即時",
    "截至",
    "迄今",
];

/// The first word or phrase of `ask` that speaks of a moving present, in lower case. Linear in the length of `ask`.
pub fn volatile_words(ask: &str) -> Option<String> {
    if !ask.is_ascii()
        && let Some(word) = CHINESE.iter().find(|word| ask.contains(**word))
    {
        return Some((*word).to_owned());
    }
    let lower = ask.to_lowercase();
    let mut before = "";
    for word in lower.split(|letter: char| !letter.is_alphanumeric() && letter != '_') {
        if word.is_empty() {
            continue;
        }
        if WORDS.binary_search(&word).is_ok() {
            return Some(word.to_owned());
        }
        let moving = MOVING.contains(&before) && SPANS.binary_search(&word).is_ok();
        if moving || PAIRS.contains(&(before, word)) {
            return Some(format!("{before} {word}"));
        }
        before = word;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{SPANS, WORDS};

    #[test]
    fn lists_are_sorted_for_the_search() {
        assert!(WORDS.is_sorted());
        assert!(SPANS.is_sorted());
    }
}
