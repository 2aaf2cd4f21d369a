//! Tokens of a text for comparison: values, words with their class and lemma, Chinese phrases and characters, signs.

use std::ops::Range;

use crate::atoms::{Atom, WordClass, is_superscript};
use crate::lemma::{Inflection, lemma};
use crate::lexicon::{self, Meaning, PHRASE_CHARACTERS, PHRASE_WORDS};
use crate::names;
use crate::script::is_han;

/// What a token is to comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A value; the index of its atom.
    Slot(usize),
    /// A word of a class.
    Word(WordClass),
    /// A word that may be there or not.
    Light,
    /// A word of grammar.
    Function,
    /// Any other word.
    Content,
    /// A known name.
    Name,
    /// Letters and digits mixed, or digits that are no value: 2FA.
    Literal,
    /// An operator or another sign that carries meaning.
    Symbol,
}

/// A token.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub span: Range<usize>,
    pub kind: Kind,
    /// What is compared: a value's key, a class's label, a synonym's label, a lemma, a character.
    pub text: String,
    pub inflection: Inflection,
}

/// A word before phrases are looked up.
struct Piece {
    span: Range<usize>,
    lower: String,
    /// Whether only a space or a hyphen stands between this word and the one before.
    is_adjacent: bool,
}

enum Part {
    Piece(Piece),
    Done(Token),
}

/// The tokens of `text`, whose slots are `slots`. Linear in the length of the text.
pub(crate) fn tokens(text: &str, slots: &[Atom]) -> Vec<Token> {
    let mut parts = Vec::new();
    let mut at = 0;
    for (index, slot) in slots.iter().enumerate() {
        split(text, at..slot.span.start, &mut parts);
        let token = Token {
            span: slot.span.clone(),
            kind: Kind::Slot(index),
            text: format!("{} {}", slot.value.kind(), slot.value.base_key()),
            inflection: Inflection::Base,
        };
        parts.push(Part::Done(token));
        at = slot.span.end;
    }
    split(text, at..text.len(), &mut parts);
    phrases(&parts)
}

/// Words, Chinese tokens and signs of a range without slots.
fn split(text: &str, range: Range<usize>, parts: &mut Vec<Part>) {
    let (mut at, end) = (range.start, range.end);
    let mut last_end = None;
    while let Some(character) = text[at..end].chars().next() {
        let next = at + character.len_utf8();
        if is_han(character) {
            let token = han_token(text, at..end);
            at = token.span.end;
            parts.push(Part::Done(token));
        } else if character.is_alphanumeric() && !is_superscript(character) {
            let length = word_length(&text[at..end]);
            let gap = last_end.map(|last| &text[last..at]);
            // "version A" has a name, "a version" has an article.
            if &text[at..at + length] == "A"
                && text[..at].trim_end().ends_with(|last: char| last.is_alphanumeric() || last == ',')
            {
                parts.push(Part::Done(token(at..at + length, Kind::Content, "A".to_owned())));
                at += length;
                last_end = Some(at);
                continue;
            }
            push_word(
                &text[at..at + length],
                at,
                matches!(gap, Some(" " | "-" | "\u{2010}" | "\u{2011}")),
                parts,
            );
            at += length;
            last_end = Some(at);
        } else {
            if is_symbol(text, at, character) {
                parts.push(Part::Done(token(at..next, Kind::Symbol, character.to_string())));
            }
            at = next;
        }
    }
}

fn token(span: Range<usize>, kind: Kind, text: String) -> Token {
    Token { span, kind, text, inflection: Inflection::Base }
}

/// The length of the word at the start of `text`: letters and digits, with apostrophes inside.
fn word_length(text: &str) -> usize {
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        let goes_on = character.is_alphanumeric() && !is_han(character) && !is_superscript(character)
            || matches!(character, '\'' | '\u{2019}')
                && characters.peek().is_some_and(|(_, next)| next.is_alphabetic() && !is_han(*next))
            || ('\u{300}'..='\u{36F}').contains(&character);
        if !goes_on {
            return at;
        }
    }
    text.len()
}

/// Signs that carry meaning. A hyphen does where it stands before a number or alone.
fn is_symbol(text: &str, at: usize, character: char) -> bool {
    match character {
        '-' | '\u{2212}' => {
            text[..at].chars().next_back().is_none_or(char::is_whitespace)
                || text[at + character.len_utf8()..].chars().next().is_none_or(|next| next.is_ascii_digit())
        }
        '+' | '*' | '/' | '=' | '<' | '>' | '^' | '%' | '×' | '÷' | '≤' | '≥' | '≠' | '√' | '±' | '∞'
        | '&' | '|' | '~' | '@' | '#' | '\\' | '½' | '¼' | '¾' | '→' | '←' | '°' | '$' | '€' | '£' | '¥' => {
            true
        }
        _ => is_superscript(character) || ('\u{2080}'..='\u{2089}').contains(&character),
    }
}

