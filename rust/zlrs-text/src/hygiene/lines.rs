//! Rules over lines.

use super::{Rule, Rules};
use crate::c1;

type Counts = [usize; Rule::ALL.len()];

/// The text with its lines cleaned. A line that code or a quotation touches stays.
pub(super) fn clean(text: &str, rules: Rules, counts: &mut Counts) -> String {
    let mut out = String::with_capacity(text.len());
    let kept = kept_ranges(text);
    let mut next_kept = kept.iter().peekable();
    let mut previous: Option<&str> = None;
    let mut blank_lines = 0;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let range = at..at + line.len();
        at = range.end;
        while next_kept.next_if(|kept| kept.end <= range.start).is_some() {}
        if next_kept.peek().is_some_and(|kept| kept.start < range.end) {
            out.push_str(line);
            (previous, blank_lines) = (None, 0);
            continue;
        }
        let body = line.trim_end_matches('\n');
        if body.trim().is_empty() {
            blank_lines += 1;
            let is_extra = blank_lines > 1 && line.ends_with('\n') && rules.has(Rule::BlankLines);
            if is_extra {
                counts[Rule::BlankLines as usize] += line.chars().count();
            } else {
                out.push_str(line);
            }
            continue;
        }
        blank_lines = 0;
        if rules.has(Rule::RepeatedLines) && previous == Some(body) && body.trim().chars().count() > 3 {
            counts[Rule::RepeatedLines as usize] += line.chars().count();
            continue;
        }
        previous = Some(body);
        match rule_line(body).filter(|_| rules.has(Rule::Rules)) {
            Some((sign, count)) => {
                counts[Rule::Rules as usize] += count - 3;
                out.extend(std::iter::repeat_n(sign, 3));
                out.push_str(&line[body.len()..]);
            }
            None => out.push_str(line),
        }
    }
    out
}

/// The sign of a line of eight or more of one.
fn rule_line(body: &str) -> Option<(char, usize)> {
    let first = body.chars().next().filter(|first| "-=_*#~—━─".contains(*first))?;
    let count = body.chars().count();
    (count >= 8 && body.chars().all(|character| character == first)).then_some((first, count))
}

fn kept_ranges(text: &str) -> Vec<std::ops::Range<usize>> {
    let mut at = 0;
    c1::spans(text)
        .filter_map(|(part, is_kept)| {
            let range = at..at + part.len();
            at = range.end;
            is_kept.then_some(range)
        })
        .collect()
}
