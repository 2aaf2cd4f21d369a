//! The comparator: each step by example, and its measured rates.

use proptest::prelude::*;
use zlrs_text::flips::{right_answers, upper_limit, wrong_answers};
use zlrs_text::{Agreement, Cause, agree};

const ASK: &str = "What should I know?";

fn check(cases: &[(&str, &str, Agreement, &str)]) {
    for (a, b, agreement, reason) in cases {
        let verdict = agree(ASK, a, b);
        assert_eq!((verdict.agreement, verdict.reason.name()), (*agreement, *reason), "{a:?} {b:?}");
    }
}

#[test]
fn step_1_equal_after_nfc_and_white_space() {
    check(&[
        ("caf\u{e9}  is\nopen", "cafe\u{301} is open ", Agreement::Agree, "identical"),
        ("", "", Agreement::Agree, "identical"),
        ("say \"a  b\" now, please do", "say \"a b\" now, please do", Agreement::Contradict, "quotation"),
    ]);
}

#[test]
fn step_2_kind_language_refusal() {
    check(&[
        ("{\"a\": 1}", "a is 1", Agreement::Contradict, "kind"),
        ("42", "It depends on the plan.", Agreement::Contradict, "kind"),
        ("Yes", "B", Agreement::Contradict, "kind"),
        ("", "something", Agreement::Contradict, "kind"),
        ("The shop is open on all days.", "这家商店每天都营业。", Agreement::Contradict, "language"),
        ("The shop is open.", "I'm sorry, but I can't help with that.", Agreement::Contradict, "refusal"),
        ("商店九点开门。", "抱歉，我无法回答。", Agreement::Contradict, "refusal"),
    ]);
}

#[test]
fn step_3_closed_kinds() {
    check(&[
        ("{\"a\": 1.0, \"b\": \"x\"}", "{\"b\":\"x\",\"a\":1.00}", Agreement::Agree, "json"),
        ("{\"a\": 10000000000000001}", "{\"a\": 10000000000000002}", Agreement::Contradict, "json"),
        ("{\"a\": \"x  y\"}", "{\"a\": \"x y\"}", Agreement::Contradict, "json"),
        ("5 km", "5000 metres", Agreement::Agree, "number"),
        ("5 km", "5 m", Agreement::Contradict, "number"),
        ("10²", "102", Agreement::Contradict, "number"),
        ("$5", "$5.00", Agreement::Agree, "money"),
        ("No.", "no", Agreement::Agree, "yes_no"),
        ("是", "不是", Agreement::Contradict, "yes_no"),
        ("Option B", "(B)", Agreement::Agree, "choice"),
        ("A and C", "C, B", Agreement::Contradict, "choice"),
        ("Paris", "paris.", Agreement::Agree, "label"),
        ("```\nif a:\n    b()\nc()\n```", "```\nif a:\n    b()\n    c()\n```", Agreement::Contradict, "code"),
        ("```js\nlet a=1;\n```", "```js\nlet a = 1;\n```", Agreement::Agree, "code"),
    ]);
}

#[test]
fn step_4_hard_atoms_polarity_and_order() {
    check(&[
        ("You have 30 days to return it.", "You have 14 days to return it.", Agreement::Contradict, "number"),
        ("Pay $5 or more at the desk.", "Pay $6 or more at the desk.", Agreement::Contradict, "money"),
        ("You can return it.", "You can return it within 30 days.", Agreement::Undecided, "superset"),
        ("Yes, that works well.", "No, that works well.", Agreement::Contradict, "polarity"),
        (
            "You can return opened boxes.",
            "You cannot return opened boxes.",
            Agreement::Contradict,
            "negation",
        ),
        (
            "Basic costs $5 and Plus costs $9 a month.",
            "Basic costs $9 and Plus costs $5 a month.",
            Agreement::Undecided,
            "order",
        ),
        ("1. Open it.\n2. Close it.", "1. Close it.\n2. Open it.", Agreement::Undecided, "order"),
        (
            "Please enable the switch first.",
            "Please disable the switch first.",
            Agreement::Contradict,
            "antonym",
        ),
    ]);
    let verdict = agree("Is it 5 or 10 days?", "It usually takes 5 days.", "It usually takes 10 days.");
    assert_eq!(verdict.agreement, Agreement::Undecided);
    let verdict = agree(
        "Where is order #12345?",
        "Order #12345 has left the warehouse.",
        "The order has left the warehouse.",
    );
    assert_eq!(verdict.agreement, Agreement::Agree, "{verdict:?}");
}

#[test]
fn step_5_words() {
    check(&[
        (
            "You can return the item to any store.",
            "Sure! You can also return the item to any shop.",
            Agreement::Agree,
            "words",
        ),
        (
            "You can return items to the store.",
            "You can return unopened items to the store.",
            Agreement::Undecided,
            "insertion",
        ),
        ("The cover is made of oak.", "The cover is made of pine.", Agreement::Undecided, "substitution"),
        ("We ship to Norway each week.", "We ship each week.", Agreement::Undecided, "entity"),
        (
            "The box was opened by the sender.",
            "The box was opened by the sender. Keep the paper. Keep the foil. Keep the lid. Keep the tape.",
            Agreement::Undecided,
            "length",
        ),
        ("All members get a gift.", "Some members get a gift.", Agreement::Undecided, "quantifier"),
        ("The parcel arrives at the hub.", "The parcel arrived at the hub.", Agreement::Undecided, "tense"),
    ]);
}

