//! C2: the case of the first word, terminal punctuation, politeness and contractions of one English question.
//!
//! The rules apply to one sentence that starts with a known word, holds no quotation, code, colon or line end, and
//! does not talk about wording itself; everything else keeps its C1 form.

use std::borrow::Cow;

use crate::c1::spans;
use crate::words::{
    ABBREVIATIONS, ABOUT_WORDING, CONTRACTIONS, GREETINGS, IMPERATIVE, INTERROGATIVE, SHORT_ENDINGS,
    STATEMENT, THANKS,
};

/// Applies C2 to a C1 form.
pub(crate) fn normalise(form: String) -> String {
    rewrite(&form).unwrap_or(form)
}

fn rewrite(form: &str) -> Option<String> {
    if form.contains(['\n', ':']) || spans(form).any(|(_, is_kept)| is_kept) || is_about_wording(form) {
        return None;
    }
    let expanded = expand(form);
    let mut text = expanded.as_str();
    while let Some(shorter) = without_politeness(text) {
        text = shorter;
    }
    let first = text.split(' ').next()?;
    let kind = Kind::of(first)?;
    let text = without_full_stop(without_question_mark(text, kind));
    let is_one_sentence = !text.contains(". ") && !text.contains("? ") && !text.contains("! ");
    if !is_one_sentence || text.len() <= first.len() {
        return None;
    }
    Some(lower_first(text, first))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Question,
    Other,
}

impl Kind {
    /// The kind of sentence that starts with `word`, in lower case or with one capital.
    fn of(word: &str) -> Option<Kind> {
        let lower = lower_or_title(word)?;
        if INTERROGATIVE.contains(&lower.as_ref()) {
            Some(Kind::Question)
        } else if IMPERATIVE.contains(&lower.as_ref()) || STATEMENT.contains(&lower.as_ref()) {
            Some(Kind::Other)
        } else {
            None
        }
    }
}

/// The lower-case form of an ASCII word that is lower case or has one capital, at its start.
fn lower_or_title(word: &str) -> Option<Cow<'_, str>> {
    let rest = word.get(1..)?;
    if !word.is_ascii() || rest.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    if word.as_bytes()[0].is_ascii_uppercase() {
        Some(Cow::Owned(word.to_ascii_lowercase()))
    } else {
        Some(word.into())
    }
}

/// Whether the wording itself may be the subject.
pub(crate) fn is_about_wording(form: &str) -> bool {
    form.split(|character: char| !character.is_alphanumeric())
        .any(|word| ABOUT_WORDING.iter().any(|known| known.eq_ignore_ascii_case(word)))
}

/// Contractions written out. Words are split at spaces; punctuation after a word stays.
fn expand(form: &str) -> String {
    let words: Vec<Cow<'_, str>> = form.split(' ').map(expand_word).collect();
    words.join(" ")
}

fn expand_word(word: &str) -> Cow<'_, str> {
    let core = word.trim_end_matches(['.', ',', '?', '!', ';']);
    if !core.contains(['\'', '\u{2019}']) {
        return word.into();
    }
    let plain = core.replace('\u{2019}', "'");
    let Some(lower) = lower_or_title(&plain) else { return word.into() };
    let Some((_, full)) = CONTRACTIONS.iter().find(|(short, _)| *short == lower) else { return word.into() };
    let mut full = (*full).to_owned();
    if plain.as_bytes()[0].is_ascii_uppercase() {
        full[..1].make_ascii_uppercase();
    }
    full.push_str(&word[core.len()..]);
    full.into()
}

/// The text without one piece of politeness, where there is one that can be told from content.
fn without_politeness(text: &str) -> Option<&str> {
    without_greeting(text)
        .or_else(|| without_leading_please(text))
        .or_else(|| without_trailing_please(text))
        .or_else(|| without_thanks(text))
}

/// "Hi, what is …": only before a word that starts a sentence and is followed by a lower-case word, so that
/// "Hello, Dolly" stays.
fn without_greeting(text: &str) -> Option<&str> {
    let mark = text.find([',', '!', '.'])?;
    let is_greeting = GREETINGS.iter().any(|known| known.eq_ignore_ascii_case(&text[..mark]));
    let rest = text[mark + 1..].strip_prefix(' ')?;
    let mut words = rest.split(' ');
    let (first, second) = (words.next()?, words.next()?);
    let starts = Kind::of(first).is_some() || first.eq_ignore_ascii_case("please");
    (is_greeting && starts && second.starts_with(|next: char| next.is_ascii_lowercase())).then_some(rest)
}

/// "Please tell …": only before a word that starts a sentence, so that "Please Me" stays.
fn without_leading_please(text: &str) -> Option<&str> {
    let (please, rest) = text.split_once(' ')?;
    let first = rest.split(' ').next()?;
    (please.trim_end_matches(',').eq_ignore_ascii_case("please") && Kind::of(first).is_some()).then_some(rest)
}

/// "…, please": only behind a comma.
fn without_trailing_please(text: &str) -> Option<&str> {
    let (rest, last) = text.trim_end_matches(['.', '!', '?']).rsplit_once(", ")?;
    (last.eq_ignore_ascii_case("please") && starts_sentence(rest)).then(|| rest.trim_end_matches(' '))
}

/// "…? Thanks!": only behind the end of a sentence.
fn without_thanks(text: &str) -> Option<&str> {
    let body = text.trim_end_matches(['.', '!']);
    let mark = body.rfind(". ").max(body.rfind("? "))?;
    let is_thanks = THANKS.iter().any(|known| known.eq_ignore_ascii_case(&body[mark + 2..]));
    let rest = &text[..=mark];
    (is_thanks && starts_sentence(rest)).then_some(rest)
}

fn starts_sentence(text: &str) -> bool {
    text.split(' ').next().is_some_and(|first| Kind::of(first).is_some())
}

/// A question mark says nothing behind a sentence that is a question by its first word.
fn without_question_mark(text: &str, kind: Kind) -> &str {
    let rest = text.trim_end_matches('?');
    if kind == Kind::Question && ends_in_plain_word(rest) { rest } else { text }
}

/// A full stop behind a whole word; not behind an abbreviation, an initial, a number or another stop.
fn without_full_stop(text: &str) -> &str {
    let Some(rest) = text.strip_suffix('.') else { return text };
    let last = rest.rsplit(' ').next().unwrap_or(rest);
    let is_word = SHORT_ENDINGS.contains(&last)
        || last.len() >= 3 && last.bytes().all(|byte| byte.is_ascii_lowercase());
    if is_word && !ABBREVIATIONS.contains(&last) { rest } else { text }
}

/// Whether the last word is made of letters, digits and inner hyphens only, or is a number behind # or a currency.
fn ends_in_plain_word(text: &str) -> bool {
    let last = text.rsplit(' ').next().unwrap_or(text);
    if let Some(number) = last.strip_prefix(['#', '$', '€', '£', '¥']) {
        let is_digit = |byte: &u8| byte.is_ascii_digit();
        return number.as_bytes().last().is_some_and(is_digit)
            && number.bytes().all(|byte| is_digit(&byte) || matches!(byte, b',' | b'.'));
    }
    last.ends_with(char::is_alphanumeric)
        && last.chars().all(|character| character.is_alphanumeric() || character == '-')
}

/// The text with its first word in lower case; "I" keeps its capital.
fn lower_first(text: &str, first: &str) -> String {
    let mut text = text.to_owned();
    if first != "I" {
        text[..1].make_ascii_lowercase();
    }
    text
}
