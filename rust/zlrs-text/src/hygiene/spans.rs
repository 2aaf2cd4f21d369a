//! Rules inside lines.

use super::{Rule, Rules};
use crate::c1;
use crate::script::is_han;

type Counts = [usize; Rule::ALL.len()];

/// Characters that are never content.
pub(super) fn without_characters(text: &str, rules: Rules, counts: &mut Counts) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character == '\r' && rules.has(Rule::LineEnds) {
            counts[Rule::LineEnds as usize] += 1;
            if characters.peek() != Some(&'\n') {
                out.push('\n');
            }
        } else if is_control(character) && rules.has(Rule::Control) {
            counts[Rule::Control as usize] += 1;
        } else if is_zero_width(character) && rules.has(Rule::ZeroWidth) {
            counts[Rule::ZeroWidth as usize] += 1;
        } else {
            out.push(character);
        }
    }
    out
}

pub(super) fn is_control(character: char) -> bool {
    character.is_control() && !matches!(character, '\n' | '\t' | '\r')
}

pub(super) fn is_zero_width(character: char) -> bool {
    matches!(
        character,
        '\u{200B}' | '\u{FEFF}' | '\u{2060}' | '\u{AD}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}'
    )
}

/// The text with its spaces, marks and brackets cleaned outside code and quotations.
pub(super) fn clean(parts: &[(&str, bool)], rules: Rules, counts: &mut Counts) -> String {
    let mut out = String::new();
    for (at, (part, is_kept)) in parts.iter().enumerate() {
        if *is_kept {
            out.push_str(part);
            continue;
        }
        let follows = parts.get(at + 1).and_then(|(next, _)| next.chars().next());
        push_clean(part, follows, rules, counts, &mut out);
    }
    if rules.has(Rule::Brackets) { brackets(&out, counts) } else { out }
}

fn push_clean(part: &str, follows: Option<char>, rules: Rules, counts: &mut Counts, out: &mut String) {
    let is_space = |character: char| matches!(character, ' ' | '\t');
    let mut characters = part.chars().peekable();
    let mut is_indentation = out.is_empty() || out.ends_with('\n');
    while let Some(character) = characters.next() {
        if is_space(character) {
            let mut run = String::from(character);
            while let Some(next) = characters.next_if(|next| is_space(*next)) {
                run.push(next);
            }
            let ends_line =
                characters.peek().map_or(follows == Some('\n') || follows.is_none(), |next| *next == '\n');
            if ends_line && rules.has(Rule::TrailingSpaces) {
                counts[Rule::TrailingSpaces as usize] += run.len();
            } else if !is_indentation && run.len() > 1 && rules.has(Rule::RepeatedSpaces) {
                counts[Rule::RepeatedSpaces as usize] += run.len() - 1;
                out.push(' ');
            } else {
                out.push_str(&run);
            }
            continue;
        }
        is_indentation = character == '\n';
        out.push(character);
        if rules.has(Rule::RepeatedMarks) && matches!(character, '!' | '?' | '。' | '！' | '？' | '~' | '…')
        {
            let more = characters.clone().take_while(|next| *next == character).count();
            if more >= 2 {
                counts[Rule::RepeatedMarks as usize] += more;
                characters.by_ref().take(more).for_each(drop);
            }
        }
    }
}

/// Brackets beside Chinese on both sides of the pair, or at the end of the text.
fn brackets(text: &str, counts: &mut Counts) -> String {
    let is_beside = |character: Option<char>| {
        character.is_none_or(|character| is_han(character) || "，。；：！？、".contains(character))
    };
    let has_clause_mark = |one: Option<char>, two: Option<char>| {
        [one, two].iter().flatten().any(|character| "，。；：！？、".contains(*character))
    };
    let mut out = String::with_capacity(text.len());
    for (part, is_kept) in c1::spans(text) {
        if is_kept {
            out.push_str(part);
            continue;
        }
        let mut rest = part;
        while let Some((open, close)) = pair(rest) {
            let (inner, after) = (&rest[open + 1..close], &rest[close + 1..]);
            out.push_str(&rest[..open]);
            let (left, right) = (out.chars().next_back(), after.chars().next());
            let is_chinese = !inner.contains('(') && inner.chars().any(is_han);
            let fits = is_chinese && is_beside(left) && is_beside(right) && has_clause_mark(left, right);
            if fits {
                counts[Rule::Brackets as usize] += 2;
            }
            out.push(if fits { '（' } else { '(' });
            out.push_str(inner);
            out.push(if fits { '）' } else { ')' });
            rest = after;
        }
        out.push_str(rest);
    }
    out
}

/// The first opening bracket and the closing one behind it, in one line.
fn pair(text: &str) -> Option<(usize, usize)> {
    let open = text.find('(')?;
    let close = open + text[open..].find([')', '\n'])?;
    (text.as_bytes()[close] == b')').then_some((open, close))
}
