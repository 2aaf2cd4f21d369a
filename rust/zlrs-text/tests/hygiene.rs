//! Hygiene: each rule by example, what no rule may touch, and the measure.

use proptest::prelude::*;
use zlrs_text::hygiene::{Rule, Rules, byte_fallback_share, clean, measure};

fn one(text: &str, rule: Rule) -> String {
    clean(text, Rules::none().with(rule)).text
}

#[test]
fn each_rule() {
    for (rule, text, want) in [
        (Rule::Control, "a\u{0}b\u{7}c\td\n", "abc\td\n"),
        (Rule::ZeroWidth, "a\u{200B}b\u{FEFF}c\u{202E}d", "abcd"),
        (Rule::LineEnds, "a\r\nb\rc", "a\nb\nc"),
        (Rule::TrailingSpaces, "a  \nb \t", "a\nb"),
        (Rule::RepeatedSpaces, "    a   b \t c", "    a b c"),
        (Rule::BlankLines, "a\n\n\n\nb", "a\n\nb"),
        (Rule::Rules, "a\n----------\nb", "a\n---\nb"),
        (Rule::RepeatedLines, "same line\nsame line\nother\n", "same line\nother\n"),
        (Rule::RepeatedMarks, "really!!!! yes??? 好！！！", "really! yes? 好！"),
        (Rule::Brackets, "我们营业(周日除外)，欢迎光临", "我们营业（周日除外），欢迎光临"),
    ] {
        assert_eq!(one(text, rule), want, "{rule}");
        assert_eq!(
            clean(text, Rules::all().without(rule)).applied.iter().find(|(known, _)| *known == rule),
            None
        );
        assert_eq!(clean(text, Rules::none().with(rule)).applied.len(), 1, "{rule}");
    }
}

#[test]
fn what_no_rule_touches() {
    for text in [
        "run `a   b (中)，c!!!!`",
        "say \"a   b!!!!\" now",
        "```\nx\nx\n\n\n\ny   = 1\n----------\n```",
        "f(x)，g",
        "函数 f(x) 的值",
        "(plain English), and more",
        "他说“好(的)，行!!!”",
        "👨\u{200D}👩\u{200D}👧",
        "نمی\u{200C}خواهم",
        "10²",
        "yes!!",
        "ok\nok\n",
    ] {
        assert_eq!(clean(text, Rules::all()).text, text, "{text:?}");
    }
}

#[test]
fn the_default_rules_take_nothing_that_can_be_seen() {
    let text = "a\n----------\nsame line\nsame line\nreally!!!!";
    assert_eq!(clean(text, Rules::default()).text, text);
}

#[test]
fn the_measure() {
    assert_eq!(measure("").efficiency, 1.0);
    assert_eq!(measure("plain words, and more.").efficiency, 1.0);
    let share = |text: &str| measure(text).efficiency;
    assert_eq!(share("a\u{200B}\u{200B}b"), 0.5);
    assert_eq!(share("line one\nline one\n"), 0.5);
    assert!(share("a        b") < 0.5);
    assert_eq!(measure("hi 😀").emoji_share, 0.25);
    assert_eq!(measure("hi 😀").byte_fallback_share, 0.25);
    assert_eq!(byte_fallback_share("abcd", |character| character < 'c'), 0.5);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cleaning_twice_is_cleaning_once(text in text(), bits in 0_usize..1024) {
        let rules = Rule::ALL.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1).fold(Rules::none(), |rules, (_, rule)| rules.with(*rule));
        let once = clean(&text, rules);
        prop_assert_eq!(&clean(&once.text, rules).text, &once.text);
        prop_assert!(once.text.len() <= text.len() + text.matches(['(', ')']).count() * 2);
        for measure in [once.before, once.after] {
            prop_assert!((0.0..=1.0).contains(&measure.efficiency) && (0.0..=1.0).contains(&measure.emoji_share));
        }
    }

    #[test]
    fn letters_and_digits_stay(text in text()) {
        let rules = Rules::all().without(Rule::RepeatedLines);
        let kept = |text: &str| text.chars().filter(|character| character.is_alphanumeric()).collect::<String>();
        prop_assert_eq!(kept(&clean(&text, rules).text), kept(&text));
    }

    #[test]
    fn no_rule_changes_nothing(text in any::<String>()) {
        prop_assert_eq!(clean(&text, Rules::none()).text, text);
    }
}

fn text() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "a",
        "word",
        " ",
        "  ",
        "\t",
        "\n",
        "\r\n",
        "\n\n\n",
        "!",
        "!!!",
        "?",
        "。",
        "，",
        "中文",
        "(",
        ")",
        "(中)",
        "`",
        "```",
        "\"",
        "--------",
        "same line\n",
        "\u{200B}",
        "\u{0}",
        "😀",
        "9",
    ]);
    prop_oneof![prop::collection::vec(pieces, 0..16).prop_map(|parts| parts.concat()), any::<String>()]
}
