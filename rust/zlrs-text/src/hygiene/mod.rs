//! Hygiene of a text: named rules that take away what carries nothing, each of which can be switched.
//!
//! Every rule leaves code and quotations alone, but for the characters that are never content (control and zero-width
//! ones) where [`Rule::Control`] and [`Rule::ZeroWidth`] say so. A text is cleaned only where someone asked for it: this
//! changes what is sent, not how it is compared.

mod lines;
mod measure;
mod spans;

use std::fmt;

pub use self::measure::{Measure, byte_fallback_share, measure};
use crate::c1;

macro_rules! rules {
    ($($(#[$doc:meta])* $variant:ident $name:literal $is_safe:literal,)*) => {
        /// A rule.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Rule {
            $($(#[$doc])* $variant,)*
        }

        impl Rule {
            /// All rules, in the order in which they are applied.
            pub const ALL: &'static [Rule] = &[$(Rule::$variant),*];

            /// The name for configuration and reports.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Rule::$variant => $name,)*
                }
            }

            /// Whether the rule is in [`Rules::default`]: it takes away nothing that a reader could see.
            #[must_use]
            pub fn is_safe(self) -> bool {
                match self {
                    $(Rule::$variant => $is_safe,)*
                }
            }
        }
    };
}

rules! {
    /// Control characters but tabs and line ends.
    Control "control" true,
    /// Zero-width spaces, byte order marks, soft hyphens, direction marks. Joiners stay: scripts and emoji need them.
    ZeroWidth "zero_width" true,
    /// `\r\n` and `\r` as `\n`.
    LineEnds "line_ends" true,
    /// Spaces before a line end.
    TrailingSpaces "trailing_spaces" true,
    /// Runs of spaces inside a line. Indentation stays.
    RepeatedSpaces "repeated_spaces" true,
    /// More than one empty line.
    BlankLines "blank_lines" true,
    /// A line of eight or more of one sign, as three of them.
    Rules "rule_lines" false,
    /// A line of more than three characters that is the line before once more.
    RepeatedLines "repeated_lines" false,
    /// Three or more of one of `!?。！？~…`, as one.
    RepeatedMarks "repeated_marks" false,
    /// `(…)` as `（…）` where Chinese stands on both sides of the pair, a clause mark on one of them, and Chinese inside.
    Brackets "full_width_brackets" false,
}

impl fmt::Display for Rule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// Which rules are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    bits: u16,
}

impl Default for Rules {
    /// The safe rules.
    fn default() -> Rules {
        Rule::ALL.iter().filter(|rule| rule.is_safe()).fold(Rules::none(), |rules, rule| rules.with(*rule))
    }
}

impl Rules {
    /// No rule.
    #[must_use]
    pub const fn none() -> Rules {
        Rules { bits: 0 }
    }

    /// Every rule.
    #[must_use]
    pub fn all() -> Rules {
        Rule::ALL.iter().fold(Rules::none(), |rules, rule| rules.with(*rule))
    }

    /// With `rule` on.
    #[must_use]
    pub const fn with(self, rule: Rule) -> Rules {
        Rules { bits: self.bits | 1 << rule as u16 }
    }

    /// With `rule` off.
    #[must_use]
    pub const fn without(self, rule: Rule) -> Rules {
        Rules { bits: self.bits & !(1 << rule as u16) }
    }

    /// Whether `rule` is on.
    #[must_use]
    pub const fn has(self, rule: Rule) -> bool {
        self.bits & 1 << rule as u16 != 0
    }
}

/// A cleaned text.
#[derive(Clone, Debug, PartialEq)]
pub struct Cleaned {
    /// The text.
    pub text: String,
    /// How many characters each rule took away or changed; rules that did nothing are left out.
    pub applied: Vec<(Rule, usize)>,
    /// The text before.
    pub before: Measure,
    /// The text after.
    pub after: Measure,
}

/// Most passes over a text.
const ROUNDS: usize = 16;

/// Applies `rules` to `text`. Linear in its length; applying it twice gives the same text.
#[must_use]
pub fn clean(text: &str, rules: Rules) -> Cleaned {
    let before = measure(text);
    let mut counts = [0_usize; Rule::ALL.len()];
    let mut text = spans::without_characters(text, rules, &mut counts);
    // A rule may make room for another one: lines that are equal once their spaces are. Two rounds settle ordinary texts.
    for _ in 0..ROUNDS {
        let parts: Vec<(&str, bool)> = c1::spans(&text).collect();
        let spaced = spans::clean(&parts, rules, &mut counts);
        let next = lines::clean(&spaced, rules, &mut counts);
        if next == text {
            break;
        }
        text = next;
    }
    let applied = Rule::ALL
        .iter()
        .zip(counts)
        .filter(|(_, count)| *count > 0)
        .map(|(rule, count)| (*rule, count))
        .collect();
    let after = measure(&text);
    Cleaned { text, applied, before, after }
}
