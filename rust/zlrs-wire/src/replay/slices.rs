//! A text in the pieces of a stream.

/// A piece ends at the first white space from here on …
const SOFT_CHARACTERS: usize = 16;
/// … and here at the latest.
const HARD_CHARACTERS: usize = 48;

/// Cuts `text` into pieces of 16 to 48 characters that end after white space where there is some. Pieces are never
/// empty, never split a character, and joined they are `text`. Linear.
pub fn slices(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let cut = rest
            .char_indices()
            .enumerate()
            .find(|(count, (_, character))| {
                count + 1 >= HARD_CHARACTERS || (count + 1 >= SOFT_CHARACTERS && character.is_whitespace())
            })
            .map_or(rest.len(), |(_, (start, character))| start + character.len_utf8());
        let (piece, after) = rest.split_at(cut);
        rest = after;
        Some(piece)
    })
}