/// β of the specification: at most 0.1 %.
#[test]
fn false_agreement_is_rare() {
    let pairs = wrong_answers();
    assert!(pairs.len() >= 3_000, "{}", pairs.len());
    let wrong: Vec<_> = pairs
        .iter()
        .filter(|pair| agree(&pair.ask, &pair.left, &pair.right).agreement == Agreement::Agree)
        .collect();
    let beta = upper_limit(wrong.len(), pairs.len());
    assert!(beta <= 0.001, "{beta} {wrong:#?}");
}

/// A comparator that never agrees has no false agreement either.
#[test]
fn right_answers_agree_and_none_contradicts() {
    let pairs = right_answers();
    let agreed = pairs
        .iter()
        .filter(|pair| agree(&pair.ask, &pair.left, &pair.right).agreement == Agreement::Agree)
        .count();
    assert!(agreed * 10 >= pairs.len() * 8, "{agreed} of {}", pairs.len());
    let refused: Vec<_> = pairs
        .iter()
        .filter(|pair| agree(&pair.ask, &pair.left, &pair.right).agreement == Agreement::Contradict)
        .collect();
    assert!(refused.len() * 100 <= pairs.len(), "{refused:#?}");
}

#[test]
fn the_limit_is_the_exact_binomial_one() {
    for (wrong, trials, limit) in
        [(0, 299, 0.009_969), (0, 2995, 0.000_999_7), (1, 4742, 0.001_000), (3, 100, 0.075_7)]
    {
        let found = upper_limit(wrong, trials);
        assert!((found - limit).abs() / limit < 0.002, "{wrong} of {trials}: {found}");
    }
    assert_eq!(upper_limit(0, 0), 1.0);
}

#[test]
fn long_answers_end() {
    let words = |step: usize| (0..20_000).map(|at| (at * step).to_string()).collect::<Vec<_>>().join(" w");
    assert_eq!(agree(ASK, &words(2), &words(3)).reason, Cause::TooLong);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agreement_is_symmetric(a in prop_oneof![any::<String>(), sentence()], b in prop_oneof![any::<String>(), sentence()]) {
        prop_assert_eq!(agree(ASK, &a, &b).agreement, agree(ASK, &b, &a).agreement);
        prop_assert_eq!(agree(ASK, &a, &a).agreement, Agreement::Agree);
    }

    /// Words of classes, values and names in random places: any one more or less is no agreement.
    #[test]
    fn one_more_word_that_counts_is_no_agreement(text in sentence(), at in 0_usize..6, word in prop::sample::select(vec!["not", "never", "all", "only", "must", "before", "my", "7", "$3", "unless", "不", "没有", "至少"])) {
        let mut words: Vec<&str> = text.split(' ').collect();
        words.insert(at.min(words.len()), word);
        prop_assert_ne!(agree(ASK, &text, &words.join(" ")).agreement, Agreement::Agree, "{}", words.join(" "));
    }
}

fn sentence() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "the", "shop", "opens", "return", "item", "to", "desk", "and", "please", "box", "is", "yes,", "no,",
        "5", "km", "not", "退货", "可以",
    ]);
    prop::collection::vec(words, 3..9).prop_map(|words| words.join(" "))
}

/// One word of content replaced, put in or left out in sentences that say something: never agreement.
#[test]
fn one_word_of_content_is_no_agreement() {
    let mut sentences: Vec<String> = right_answers()
        .into_iter()
        .filter(|pair| pair.left.is_ascii() && pair.left.len() > 40)
        .map(|pair| pair.left)
        .collect();
    sentences.sort_unstable();
    sentences.dedup();
    assert!(sentences.len() >= 20);
    let strangers = ["granite", "orchestra", "lavender", "submarine", "penalty", "glossary"];
    let mut checked = 0;
    for (turn, sentence) in sentences.iter().enumerate() {
        let words: Vec<&str> = sentence.split(' ').collect();
        let content = |word: &&&str| word.len() > 4 && word.bytes().all(|byte| byte.is_ascii_lowercase());
        for (at, _) in words.iter().enumerate().filter(|(_, word)| content(word)) {
            let stranger = strangers[(turn + at) % strangers.len()];
            let (mut replaced, mut more, mut fewer) = (words.clone(), words.clone(), words.clone());
            replaced[at] = stranger;
            more.insert(at, stranger);
            fewer.remove(at);
            let is_light = ["please", "after", "about"].contains(&words[at]);
            for changed in [Some(replaced), Some(more), (!is_light).then_some(fewer)].into_iter().flatten() {
                let verdict = agree(ASK, sentence, &changed.join(" "));
                assert_ne!(verdict.agreement, Agreement::Agree, "{sentence:?} {changed:?}");
                checked += 1;
            }
        }
    }
    assert!(checked > 200, "{checked}");
}
