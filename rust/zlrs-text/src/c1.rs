//! C1: Unicode NFC, line ends, outer and repeated spaces, outside code and quotes.

use unicode_normalization::UnicodeNormalization as _;

/// Pairs of quotation marks. The ASCII apostrophe is one only where it cannot be an apostrophe.
const QUOTES: &[(char, char)] = &[
    ('"', '"'),
    ('\u{201C}', '\u{201D}'),
    ('\u{2018}', '\u{2019}'),
    ('\u{201E}', '\u{201C}'),
    ('\u{AB}', '\u{BB}'),
    ('\u{2039}', '\u{203A}'),
    ('\u{300C}', '\u{300D}'),
    ('\u{300E}', '\u{300F}'),
];

/// NFC would turn this accent into a back quote, which is a mark of code here.
const GREEK_VARIA: char = '\u{1FEF}';

/// Applies C1.
pub(crate) fn normalise(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (part, is_kept) in spans(&unify(text)) {
        if is_kept {
            out.push_str(part);
        } else {
            squeeze(part, &mut out);
        }
    }
    trim(&out).to_owned()
}

/// NFC and line feeds as line ends, outside code and quotes.
fn unify(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (part, is_kept) in spans(text) {
        if is_kept {
            out.push_str(part);
        } else {
            let part = part.replace("\r\n", "\n").replace('\r', "\n");
            for piece in part.split_inclusive(GREEK_VARIA) {
                let body = piece.strip_suffix(GREEK_VARIA).unwrap_or(piece);
                out.extend(body.nfc());
                out.push_str(&piece[body.len()..]);
            }
        }
    }
    out
}

/// The text in spans, with whether each is code or a quotation, marks included. A span that is opened and never
/// closed reaches to the end: nothing in it may change.
pub(crate) fn spans(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut rest = text;
    let mut before = None;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut previous: Option<char> = before;
        for (start, character) in rest.char_indices() {
            let Some(length) = kept_length(&rest[start..], character, previous) else {
                previous = Some(character);
                continue;
            };
            let cut = if start > 0 { start } else { length };
            let (part, after) = rest.split_at(cut);
            before = part.chars().next_back();
            rest = after;
            return Some((part, start == 0));
        }
        let part = std::mem::take(&mut rest);
        Some((part, false))
    })
}

/// The length of the code or quotation that `text` starts with, whose first character is `first`.
fn kept_length(text: &str, first: char, previous: Option<char>) -> Option<usize> {
    if first == '`' {
        let ticks = text.len() - text.trim_start_matches('`').len();
        let fence = &text[..ticks];
        return Some(text[ticks..].find(fence).map_or(text.len(), |at| at + 2 * ticks));
    }
    if first == '\'' {
        // An apostrophe stands inside or after a word; an opening mark does not.
        let opens = previous.is_none_or(|character| character.is_whitespace() || "([{-".contains(character))
            && text[1..].chars().next().is_some_and(|next| !next.is_whitespace());
        if !opens {
            return None;
        }
        let mut characters = text.char_indices().skip(1).peekable();
        while let Some((at, character)) = characters.next() {
            let ends = characters.peek().is_none_or(|(_, next)| !next.is_alphanumeric());
            if character == '\'' && ends {
                return Some(at + 1);
            }
        }
        return Some(text.len());
    }
    let (_, close) = QUOTES.iter().find(|(open, _)| *open == first)?;
    let inner = first.len_utf8();
    Some(text[inner..].find(*close).map_or(text.len(), |at| inner + at + close.len_utf8()))
}

/// Copies `text` with runs of spaces and tabs as one space. Spaces at the start of a line stay: they are indentation.
fn squeeze(text: &str, out: &mut String) {
    let mut in_indentation = out.is_empty() || out.ends_with('\n');
    let mut after_space = false;
    for character in text.chars() {
        match character {
            ' ' | '\t' if in_indentation => out.push(character),
            ' ' | '\t' => {
                if !after_space {
                    out.push(' ');
                }
                after_space = true;
            }
            _ => {
                out.push(character);
                in_indentation = character == '\n';
                after_space = false;
            }
        }
    }
}

/// Without white space at both ends.
fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\n', '\r'])
}
