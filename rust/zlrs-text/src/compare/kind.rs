//! Kinds of answers, and the comparison of closed ones.

use std::sync::LazyLock;

use regex::Regex;

use super::json::Json;
use super::{Cause, Verdict, code, json};
use crate::atoms::{Extractor, Value, compiled};
use crate::script::is_han;
use crate::tokens::{self, Kind as TokenKind};

/// What an answer is.
#[derive(Debug)]
pub(crate) enum Kind {
    Json(Json),
    Code(Vec<String>),
    /// One number, amount, date or time.
    Value(Value),
    YesNo(bool),
    /// Letters of options, sorted.
    Choice(Vec<char>),
    /// One or two words of content.
    Label(String),
    Prose,
}

const YES: &[&str] = &[
    "yes", "yeah", "yep", "true", "correct", "right", "是", "是的", "对", "对的", "可以", "能", "有", "正确",
    "会",
];
const NO: &[&str] = &[
    "no",
    "nope",
    "false",
    "incorrect",
    "wrong",
    "不是",
    "否",
    "不",
    "不对",
    "不可以",
    "不能",
    "没有",
    "错误",
    "不会",
    "不行",
];

static CHOICE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    compiled(
        r"^(?:(?i:the\s)?(?i:correct\s)?(?i:option|answer|choice)s?(?:\s(?i:is|are))?:?\s*|答案(?:是|为|：|:)?\s*|选项?\s*)?[(（]?([A-H])[)）]?(?:(?:\s*(?:,|，|、|&|(?i:and)|和)\s*)[(（]?([A-H])[)）]?)*(?:选项)?$",
    )
});

/// The kind of an answer.
pub(crate) fn of(answer: &str) -> Kind {
    let text = answer.trim();
    if let Some((info, body)) = code::of(text) {
        if matches!(info, "" | "json" | "JSON")
            && let Some(value) = json::parse(body.trim())
        {
            return Kind::Json(value);
        }
        if json::parse(text).is_none() {
            return Kind::Code(code::tokens(info, body));
        }
    }
    if let Some(value) = json::parse(text) {
        return Kind::Json(value);
    }
    let bare = bare(text);
    if bare.is_empty() {
        return Kind::Prose;
    }
    let lower = bare.to_lowercase();
    if YES.contains(&lower.as_str()) || NO.contains(&lower.as_str()) {
        return Kind::YesNo(YES.contains(&lower.as_str()));
    }
    if CHOICE.as_ref().is_some_and(|pattern| pattern.is_match(bare)) {
        let is_lone = |at: usize, character: char| {
            let follows = bare[at + character.len_utf8()..].chars().next();
            let before = bare[..at].chars().next_back();
            character.is_ascii_uppercase()
                && [before, follows].iter().all(|side| side.is_none_or(|side| !side.is_ascii_alphabetic()))
        };
        let mut letters: Vec<char> = bare
            .char_indices()
            .filter(|(at, character)| is_lone(*at, *character))
            .map(|(_, character)| character)
            .collect();
        letters.sort_unstable();
        return Kind::Choice(letters);
    }
    let extractor = Extractor::default();
    let mut slots = extractor.slots(bare);
    if slots.len() == 1 && slots[0].span == (0..bare.len()) && is_scalar(&slots[0].value) {
        return Kind::Value(slots.remove(0).value);
    }
    let tokens = tokens::tokens(bare, &slots);
    let is_content = tokens.iter().all(|token| {
        matches!(
            token.kind,
            TokenKind::Content
                | TokenKind::Name
                | TokenKind::Literal
                | TokenKind::Slot(_)
                | TokenKind::Symbol
        )
    });
    let size = if bare.chars().any(is_han) { tokens.len().div_ceil(3) } else { tokens.len() };
    if is_content && (1..=2).contains(&size) { Kind::Label(lower) } else { Kind::Prose }
}

fn is_scalar(value: &Value) -> bool {
    matches!(
        value,
        Value::Number(_)
            | Value::Money { .. }
            | Value::Percent(_)
            | Value::Date(_)
            | Value::Time(_)
            | Value::Id { .. }
            | Value::Url(_)
    )
}

/// Without emphasis and the mark at the end of a sentence.
fn bare(text: &str) -> &str {
    text.trim_matches('*').trim_end_matches(['.', '。', '!', '！']).trim_matches('*').trim()
}

/// Compares answers of which at least one is closed.
pub(crate) fn compare(one: &Kind, two: &Kind) -> Verdict {
    let (name, is_same) = match (one, two) {
        (Kind::Json(one), Kind::Json(two)) => ("json", one == two),
        (Kind::Code(one), Kind::Code(two)) => ("code", one == two),
        (Kind::Value(one), Kind::Value(two)) => (one.kind(), one == two),
        (Kind::YesNo(one), Kind::YesNo(two)) => ("yes_no", one == two),
        (Kind::Choice(one), Kind::Choice(two)) => ("choice", one == two),
        (Kind::Label(one), Kind::Label(two)) => ("label", one == two),
        _ => return Verdict::contradict(Cause::Kind),
    };
    if is_same { Verdict::agree(Cause::Closed(name)) } else { Verdict::contradict(Cause::Closed(name)) }
}
