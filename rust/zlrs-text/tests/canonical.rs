//! What each form merges, and what it must never merge.

use proptest::prelude::*;
use zlrs_text::{Canon, canonical};

fn c1(text: &str) -> String {
    canonical(text, Canon::C1)
}

fn c2(text: &str) -> String {
    canonical(text, Canon::C2)
}

#[test]
fn c1_merges_unicode_forms_line_ends_and_spaces() {
    for (left, right) in [
        ("cafe\u{301} hours", "caf\u{e9} hours"),
        ("a  b", "a b"),
        ("a\tb", "a b"),
        ("  what is this  ", "what is this"),
        ("one\r\ntwo\rthree", "one\ntwo\nthree"),
        ("300 \u{212A}", "300 K"),
    ] {
        assert_eq!(c1(left), c1(right), "{left:?} {right:?}");
    }
}

#[test]
fn c1_keeps_what_may_change_an_answer() {
    for (left, right) in [
        ("what is 10\u{b2}", "what is 102"),
        ("the US economy", "the us economy"),
        ("say \"a  b\"", "say \"a b\""),
        ("run `a  b`", "run `a b`"),
        ("run ```\na  b\n```", "run ```\na b\n```"),
        ("it's 'a  b'", "it's 'a b'"),
        ("quote \u{201C}a  b\u{201D}", "quote \u{201C}a b\u{201D}"),
        ("unclosed \"a  b", "unclosed \"a b"),
        ("if x:\n    y", "if x:\n y"),
        ("a\u{200D}b", "ab"),
        ("a\u{A0}b", "a b"),
        ("ﬁne", "fine"),
        ("①", "1"),
        ("½", "1/2"),
        ("a\nb", "a b"),
        ("What is this?", "what is this"),
        ("\"cafe\u{301}\" bytes", "\"caf\u{e9}\" bytes"),
    ] {
        assert_ne!(c1(left), c1(right), "{left:?} {right:?}");
    }
}

#[test]
fn c2_merges_case_of_the_first_word_punctuation_politeness_and_contractions() {
    for (left, right) in [
        ("What is the return policy?", "what is the return policy"),
        ("What's the return policy?", "What is the return policy"),
        ("What\u{2019}s the return policy?", "what is the return policy??"),
        ("Please tell me the opening hours.", "Tell me the opening hours"),
        ("Tell me the opening hours, please.", "tell me the opening hours"),
        ("Hi, what are the opening hours?", "What are the opening hours?"),
        ("Hello! Please tell me the hours", "tell me the hours"),
        ("Where is order 42? Thanks!", "where is order 42"),
        ("Where is order 42, please? Thank you.", "Where is order 42?"),
        ("Why can't I log in?", "why cannot I log in"),
        ("I'm unable to log in.", "I am unable to log in"),
        ("Where is order #42?", "where is order #42"),
        ("What is 15% of $1,000?", "what is 15% of $1,000"),
        ("Don't you ship to Norway?", "do not you ship to Norway"),
    ] {
        assert_eq!(c2(left), c2(right), "{left:?} {right:?}");
    }
}

#[test]
fn c2_keeps_what_may_change_an_answer() {
    for (left, right) in [
        // Numbers, negation, order, possession, case inside.
        ("what is 10\u{b2}", "what is 102"),
        ("What is 5!", "What is 5"),
        ("What is 50%?", "What is 50%"),
        ("What is C#?", "What is C#"),
        ("can I cancel", "can't I cancel"),
        ("is it not included", "is it included"),
        ("How do I enable 2FA?", "How do I disable 2FA?"),
        ("convert USD to EUR", "convert EUR to USD"),
        ("delete my branch", "delete your branch"),
        ("what do they tell US", "what do they tell us"),
        ("17*23", "17*28"),
        ("what is its price", "what is it's price"),
        // First words that are names.
        ("Apple pie recipe", "apple pie recipe"),
        ("US taxes", "us taxes"),
        ("WHO guidelines", "who guidelines"),
        ("IT department", "it department"),
        ("Will Smith age", "will smith age"),
        ("May opening hours", "may opening hours"),
        // A statement is not a question.
        ("You can return it?", "You can return it."),
        ("Tell me?", "Tell me"),
        // Politeness that is content.
        ("How do you say please", "How do you say"),
        ("Please Me release year", "Me release year"),
        ("Hello, Dolly release year", "Dolly release year"),
        ("Translate to French: I am late. Thank you.", "Translate to French: I am late."),
        ("Translate I am late, please", "Translate I am late"),
        ("Repeat what I wrote, please", "Repeat what I wrote"),
        ("Is this grammatical, please", "Is this grammatical"),
        ("Can you tell me the hours", "Tell me the hours"),
        // Wording as subject.
        ("spell don't", "spell do not"),
        ("What is the sentiment of I don't care", "What is the sentiment of I do not care"),
        ("What does \"isn't\" look like", "What does \"is not\" look like"),
        // Ambiguous contractions.
        ("What he'd do", "What he would do"),
        ("What he'd do", "What he had do"),
        ("let's go", "let us go"),
        // Abbreviations and initials.
        ("Tell me about Acme Inc.", "Tell me about Acme Inc"),
        ("Tell me about J.", "Tell me about J"),
        ("Tell me more...", "Tell me more"),
        // More than one sentence.
        ("What is A? And B?", "What is A? And B"),
        // Lines.
        ("Tell me this\nplease.", "Tell me this\nplease"),
    ] {
        assert_ne!(c2(left), c2(right), "{left:?} {right:?}");
    }
}

