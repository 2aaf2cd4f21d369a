//! Asks about what changes by itself: now, today, the latest. Their answers are never kept.
//!
//! A word list, in English and Chinese. It errs on the careful side: a harmless ask that says "now" goes upstream,
//! which costs a call; the other mistake would cost a stale answer.
//!
//! Asks in ASCII, the common case, are read by one automaton over all words (aho-corasick, a well-kept library made
//! for this); [`scan`] is the plain reading that it must agree with.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind, StartKind};

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

/// Every word that decides something: those that speak of the present alone, then the second words of pairs.
///
/// None where the automaton cannot be built, which no list here can cause; asks are then read plainly.
static ENGLISH: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let seconds = PAIRS.iter().map(|(_, second)| *second);
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        // "nowadays" before "now": a word counts whole.
        .match_kind(MatchKind::LeftmostLongest)
        .kind(Some(AhoCorasickKind::DFA))
        .start_kind(StartKind::Unanchored)
        .build(WORDS.iter().copied().chain(seconds).chain(SPANS.iter().copied()))
        .ok()
});

static CHINESE_WORDS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| AhoCorasick::new(CHINESE).ok());

/// The first word or phrase of `ask` that speaks of a moving present, in lower case. Linear in the length of `ask`.
pub fn volatile_words(ask: &str) -> Option<String> {
    match (ask.is_ascii(), &*ENGLISH, &*CHINESE_WORDS) {
        (true, Some(words), _) => ascii(ask, words),
        (false, _, Some(words)) => words
            .find_overlapping_iter(ask)
            .map(|found| found.pattern().as_usize())
            .min()
            .map_or_else(|| english(ask), |first| Some(CHINESE[first].to_owned())),
        _ => scan(ask),
    }
}

/// [`scan`] of an ask in ASCII: the automaton stops only at words that may decide, and each is then looked at with
/// the one before it.
fn ascii(ask: &str, words: &AhoCorasick) -> Option<String> {
    let bytes = ask.as_bytes();
    let is_letter =
        |at: usize| bytes.get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    for found in words.find_iter(ask) {
        let (start, end) = (found.start(), found.end());
        if is_letter(end) || (start > 0 && is_letter(start - 1)) {
            continue;
        }
        let word = ask[start..end].to_ascii_lowercase();
        if found.pattern().as_usize() < WORDS.len() {
            return Some(word);
        }
        let stop = (0..start).rev().find(|at| is_letter(*at)).map_or(0, |at| at + 1);
        let begin = (0..stop).rev().find(|at| !is_letter(*at)).map_or(0, |at| at + 1);
        let before = ask[begin..stop].to_ascii_lowercase();
        if is_pair(&before, &word) {
            return Some(format!("{before} {word}"));
        }
    }
    None
}

fn is_pair(before: &str, word: &str) -> bool {
    (MOVING.contains(&before) && SPANS.binary_search(&word).is_ok()) || PAIRS.contains(&(before, word))
}

/// The plain reading: word after word.
fn scan(ask: &str) -> Option<String> {
    match CHINESE.iter().find(|word| ask.contains(**word)) {
        Some(word) => Some((*word).to_owned()),
        None => english(ask),
    }
}

fn english(ask: &str) -> Option<String> {
    let lower = ask.to_lowercase();
    let mut before = "";
    for word in lower.split(|letter: char| !letter.is_alphanumeric() && letter != '_') {
        if word.is_empty() {
            continue;
        }
        if WORDS.binary_search(&word).is_ok() {
            return Some(word.to_owned());
        }
        if is_pair(before, word) {
            return Some(format!("{before} {word}"));
        }
        before = word;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{CHINESE, MOVING, PAIRS, SPANS, WORDS, scan, volatile_words};

    #[test]
    fn lists_are_sorted_for_the_search() {
        assert!(WORDS.is_sorted());
        assert!(SPANS.is_sorted());
    }

    /// Words of the lists, parts of them and others, in any case, with any separators.
    fn piece() -> impl Strategy<Value = String> {
        let firsts: Vec<&str> = PAIRS.iter().flat_map(|(first, second)| [*first, *second]).collect();
        let words =
            [WORDS, SPANS, MOVING, &firsts, &["holi", "know", "nowhere", "x_", "İ", "K", "é"]].concat();
        let separators = vec![" ", ", ", "\n", "", "", "_", "-", "1", "\u{2028}", " 今 "];
        (prop::sample::select(words), prop::sample::select(separators), any::<bool>()).prop_map(
            |(word, separator, is_upper)| {
                let word = if is_upper { word.to_uppercase() } else { word.to_owned() };
                format!("{word}{separator}")
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn the_automaton_reads_like_the_plain_scan(pieces in prop::collection::vec(piece(), 0..6)) {
            let ask = pieces.concat();
            prop_assert_eq!(volatile_words(&ask), scan(&ask), "{}", ask);
        }

        #[test]
        fn ascii_alone_reads_like_the_plain_scan(pieces in prop::collection::vec(piece(), 0..6)) {
            let ask: String = pieces.concat().chars().filter(char::is_ascii).collect();
            prop_assert_eq!(volatile_words(&ask), scan(&ask), "{}", ask);
        }

        #[test]
        fn chinese_words_are_found_in_the_order_of_the_list(
            words in prop::collection::vec(prop::sample::select(CHINESE), 0..4), other in "[a-z 天]{0,4}",
        ) {
            let ask = words.join(&other);
            prop_assert_eq!(volatile_words(&ask), scan(&ask), "{}", ask);
        }
    }
}
