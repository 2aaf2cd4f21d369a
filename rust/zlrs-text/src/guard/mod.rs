//! Guards: what forbids two asks to share an answer, whatever else speaks for it.
//!
//! A guard refuses on what can be seen in the wording: values, units, negation, opposites, persons, quantifiers,
//! comparisons, modality, tense, names, order. That no guard refuses proves nothing.

mod reason;
mod side;

use std::collections::HashMap;

use crate::atoms::{Value, WordClass, is_superscript};
use crate::lemma::Inflection;
use crate::script::language;
use crate::tokens::{Kind, Token};

pub use self::reason::{Reason, Refusal};
use self::side::Side;

/// The version of the guards and of their tables. Evidence gathered under another version does not count.
pub const GUARD_VERSION: u32 = 2;

/// What forbids `one` and `two` to share an answer, or `None`. Symmetric but for the sides of the refusal. Time is
/// linear in the lengths, but for the words that the two do not share.
#[must_use]
pub fn guard(one: &str, two: &str) -> Option<Refusal> {
    let (one, two) = (Side::new(one), Side::new(two));
    if one.text == two.text {
        return None;
    }
    if let (Some(left), Some(right)) = (language(&one.text), language(&two.text))
        && left != right
    {
        return refuse(Reason::Language, &format!("{left:?}"), &format!("{right:?}"));
    }
    values(&one, &two)
        .or_else(|| signs(&one, &two))
        .or_else(|| classes(&one, &two))
        .or_else(|| {
            let (left, right) = one.words.opposite(&two.words)?;
            refuse(Reason::Antonym, &left, &right)
        })
        .or_else(|| tense(&one, &two))
        .or_else(|| entities(&one, &two))
        .or_else(|| order(&one, &two))
        .or_else(|| substitution(&one, &two))
}

#[expect(clippy::unnecessary_wraps, reason = "every guard returns what this makes")]
fn refuse(reason: Reason, left: &str, right: &str) -> Option<Refusal> {
    Some(Refusal { reason, left: left.to_owned(), right: right.to_owned() })
}

/// Refuses where the lists differ; `Order` where only the order does.
fn same(reason: Reason, left: &[impl AsRef<str>], right: &[impl AsRef<str>]) -> Option<Refusal> {
    let mut lists =
        [left.iter().map(AsRef::as_ref).collect::<Vec<_>>(), right.iter().map(AsRef::as_ref).collect()];
    if lists[0] == lists[1] {
        return None;
    }
    let [left, right] = lists.clone().map(|list| list.join(", "));
    for list in &mut lists {
        list.sort_unstable();
    }
    refuse(if lists[0] == lists[1] { Reason::Order } else { reason }, &left, &right)
}

fn values(one: &Side, two: &Side) -> Option<Refusal> {
    for (kind, reason) in [
        ("quotation", Reason::Quotation),
        ("code", Reason::Code),
        ("url", Reason::Url),
        ("money", Reason::Money),
        ("percent", Reason::Percent),
        ("date", Reason::Date),
        ("time", Reason::Time),
        ("id", Reason::Id),
    ] {
        if let Some(refusal) = same(reason, &one.keys(kind), &two.keys(kind)) {
            return Some(refusal);
        }
    }
    let supers =
        |side: &Side| side.text.chars().filter(|character| is_superscript(*character)).collect::<String>();
    if supers(one) != supers(two) {
        return refuse(Reason::Superscript, &supers(one), &supers(two));
    }
    let amounts = |side: &Side| -> Vec<String> {
        side.values("number")
            .filter_map(|value| match value {
                Value::Number(quantity) => {
                    Some(format!("{}{}/{}", "0".repeat(quantity.zeros), quantity.amount, quantity.places))
                }
                _ => None,
            })
            .collect()
    };
    same(Reason::Digits, &amounts(one), &amounts(two))
        .or_else(|| same(Reason::Unit, &one.keys("number"), &two.keys("number")))
        .or_else(|| {
            // Values of different kinds in another order.
            let kinds = |side: &Side| {
                side.atoms
                    .iter()
                    .filter(|atom| atom.value.is_slot())
                    .map(|atom| atom.value.key())
                    .collect::<Vec<_>>()
            };
            same(Reason::Order, &kinds(one), &kinds(two))
        })
}

fn signs(one: &Side, two: &Side) -> Option<Refusal> {
    let literal = |kind| kind == Kind::Literal;
    let symbol = |kind| kind == Kind::Symbol;
    same(Reason::Digits, &one.texts(literal), &two.texts(literal))
        .or_else(|| same(Reason::Operator, &one.texts(symbol), &two.texts(symbol)))
}

