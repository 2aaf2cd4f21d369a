//! Steps 4 and 5: prose.

use std::collections::HashSet;

use super::align::{Alignment, Gap, align};
use super::{Cause, Verdict, boilerplate};
use crate::atoms::{Atom, Extractor, Value, WordClass};
use crate::lemma::Inflection;
use crate::opposites::Words;
use crate::script::is_han;
use crate::tokens::{self, Kind, Token};

/// Types of hard atoms among the slots.
const HARD: [&str; 9] = ["number", "money", "percent", "date", "time", "id", "url", "quotation", "code"];

/// Least share of the shorter side's words that the other side must hold.
const CONTAINMENT: f64 = 0.7;
/// Most words of one side to one of the other.
const RATIO: f64 = 2.0;

struct Side {
    text: String,
    slots: Vec<Atom>,
    tokens: Vec<Token>,
    polarity: Option<bool>,
    negated: Vec<String>,
}

impl Side {
    fn new(answer: &str, extractor: &Extractor) -> Side {
        // An opening may stand before a list, and a list mark before an opening.
        let (first, text) = boilerplate::stripped(answer);
        let plain = boilerplate::without_layout(text);
        let (second, text) = boilerplate::stripped(&plain);
        let polarity = first.or(second);
        let slots = extractor.slots(text);
        let mut tokens = tokens::tokens(text, &slots);
        // The sign before a number of an order says nothing that the number does not.
        tokens
            .retain(|token| token.kind != Kind::Light && !(token.kind == Kind::Symbol && token.text == "#"));
        let negated = negated(&tokens);
        Side { text: text.to_owned(), slots, tokens, polarity, negated }
    }

    fn values(&self, kind: &str) -> Vec<&Value> {
        self.slots.iter().map(|atom| &atom.value).filter(|value| value.kind() == kind).collect()
    }

    /// The source of tokens, for looking at words as they were written.
    fn source(&self, indices: &[usize]) -> String {
        indices.iter().map(|at| &self.text[self.tokens[*at].span.clone()]).collect::<Vec<_>>().join(" ")
    }
}

/// Words between a negation and what it denies: "without needing to download" denies the download.
const BETWEEN: [&str; 8] = ["need", "require", "want", "try", "be", "get", "ability", "have"];

/// What negations deny: the next word of content.
fn negated(tokens: &[Token]) -> Vec<String> {
    let is_predicate = |token: &&Token| {
        matches!(token.kind, Kind::Content | Kind::Name) && !BETWEEN.contains(&token.text.as_str())
    };
    let denied = |at: usize| {
        let mut follows = tokens[at + 1..].iter().take(5).take_while(|token| !is_negation(token));
        follows.find(is_predicate).map(|token| token.text.clone())
    };
    (0..tokens.len()).filter(|at| is_negation(&tokens[*at])).filter_map(denied).collect()
}

fn is_negation(token: &Token) -> bool {
    token.kind == Kind::Word(WordClass::Negation)
}

pub(crate) fn compare(ask: &str, a: &str, b: &str) -> Verdict {
    let extractor = Extractor::default();
    let (one, two) = (Side::new(a, &extractor), Side::new(b, &extractor));
    let asked: Vec<Atom> = extractor.slots(ask);
    let is_asked = |value: &Value| asked.iter().any(|atom| atom.value == *value);
    // What contradicts comes before what is undecided.
    let mut doubt = None;
    for kind in HARD {
        let (left, right) = (one.values(kind), two.values(kind));
        match contained(&fresh(&left, is_asked), &fresh(&right, is_asked)) {
            Sets::Apart => return Verdict::contradict(Cause::Atom(kind)),
            Sets::Superset => doubt = doubt.or(Some(Cause::Superset(kind))),
            // "5 or 10 days?": both answers are in the ask, and differ.
            Sets::Equal if matches!(contained(&left, &right), Sets::Apart) => {
                doubt = doubt.or(Some(Cause::Atom(kind)));
            }
            Sets::Equal => {}
        }
    }
    if let (Some(left), Some(right)) = (one.polarity, two.polarity)
        && left != right
    {
        return Verdict::contradict(Cause::Polarity);
    }
    if let Some(verdict) = negations(&one, &two) {
        if verdict == Verdict::contradict(Cause::Negation) {
            return verdict;
        }
        doubt = doubt.or(Some(verdict.reason));
    }
    let Some(alignment) = align(&one.tokens, &two.tokens) else { return Verdict::undecided(Cause::TooLong) };
    if alignment.gaps.iter().any(|gap| opposite(gap, &one, &two)) {
        return Verdict::contradict(Cause::Antonym);
    }
    let denies = |side: &Side| side.polarity == Some(false);
    if denies(&one) != denies(&two) && one.negated.is_empty() {
        doubt = doubt.or(Some(Cause::Polarity));
    }
    let doubt = doubt.or_else(|| orders(&one, &two)).or_else(|| left_over(&alignment, &one, &two, is_asked));
    if let Some(reason) = doubt {
        return Verdict::undecided(reason);
    }
    size(&alignment, &one, &two)
}

