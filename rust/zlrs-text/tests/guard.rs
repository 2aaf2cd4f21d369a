//! What each guard refuses, with its reason, and what none refuses.

use proptest::prelude::*;
use zlrs_text::{Reason, guard, lemma};

#[test]
fn reasons() {
    for (left, right, reason) in [
        ("How do I enable 2FA?", "How do I disable 2FA?", Reason::Antonym),
        ("convert USD to EUR", "convert EUR to USD", Reason::Order),
        ("delete my branch", "delete your branch", Reason::Person),
        ("17*23", "17*28", Reason::Digits),
        ("17*23", "17+23", Reason::Operator),
        ("what is 10²", "what is 10³", Reason::Superscript),
        ("is it 5 km", "is it 5 miles", Reason::Unit),
        ("is it $5", "is it $6", Reason::Money),
        ("is it 5%", "is it 6%", Reason::Percent),
        ("open on Monday", "open on Sunday", Reason::Date),
        ("open at 3 pm", "open at 4 pm", Reason::Time),
        ("order #123 please", "order #124 please", Reason::Id),
        ("say \"a\"", "say \"b\"", Reason::Quotation),
        ("run `a`", "run `b`", Reason::Code),
        ("open www.a.org/x", "open www.a.org/y", Reason::Url),
        ("can I cancel", "can I not cancel", Reason::Negation),
        ("do all shops open", "do some shops open", Reason::Quantifier),
        ("pay before delivery", "pay after delivery", Reason::Comparison),
        ("may I park", "must I park", Reason::Modality),
        ("is the shop open", "was the shop open", Reason::Tense),
        ("who manages it", "who managed it", Reason::Tense),
        ("pay if late", "pay unless late", Reason::Condition),
        ("move up the list", "move down the list", Reason::Direction),
        ("where is the shop", "when is the shop", Reason::Question),
        ("taxes in France", "taxes in Norway", Reason::Entity),
        ("my card was lost", "my card was dented", Reason::Substitution),
        ("what is the price", "这个的价格是多少", Reason::Language),
        ("怎么开启通知", "怎么关闭通知", Reason::Antonym),
        ("我的订单", "你的订单", Reason::Person),
        ("可以退货吗", "不可以退货吗", Reason::Negation),
        ("上海的天气", "北京的天气", Reason::Entity),
        ("3天够吗", "3周够吗", Reason::Unit),
        ("张三给李四打电话", "李四给张三打电话", Reason::Order),
    ] {
        let found = guard(left, right).map(|refusal| refusal.reason);
        assert_eq!(found, Some(reason), "{left:?} {right:?}");
    }
    let mut names: Vec<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Reason::ALL.len());
}

#[test]
fn what_no_guard_refuses() {
    for (left, right) in [
        ("What is the return policy?", "what's the return policy"),
        ("How do I reset my password?", "How can I reset my password?"),
        ("how to reset my password", "how do I reset my password?"),
        ("could you tell me how to close the account", "how to close my account"),
        ("what is the status of my order", "what is my order status"),
        ("how do I purchase a ticket", "how do I buy a ticket"),
        ("请问怎么退货？", "怎么退货"),
        ("请问您的地址在哪里", "请告诉我你的地址在哪里"),
        ("is 5 kilometers far", "is 5 km far"),
    ] {
        assert_eq!(guard(left, right), None, "{left:?} {right:?}");
    }
}

#[test]
fn lemmas() {
    for (word, base) in [
        ("cancelled", "cancel"),
        ("cancels", "cancel"),
        ("shipping", "ship"),
        ("shipped", "ship"),
        ("used", "used"),
        ("hoping", "hope"),
        ("stopped", "stop"),
        ("calling", "call"),
        ("missed", "miss"),
        ("created", "create"),
        ("opened", "open"),
        ("offers", "offer"),
        ("charged", "charge"),
        ("boxes", "box"),
        ("cases", "case"),
        ("losses", "loss"),
        ("countries", "country"),
        ("tried", "try"),
        ("went", "go"),
        ("bought", "buy"),
        ("status", "status"),
        ("address", "address"),
        ("addresses", "address"),
        ("always", "always"),
        ("news", "news"),
        ("process", "process"),
        ("children", "child"),
        ("thing", "thing"),
        ("required", "require"),
        ("updated", "update"),
        ("expired", "expire"),
        ("planned", "plan"),
    ] {
        assert_eq!(lemma(word).0, base, "{word}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_ask_may_share_its_own_answer(text in any::<String>()) {
        prop_assert_eq!(guard(&text, &text), None);
    }

    #[test]
    fn guards_are_symmetric(one in "(how|is|not|my|your|order|card|5|6|km|to|from|a| ){0,12}", two in "(how|is|not|my|your|order|card|5|6|km|to|from|a| ){0,12}") {
        let reason = |left: &str, right: &str| guard(left, right).map(|refusal| refusal.reason);
        prop_assert_eq!(reason(&one, &two), reason(&two, &one));
    }
}
