//! Words that turn an answer round, and names.

use crate::atoms::value::{Atom, Value};
use crate::lexicon::{self, Meaning};
use crate::script::is_han;
use crate::tokens::{self, Kind, Token};

/// Words of the classes and names in `text`, outside its slots.
pub(crate) fn find(text: &str, slots: &[Atom]) -> Vec<Atom> {
    let is_chinese = text.chars().any(is_han);
    let mut atoms: Vec<Atom> = Vec::new();
    let mut is_after_name = false;
    for token in tokens::tokens(text, slots) {
        let surface = &text[token.span.clone()];
        let is_capital = is_capitalised(text, &token, is_chinese);
        match token.kind {
            Kind::Word(class) if !is_acronym(surface) => {
                if let Some(label) = label(&token.text) {
                    atoms.push(Atom { span: token.span, value: Value::Word(class, label) });
                }
                is_after_name = false;
                continue;
            }
            Kind::Name => {}
            Kind::Content | Kind::Literal | Kind::Word(_) | Kind::Function | Kind::Light if is_capital => {}
            _ => {
                is_after_name = false;
                continue;
            }
        }
        // Neighbouring capitalised words are one name: New York.
        if let Some(last) =
            atoms.last_mut().filter(|last| is_after_name && &text[last.span.end..token.span.start] == " ")
            && is_capital
        {
            last.span.end = token.span.end;
            last.value = Value::Entity(text[last.span.clone()].to_lowercase());
        } else {
            atoms.push(Atom { span: token.span, value: Value::Entity(surface.to_lowercase()) });
        }
        is_after_name = is_capital;
    }
    atoms
}

/// The lexicon's own copy of a label.
fn label(text: &str) -> Option<&'static str> {
    match lexicon::english(text).or_else(|| lexicon::chinese(text))? {
        Meaning::Word(_, label) => Some(label),
        _ => None,
    }
}

fn is_acronym(word: &str) -> bool {
    word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

/// A capital that is not there because a sentence starts, or a Latin word in a Chinese text.
fn is_capitalised(text: &str, token: &Token, is_chinese: bool) -> bool {
    let word = &text[token.span.clone()];
    if is_chinese && word.len() > 1 && word.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return true;
    }
    let mut characters = word.chars();
    if !characters.next().is_some_and(char::is_uppercase) || word == "I" || word.starts_with("I'") {
        return false;
    }
    let before =
        text[..token.span.start].trim_end_matches([' ', '"', '\'', '(', '*', '\u{201C}', '\u{2018}']);
    let starts_sentence =
        before.is_empty() || before.ends_with(['.', '!', '?', ':', '\n', '。', '！', '？', '：', '-', '•']);
    !starts_sentence || characters.any(char::is_uppercase)
}