enum Sets {
    Equal,
    Superset,
    Apart,
}

fn contained(left: &[&Value], right: &[&Value]) -> Sets {
    let within = |one: &[&Value], two: &[&Value]| one.iter().all(|value| two.contains(value));
    match (within(left, right), within(right, left)) {
        (true, true) => Sets::Equal,
        (false, false) => Sets::Apart,
        _ => Sets::Superset,
    }
}

fn fresh<'a>(values: &[&'a Value], is_asked: impl Fn(&Value) -> bool) -> Vec<&'a Value> {
    values.iter().copied().filter(|value| !is_asked(value)).collect()
}

/// Negated predicates: one side denies what the other, which denies nothing, says. Where both deny something, the words
/// may differ and the meaning not ("does not exist", "is not available"): that is undecided.
fn negations(one: &Side, two: &Side) -> Option<Verdict> {
    let denies_what_is_said = |left: &Side, right: &Side| {
        let says = |word: &String| right.tokens.iter().any(|token| token.text == *word);
        !right.tokens.iter().any(is_negation) && left.negated.iter().any(says)
    };
    if denies_what_is_said(one, two) || denies_what_is_said(two, one) {
        return Some(Verdict::contradict(Cause::Negation));
    }
    let is_within = |left: &Side, right: &Side| left.negated.iter().all(|word| right.negated.contains(word));
    match (is_within(one, two), is_within(two, one)) {
        (true, true) => None,
        (false, false) => Some(Verdict::undecided(Cause::Negation)),
        _ => Some(Verdict::undecided(Cause::Superset("negation"))),
    }
}

/// Opposites in place of each other.
fn opposite(gap: &Gap, one: &Side, two: &Side) -> bool {
    !gap.left.is_empty()
        && !gap.right.is_empty()
        && Words::of(&one.source(&gap.left)).opposite(&Words::of(&two.source(&gap.right))).is_some()
}

/// Values that both sides hold, in another order.
fn orders(one: &Side, two: &Side) -> Option<Cause> {
    let shared = |side: &Side, other: &Side| -> Vec<String> {
        let keys: HashSet<String> = other.slots.iter().map(|atom| atom.value.base_key()).collect();
        side.slots.iter().map(|atom| atom.value.base_key()).filter(|key| keys.contains(key)).collect()
    };
    (shared(one, two) != shared(two, one)).then_some(Cause::Order)
}

/// What one side has more: nothing of it may turn the answer round.
fn left_over(
    alignment: &Alignment,
    one: &Side,
    two: &Side,
    is_asked: impl Fn(&Value) -> bool,
) -> Option<Cause> {
    let past = |token: &Token| token.inflection == Inflection::Past;
    if alignment.pairs.iter().any(|(i, j)| past(&one.tokens[*i]) != past(&two.tokens[*j])) {
        return Some(Cause::Tense);
    }
    let all =
        |pick: fn(&Gap) -> &[usize]| alignment.gaps.iter().flat_map(move |gap| pick(gap).iter().copied());
    let moved = all(|gap| &gap.left).any(|i| {
        let token = &one.tokens[i];
        token.kind != Kind::Function && all(|gap| &gap.right).any(|j| two.tokens[j].text == token.text)
    });
    if moved {
        return Some(Cause::Order);
    }
    let mut inserted = false;
    for gap in &alignment.gaps {
        for (side, indices) in [(one, &gap.left), (two, &gap.right)] {
            for at in indices {
                let token = &side.tokens[*at];
                match token.kind {
                    Kind::Word(WordClass::Question) | Kind::Content | Kind::Function | Kind::Light => {}
                    Kind::Word(class) => return Some(Cause::Class(class)),
                    Kind::Slot(index) if is_asked(&side.slots[index].value) => {}
                    Kind::Slot(index) => return Some(Cause::Superset(side.slots[index].value.kind())),
                    Kind::Name | Kind::Literal => return Some(Cause::Entity),
                    Kind::Symbol => return Some(Cause::Sign),
                }
                if is_name(&side.text, token) {
                    return Some(Cause::Entity);
                }
            }
            if !indices.iter().all(|at| is_harmless(&side.tokens[*at])) && !is_whole(side, indices) {
                inserted = true;
            }
        }
        if !gap.left.is_empty() && !gap.right.is_empty() {
            return Some(Cause::Substitution);
        }
    }
    if inserted {
        return Some(Cause::Insertion);
    }
    // Opposites that do not stand in one place.
    Words::of(&one.text).opposite(&Words::of(&two.text)).map(|_| Cause::Antonym)
}