/// One word, its contraction taken apart.
fn push_word(word: &str, at: usize, is_adjacent: bool, parts: &mut Vec<Part>) {
    let lower = word.replace('\u{2019}', "'").to_lowercase();
    let (base, rest) = match lower.as_str() {
        "cannot" | "can't" => ("can", "not"),
        "won't" => ("will", "not"),
        "shan't" => ("shall", "not"),
        _ => match lower.split_once('\'') {
            Some((base, "t")) => (base.strip_suffix('n').unwrap_or(base), "not"),
            Some((base, "ll")) => (base, "will"),
            Some((base, "d")) => (base, "would"),
            Some((base, _)) => (base, ""),
            None => (lower.as_str(), ""),
        },
    };
    let mark = word.find(['\'', '\u{2019}']).unwrap_or(word.len());
    let cut = match rest {
        "" => word.len(),
        "not" if lower == "cannot" || lower == "can't" => "can".len(),
        "not" => word[..mark].strip_suffix(['n', 'N']).map_or(mark, str::len),
        _ => mark,
    };
    parts.push(Part::Piece(Piece { span: at..at + cut, lower: base.to_owned(), is_adjacent }));
    if !rest.is_empty() {
        parts.push(Part::Piece(Piece {
            span: at + cut..at + word.len(),
            lower: rest.to_owned(),
            is_adjacent: true,
        }));
    }
}

/// The longest known Chinese phrase at the start of the range, or one character.
fn han_token(text: &str, range: Range<usize>) -> Token {
    let part = &text[range.clone()];
    let ends: Vec<usize> = part
        .char_indices()
        .take(PHRASE_CHARACTERS)
        .take_while(|(_, character)| is_han(*character))
        .map(|(at, character)| at + character.len_utf8())
        .collect();
    for end in ends.iter().rev() {
        let phrase = &part[..*end];
        let span = range.start..range.start + end;
        if names::is_name(phrase) {
            return token(span, Kind::Name, phrase.to_owned());
        }
        if let Some(meaning) = lexicon::chinese(phrase) {
            return meant(span, meaning);
        }
    }
    let end = ends.first().copied().unwrap_or(part.len());
    token(range.start..range.start + end, Kind::Content, part[..end].to_owned())
}

fn meant(span: Range<usize>, meaning: Meaning) -> Token {
    match meaning {
        Meaning::Word(class, label) => token(span, Kind::Word(class), label.to_owned()),
        Meaning::Light => token(span, Kind::Light, String::new()),
        Meaning::Function(word) => token(span, Kind::Function, word.to_owned()),
        Meaning::Same(label) => token(span, Kind::Content, label.to_owned()),
    }
}

/// Words to tokens, the longest known phrase first.
fn phrases(parts: &[Part]) -> Vec<Token> {
    let mut out = Vec::with_capacity(parts.len());
    let mut at = 0;
    while at < parts.len() {
        let piece = match &parts[at] {
            Part::Done(token) => {
                out.push(token.clone());
                at += 1;
                continue;
            }
            Part::Piece(piece) => piece,
        };
        let mut run = vec![piece];
        for part in parts[at + 1..].iter().take(PHRASE_WORDS - 1) {
            match part {
                Part::Piece(next) if next.is_adjacent => run.push(next),
                _ => break,
            }
        }
        let found = (1..=run.len()).rev().find_map(|count| {
            let phrase = run[..count].iter().map(|piece| piece.lower.as_str()).collect::<Vec<_>>().join(" ");
            Some((count, lexicon::english(&phrase)?))
        });
        if let Some((count, meaning)) = found {
            out.push(meant(piece.span.start..run[count - 1].span.end, meaning));
            at += count;
        } else {
            out.push(word(piece));
            at += 1;
        }
    }
    out
}

/// A word that the lexicon does not know as it stands.
fn word(piece: &Piece) -> Token {
    let lower = &piece.lower;
    if lower.bytes().any(|byte| byte.is_ascii_digit()) {
        return token(piece.span.clone(), Kind::Literal, lower.clone());
    }
    if names::is_name(lower) {
        return token(piece.span.clone(), Kind::Name, lower.clone());
    }
    let (base, inflection) = lemma(lower);
    let text = match lexicon::english(&base) {
        Some(Meaning::Same(label)) => label.to_owned(),
        _ => base,
    };
    Token { span: piece.span.clone(), kind: Kind::Content, text, inflection }
}