fn classes(one: &Side, two: &Side) -> Option<Refusal> {
    for (class, reason) in [
        (WordClass::Negation, Reason::Negation),
        (WordClass::Person, Reason::Person),
        (WordClass::Quantifier, Reason::Quantifier),
        (WordClass::Comparison, Reason::Comparison),
        (WordClass::Modality, Reason::Modality),
        (WordClass::Tense, Reason::Tense),
        (WordClass::Condition, Reason::Condition),
        (WordClass::Direction, Reason::Direction),
    ] {
        let (left, right) = (one.labels(class), two.labels(class));
        let (left, right) = if class == WordClass::Person { persons(&left, &right) } else { (left, right) };
        if left != right {
            return refuse(reason, &left.join(", "), &right.join(", "));
        }
    }
    // Negation counts: "not without" is not "without".
    let negations = |side: &Side| side.texts(|kind| kind == Kind::Word(WordClass::Negation)).len();
    if negations(one) != negations(two) {
        return refuse(Reason::Negation, &negations(one).to_string(), &negations(two).to_string());
    }
    let strong = |side: &Side| -> Vec<String> {
        let soft = ["how", "what", "which", "怎么", "什么", "哪个", "几"];
        side.labels(WordClass::Question)
            .into_iter()
            .filter(|word| !soft.contains(word))
            .map(str::to_owned)
            .collect()
    };
    let asks = |side: &Side| !side.labels(WordClass::Question).is_empty();
    let (left, right) = (strong(one), strong(two));
    // "where is my order" and "track my order" ask for one thing; "where" and "when" do not.
    let differ = left != right && asks(one) && asks(two);
    if differ { refuse(Reason::Question, &left.join(", "), &right.join(", ")) } else { None }
}

/// The one who asks may be named or not; everyone else counts. "I" and "my" are the same person.
fn persons<'a>(left: &[&'a str], right: &[&'a str]) -> (Vec<&'a str>, Vec<&'a str>) {
    let person = |label: &&'a str| match *label {
        "i" | "my" => "i",
        "你的" => "你",
        "我的" => "我",
        other => other,
    };
    let unify = |list: &[&'a str]| -> Vec<&'a str> {
        let mut list: Vec<_> = list.iter().map(person).collect();
        list.dedup();
        list
    };
    let (mut left, mut right) = (unify(left), unify(right));
    if left.is_empty() || right.is_empty() {
        left.retain(|label| !matches!(*label, "i" | "我"));
        right.retain(|label| !matches!(*label, "i" | "我"));
    }
    (left, right)
}

/// One word in the past in one ask and not in the other.
fn tense(one: &Side, two: &Side) -> Option<Refusal> {
    let is_past = |token: &&Token| token.inflection == Inflection::Past;
    for (side, other) in [(one, two), (two, one)] {
        for token in side.tokens.iter().filter(is_past) {
            let same: Vec<_> = other.tokens.iter().filter(|known| known.text == token.text).collect();
            if !same.is_empty() && !same.iter().any(is_past) {
                return refuse(Reason::Tense, &token.text, &token.text);
            }
        }
    }
    None
}

fn entities(one: &Side, two: &Side) -> Option<Refusal> {
    let names = |side: &Side| side.keys("entity");
    let has = |side: &Side, name: &str| {
        let text = side.text.to_lowercase();
        text.contains(name)
    };
    let lacks = |names: &[String], side: &Side| names.iter().any(|name| !has(side, name));
    let (left, right) = (names(one), names(two));
    if lacks(&left, two) || lacks(&right, one) {
        return refuse(Reason::Entity, &left.join(", "), &right.join(", "));
    }
    None
}

/// The same words, or words that both asks hold once each, in another order.
fn order(one: &Side, two: &Side) -> Option<Refusal> {
    let (left, right) = (one.content(), two.content());
    if let Some(refusal) = same(Reason::Order, &left, &right) {
        let sorted = |list: &[&str]| {
            let mut list: Vec<_> = list.iter().map(|word| (*word).to_owned()).collect();
            list.sort_unstable();
            list
        };
        if sorted(&left) == sorted(&right) {
            return Some(refusal);
        }
    }
    let counted = |list: &[&str]| {
        let mut counts: HashMap<String, usize> = HashMap::new();
        for word in list {
            *counts.entry((*word).to_owned()).or_default() += 1;
        }
        counts
    };
    let counts = [counted(&left), counted(&right)];
    let shared = |list: &[&str]| -> Vec<String> {
        let is_once = |word: &&&str| counts.iter().all(|counts| counts.get(**word) == Some(&1));
        list.iter().filter(is_once).map(|word| (*word).to_owned()).collect()
    };
    same(Reason::Order, &shared(&left), &shared(&right))
}

/// The same words but for one place.
fn substitution(one: &Side, two: &Side) -> Option<Refusal> {
    // "how to" is "how do I".
    let counts = |token: &&Token| {
        let is_asker = token.kind == Kind::Word(WordClass::Person)
            && matches!(token.text.as_str(), "i" | "my" | "我" | "我的");
        token.kind != Kind::Light && !is_asker && !(token.kind == Kind::Function && token.text == "to")
    };
    let counted =
        |side: &Side| side.tokens.iter().filter(counts).map(|token| token.text.clone()).collect::<Vec<_>>();
    let (left, right) = (counted(one), counted(two));
    let start = left.iter().zip(&right).take_while(|(a, b)| a == b).count();
    let end = left[start..].iter().rev().zip(right[start..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (left, right) = (&left[start..left.len() - end], &right[start..right.len() - end]);
    let sorted = |list: &[String]| {
        let mut list = list.to_vec();
        list.sort_unstable();
        list
    };
    // The same words in an order that may stand is no substitution.
    let is_one_place =
        start + end > 0 && !left.is_empty() && !right.is_empty() && sorted(left) != sorted(right);
    // Words of English, characters of Chinese.
    let is_short =
        |list: &[String]| list.len() <= 3 || list.len() <= 4 && list.iter().all(|word| !word.is_ascii());
    if is_one_place && is_short(left) && is_short(right) {
        return refuse(Reason::Substitution, &left.join(" "), &right.join(" "));
    }
    None
}