/// Words of grammar, and values of the ask, that may be there or not.
fn is_harmless(token: &Token) -> bool {
    let known = [
        "and", "it", "its", "this", "these", "has", "have", "s", "在", "于", "和", "与", "之", "所", "那",
        "它", "这个", "那个",
    ];
    match token.kind {
        Kind::Function => known.contains(&token.text.as_str()),
        // Only those of the ask come here.
        Kind::Slot(_) => true,
        Kind::Word(class) => class == WordClass::Question && token.text == "which",
        _ => false,
    }
}

/// Words at the start of a sentence that speak about the one before.
const POINTERS: [&str; 16] = [
    "that",
    "this",
    "these",
    "those",
    "it",
    "such",
    "which",
    "the same",
    "the rule",
    "the answer",
    "那",
    "这",
    "该",
    "此",
    "以上",
    "上述",
];

/// Whether tokens are whole sentences that stand by themselves.
fn is_whole(side: &Side, indices: &[usize]) -> bool {
    let ends = |text: &str| text.contains(['.', '!', '?', '\n', '。', '！', '？']);
    let (Some(first), Some(last)) = (indices.first(), indices.last()) else { return true };
    let before = first.checked_sub(1).map_or(0, |at| side.tokens[at].span.end);
    let after = side.tokens.get(last + 1).map_or(side.text.len(), |token| token.span.start);
    // What points back speaks about the rest: "That is no longer so."
    let mut at = side.text[..side.tokens[*first].span.start]
        .rfind(['.', '!', '?', '\n', '。', '！', '？'])
        .map_or(0, |at| at + 1);
    while !side.text.is_char_boundary(at) {
        at += 1;
    }
    let sentence = side.text[at..].trim_start().to_lowercase();
    let points = |word: &str| {
        let rest = sentence.strip_prefix(word);
        rest.is_some_and(|rest| !word.is_ascii() || rest.starts_with(|next: char| !next.is_alphanumeric()))
    };
    if POINTERS.iter().any(|word| points(word)) {
        return false;
    }
    let is_run = last - first + 1 == indices.len();
    let starts = *first == 0 || ends(&side.text[before..side.tokens[*first].span.start]);
    is_run
        && starts
        && (last + 1 == side.tokens.len() || ends(&side.text[side.tokens[*last].span.end..after]))
}

/// A capital inside a sentence.
fn is_name(text: &str, token: &Token) -> bool {
    let before = text[..token.span.start].trim_end();
    let starts = before.is_empty() || before.ends_with(['.', '!', '?', ':', '\n', '。', '！', '？', '：']);
    !starts && text[token.span.clone()].starts_with(|first: char| first.is_uppercase() && !is_han(first))
}

/// Step 5.
fn size(alignment: &Alignment, one: &Side, two: &Side) -> Verdict {
    let counts = |token: &Token| !matches!(token.kind, Kind::Function | Kind::Light);
    let count = |side: &Side| side.tokens.iter().filter(|token| counts(token)).count() as f64;
    let (left, right) = (count(one), count(two));
    let shared = alignment.pairs.iter().filter(|(i, _)| counts(&one.tokens[*i])).count() as f64;
    if left.max(right) > RATIO * left.min(right) {
        return Verdict::undecided(Cause::Length);
    }
    if shared == 0.0 || shared < CONTAINMENT * left.min(right) {
        return Verdict::undecided(Cause::Containment);
    }
    Verdict::agree(Cause::Words)
}