#[test]
fn c2_leaves_other_texts_in_their_c1_form() {
    for text in [
        "Bonjour, o\u{f9} est ma commande ?",
        "1 + 1 = ?",
        "\u{4F60}\u{597D}\u{FF1F}",
        "def f(x): return x.",
        "",
        "?",
        "Please",
        "Thanks!",
    ] {
        assert_eq!(c2(text), c1(text), "{text:?}");
    }
}

/// Texts that are likely to meet the rules.
fn wording() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "What",
        "what's",
        "is",
        "Please",
        "please",
        ", please",
        "Hi,",
        "hello!",
        "Thanks",
        "thank you",
        ".",
        "?",
        "!",
        ":",
        "\n",
        "\r\n",
        "\r",
        "'",
        "\"",
        "`",
        "```",
        "\u{201C}",
        "\u{201D}",
        "\u{2019}",
        "\u{1FEF}",
        " ",
        "  ",
        "\t",
        "don't",
        "I'm",
        "can't",
        "tell",
        "me",
        "order",
        "42",
        "etc.",
        "US",
        "e\u{301}",
        "\u{301}",
        "\u{37E}",
        "\u{2000}",
        "\u{A0}",
        "say",
        "a.b",
    ]);
    prop::collection::vec((pieces, prop::bool::ANY), 0..14).prop_map(|parts| {
        parts.iter().flat_map(|(part, space)| [*part, if *space { " " } else { "" }]).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn twice_is_once(text in prop_oneof![wording(), any::<String>()]) {
        for canon in [Canon::C1, Canon::C2] {
            let once = canonical(&text, canon);
            prop_assert_eq!(canonical(&once, canon), once);
        }
    }

    #[test]
    fn c2_merges_at_least_what_c1_merges(text in wording()) {
        prop_assert_eq!(c2(&c1(&text)), c2(&text));
    }

    #[test]
    fn digits_survive_in_order(text in prop_oneof![wording(), any::<String>()]) {
        // NFC maps no digit to another one, and no rule takes one away.
        let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
        prop_assert_eq!(digits(&c2(&text)), digits(&text));
    }

    #[test]
    fn negation_survives(words in prop::collection::vec(prop::sample::select(vec!["what", "is", "not", "isn't", "the", "never", "no", "order", "please"]), 1..10)) {
        let text = words.join(" ");
        let negations = words.iter().filter(|word| ["not", "isn't", "never", "no"].contains(word)).count();
        let form = c2(&text);
        let kept = form.split(' ').filter(|word| ["not", "isn't", "never", "no"].contains(word)).count();
        prop_assert_eq!(kept, negations, "{}", form);
    }

    #[test]
    fn code_and_quotes_are_kept_to_the_letter(inside in "[a-z \t\u{301}]{0,12}", outside in "[a-z ]{0,8}") {
        for text in [format!("{outside} \"{inside}\""), format!("{outside} `{inside}`"), format!("{outside}\u{AB}{inside}\u{BB}")] {
            let inner = text.trim_start_matches(' ');
            let mark = inner.find(['"', '`', '\u{AB}']).unwrap();
            prop_assert!(c2(&text).ends_with(&inner[mark..]), "{:?}", text);
        }
    }
}
