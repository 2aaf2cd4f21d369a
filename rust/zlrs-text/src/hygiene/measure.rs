//! How much of a text carries something.

use super::spans::{is_control, is_zero_width};

/// Shares of a text's characters, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure {
    /// Characters (Unicode scalar values).
    pub characters: usize,
    /// Characters that carry something, of all: letters, digits, marks, single spaces and single line ends. Not counted
    /// are control and zero-width characters, spaces behind a space or at a line's end, empty lines, lines that repeat
    /// the one before, marks behind two of the same, and emoji. 1 for an empty text.
    pub efficiency: f64,
    /// Emoji, of all.
    pub emoji_share: f64,
    /// Characters that a vocabulary without them spells byte by byte, of all: an estimate by their blocks. With a
    /// tokenizer at hand, [`byte_fallback_share`] counts.
    pub byte_fallback_share: f64,
}

/// Measures a text. Linear in its length.
#[must_use]
pub fn measure(text: &str) -> Measure {
    let (mut characters, mut useful, mut emoji, mut fallback) = (0_usize, 0_usize, 0_usize, 0_usize);
    let mut previous_line = "";
    for line in text.split_inclusive('\n') {
        let count = line.chars().count();
        characters += count;
        let body = line.trim_end();
        let is_repeated = body == previous_line || body.is_empty();
        previous_line = body;
        let (mut before, mut run) = ('\n', 0);
        for character in line.chars() {
            let is_emoji = is_emoji(character);
            emoji += usize::from(is_emoji);
            fallback += usize::from(is_rare(character));
            let is_empty = is_emoji || is_control(character) || is_zero_width(character) || character == '\r';
            run = if character == before { run + 1 } else { 1 };
            before = character;
            let is_extra = match character {
                ' ' | '\t' => run > 1,
                _ if character.is_alphanumeric() => false,
                _ => run > 2,
            };
            useful += usize::from(!is_empty && !is_extra && !is_repeated);
        }
        // Spaces at the end of the line.
        let trailing = line
            .trim_end_matches(['\n', '\r'])
            .chars()
            .rev()
            .take_while(|last| matches!(last, ' ' | '\t'))
            .count();
        useful -= usize::from(!is_repeated && trailing > 0);
    }
    let share = |count: usize| if characters == 0 { 0.0 } else { count as f64 / characters as f64 };
    Measure {
        characters,
        efficiency: if characters == 0 { 1.0 } else { share(useful) },
        emoji_share: share(emoji),
        byte_fallback_share: share(fallback),
    }
}

/// The share of characters for which `is_known` says no, 0 to 1. Linear in the length of the text.
#[must_use]
pub fn byte_fallback_share(text: &str, is_known: impl Fn(char) -> bool) -> f64 {
    let (mut characters, mut unknown) = (0_usize, 0_usize);
    for character in text.chars() {
        characters += 1;
        unknown += usize::from(!is_known(character));
    }
    if characters == 0 { 0.0 } else { unknown as f64 / characters as f64 }
}

fn is_emoji(character: char) -> bool {
    matches!(
        character,
        '\u{1F300}'..='\u{1FAFF}' | '\u{2600}'..='\u{27BF}' | '\u{1F1E6}'..='\u{1F1FF}' | '\u{1F000}'..='\u{1F0FF}' | '\u{2B50}' | '\u{2B55}' | '\u{FE0F}' | '\u{20E3}'
    )
}

/// Blocks that vocabularies seldom hold whole: everything beyond the basic plane, rare Chinese, private use, control.
fn is_rare(character: char) -> bool {
    character as u32 > 0xFFFF
        || matches!(character, '\u{3400}'..='\u{4DBF}' | '\u{E000}'..='\u{F8FF}' | '\u{FFF0}'..='\u{FFFF}' | '\u{1200}'..='\u{1DFF}')
        || is_control(character)
}
