//! What the network reads of an ask.

/// Longest prepared text, bytes. Longer asks have no fingerprint: they are hardly ever asked again in other words.
pub const PREPARED_BYTES_MAX: usize = 256;

/// Opens a place in a form's template; the name of its kind and a semicolon follow.
const MARK: char = '\u{E000}';

/// The text in lower case, each number and each place of a template as `#`, all punctuation as one space, a space at
/// either end. `None` for a text without letters and for one that is too long. Linear in its length.
///
/// Values are not looked at here: two asks about two order numbers are near, and their values are compared exactly
/// elsewhere.
///
/// ```
/// assert_eq!(zlrs_fingerprint::prepared("Where's order 1,042?").as_deref(), Some(" wheres order # "));
/// ```
pub fn prepared(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len() + 2);
    out.push(' ');
    let mut has_letters = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character == MARK {
            while characters.peek().is_some_and(|next| next.is_ascii_alphabetic() || *next == '_') {
                characters.next();
            }
            characters.next_if_eq(&';');
            push(&mut out, '#');
        } else if character.is_numeric() {
            while characters.next_if(|next| next.is_numeric() || matches!(next, '.' | ',' | ':')).is_some() {}
            push(&mut out, '#');
        } else if character.is_alphabetic() {
            has_letters = true;
            out.extend(character.to_lowercase());
        } else if !matches!(character, '\'' | '’') {
            push(&mut out, ' ');
        }
        if out.len() > PREPARED_BYTES_MAX {
            return None;
        }
    }
    push(&mut out, ' ');
    (has_letters && out.len() <= PREPARED_BYTES_MAX).then_some(out)
}

/// One sign stands for a run of them.
fn push(out: &mut String, character: char) {
    if !out.ends_with(character) {
        out.push(character);
    }
}
