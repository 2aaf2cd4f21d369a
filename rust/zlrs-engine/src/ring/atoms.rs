//! Words and numbers of a text: what can be copied from a source, or not be in it.

use std::ops::Range;

/// What an atom is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AtomKind {
    /// It has a digit: a number, a date, a code.
    Number,
    /// It begins with a capital letter.
    Name,
    /// Any other word.
    Word,
}

/// One word or number in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Atom {
    /// What it is.
    pub kind: AtomKind,
    /// Where it lies, in bytes.
    pub range: Range<usize>,
}

/// The first atom of a text at or after byte `from`, which is the border of a character and no place inside an
/// atom. Points, commas, colons, slashes, hyphens and apostrophes between two digits belong to it. O(its place).
pub fn next_atom(text: &str, from: usize) -> Option<Atom> {
    let tail = text.get(from..)?;
    let start = from + tail.find(char::is_alphanumeric)?;
    let mut end = start;
    let mut characters = text[start..].char_indices().peekable();
    let mut previous: Option<char> = None;
    while let Some((offset, character)) = characters.next() {
        let next = characters.peek().map(|&(_, next)| next);
        let goes_on = if character.is_alphanumeric() {
            // Digits in a script without spaces stand alone.
            previous.is_none_or(|previous| {
                !previous.is_alphanumeric()
                    || previous.is_ascii_digit() == character.is_ascii_digit()
                    || (previous.is_ascii() && character.is_ascii())
            })
        } else {
            matches!(character, '.' | ',' | ':' | '/' | '-' | '\'')
                && previous.is_some_and(|previous| previous.is_ascii_digit())
                && next.is_some_and(|next| next.is_ascii_digit())
        };
        if !goes_on {
            break;
        }
        previous = Some(character);
        end = start + offset + character.len_utf8();
    }
    let atom = &text[start..end];
    let kind = if atom.bytes().any(|byte| byte.is_ascii_digit()) {
        AtomKind::Number
    } else if atom.chars().next().is_some_and(char::is_uppercase) {
        AtomKind::Name
    } else {
        AtomKind::Word
    };
    Some(Atom { kind, range: start..end })
}

/// All atoms of a text, in order.
pub fn atoms(text: &str) -> impl Iterator<Item = Atom> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let atom = next_atom(text, at)?;
        at = atom.range.end;
        Some(atom)
    })
}

/// An atom as it is compared: without the commas that group digits by three.
pub fn canonical(atom: &str) -> String {
    let bytes = atom.as_bytes();
    let is_group = |at: usize| {
        at > 0
            && bytes[at - 1].is_ascii_digit()
            && bytes.len() >= at + 4
            && bytes[at + 1..at + 4].iter().all(u8::is_ascii_digit)
            && !bytes.get(at + 4).is_some_and(u8::is_ascii_digit)
    };
    let kept = atom.char_indices().filter(|&(at, character)| character != ',' || !is_group(at));
    kept.map(|(_, character)| character).collect()
}
