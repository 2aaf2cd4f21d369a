//! Cuts text into the pieces inside which byte pairs are merged: each model family was trained with its own
//! patterns, which a file names in `tokenizer.ggml.pre`.
//!
//! The published patterns end in `\s+(?!\S)|\s+`: of a run of white space before a word, the last character
//! belongs to the word. Here the patterns end in `\s+` and the look-ahead is applied afterwards, so that an
//! automaton without backtracking finds all pieces in linear time.

use std::borrow::Cow;

use regex::Regex;
use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfc_quick};

use crate::ModelError;

/// GPT-2: contractions, letters, numbers, others; white space.
const GPT2: Step = Step {
    pattern: r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+",
    trims_space: Some(LineEnds::AreSpace),
};
/// Llama 3: any sign may begin a word, numbers of up to three digits, line ends by themselves.
const LLAMA3: Step = Step {
    pattern: r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+",
    trims_space: Some(LineEnds::StandAlone),
};
/// Qwen 2: as Llama 3 with single digits.
const QWEN2: Step = Step {
    pattern: r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+",
    trims_space: Some(LineEnds::StandAlone),
};
/// Qwen 3.5: combining marks belong to words.
const QWEN35: Step = Step {
    pattern: r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+",
    trims_space: Some(LineEnds::StandAlone),
};
/// GPT-4o: a word breaks where lower case goes over to upper case.
const GPT4O: Step = Step {
    pattern: r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+",
    trims_space: Some(LineEnds::StandAlone),
};
/// Mistral's Tekken: as GPT-4o with single digits and without contractions.
const TEKKEN: Step = Step {
    pattern: r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+",
    trims_space: Some(LineEnds::StandAlone),
};
/// DeepSeek V3, after its numbers and its CJK runs are cut out.
const DEEPSEEK3: Step = Step {
    pattern: r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+"##,
    trims_space: Some(LineEnds::StandAlone),
};
const SINGLE_DIGITS: Step = Step { pattern: r"\p{N}", trims_space: None };
const TRIPLE_DIGITS: Step = Step { pattern: r"\p{N}{1,3}", trims_space: None };
const CJK: Step = Step { pattern: r"[一-龥\u{3040}-ゟ゠-ヿ]+", trims_space: None };
/// Files that name no pre-tokenizer: punctuation, then GPT-2, then numbers in threes.
const PUNCTUATION: Step = Step { pattern: r"[\p{P}\$\+<=>\^~\|]+", trims_space: None };
const NUMBERS: Step = Step { pattern: r"\p{N}+", trims_space: None };
const ASCII_TRIPLES: Step = Step { pattern: r"[0-9][0-9][0-9]", trims_space: None };

/// A family's way of cutting.
struct Family {
    /// Its names in files.
    names: &'static [&'static str],
    /// Applied one after another, each to the pieces of the one before.
    steps: &'static [Step],
    /// Whether a piece that is a token is taken as it is, whatever the merges say.
    ignores_merges: bool,
    /// Whether prompts begin with BOS when the file does not say.
    adds_bos: bool,
    /// Whether text is brought into Unicode's composed form (NFC) first, as the family was trained.
    composes: bool,
}

const FAMILIES: [Family; 10] = [
    plain(
        &[
            "gpt-2",
            "gpt2",
            "phi-2",
            "mpt",
            "olmo",
            "jina-es",
            "jina-de",
            "jina-v2-es",
            "jina-v2-de",
            "gigachat",
        ],
        &[GPT2],
    ),
    plain(&["smollm", "starcoder", "refact", "command-r", "codeshell"], &[SINGLE_DIGITS, GPT2]),
    plain(&["stablelm2", "deepseek-r1-qwen", "megrez"], &[QWEN2]),
    Family { composes: true, ..plain(&["qwen2"], &[QWEN2]) },
    Family { composes: true, ..plain(&["qwen35"], &[QWEN35]) },
    plain(&["gpt-4o", "llama4"], &[GPT4O]),
    plain(&["deepseek-v3"], &[TRIPLE_DIGITS, CJK, DEEPSEEK3]),
    plain(&["default"], &[PUNCTUATION, GPT2, NUMBERS, ASCII_TRIPLES]),
    Family {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral"],
        steps: &[LLAMA3],
        ignores_merges: true,
        adds_bos: true,
        composes: false,
    },
    Family { names: &["tekken"], steps: &[TEKKEN], ignores_merges: true, adds_bos: true, composes: false },
];

const fn plain(names: &'static [&'static str], steps: &'static [Step]) -> Family {
    Family { names, steps, ignores_merges: false, adds_bos: false, composes: false }
}

struct Step {
    pattern: &'static str,
    /// `Some` if a match of white space gives its last character to the word after it.
    trims_space: Option<LineEnds>,
}

/// What the last alternative of a pattern can match.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineEnds {
    /// Line ends as other white space.
    AreSpace,
    /// No line ends: an earlier alternative has taken them.
    StandAlone,
}

/// Cuts text into pieces.
pub(super) struct PreTokenizer {
    steps: Vec<(Regex, Option<LineEnds>)>,
    pub(super) ignores_merges: bool,
    pub(super) adds_bos: bool,
    pub(super) composes: bool,
}

impl PreTokenizer {
    /// The cutter of that name.
    pub(super) fn new(name: &str) -> Result<Self, ModelError> {
        let family = FAMILIES.iter().find(|family| family.names.contains(&name)).ok_or_else(|| {
            ModelError::UnsupportedTokenizer {
                key: "tokenizer.ggml.pre",
                given: name.to_owned(),
                supported: FAMILIES
                    .iter()
                    .flat_map(|family| family.names)
                    .copied()
                    .collect::<Vec<_>>()
                    .join(", "),
            }
        })?;
        let steps = family
            .steps
            .iter()
            .map(|step| Ok((Regex::new(step.pattern)?, step.trims_space)))
            .collect::<Result<_, regex::Error>>()
            .map_err(|error| ModelError::Tokenizer { what: error.to_string() })?;
        let Family { ignores_merges, adds_bos, composes, .. } = *family;
        Ok(Self { steps, ignores_merges, adds_bos, composes })
    }

    /// The text in the form the family was trained on. O(n), and nothing for ASCII.
    pub(super) fn composed<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if !self.composes || text.is_ascii() || is_nfc_quick(text.chars()) == IsNormalized::Yes {
            return Cow::Borrowed(text);
        }
        Cow::Owned(text.nfc().collect())
    }

    /// The pieces of `text` in order; together they are `text`. Linear time.
    pub(super) fn split<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let mut pieces = vec![text];
        for (regex, trims_space) in &self.steps {
            let mut finer = Vec::with_capacity(pieces.len());
            for piece in pieces {
                cut(regex, *trims_space, piece, &mut finer);
            }
            pieces = finer;
        }
        pieces.retain(|piece| !piece.is_empty());
        pieces
    }
}

/// Appends the matches in `text` and what lies between them.
fn cut<'t>(regex: &Regex, trims_space: Option<LineEnds>, text: &'t str, pieces: &mut Vec<&'t str>) {
    let mut position = 0;
    while let Some(found) = regex.find_at(text, position) {
        let mut end = found.end();
        if let Some(line_ends) = trims_space {
            end -= given_to_next_word(found.as_str(), end == text.len(), line_ends);
        }
        if position < found.start() {
            pieces.push(&text[position..found.start()]);
        }
        pieces.push(&text[found.start()..end]);
        position = end;
    }
    if position < text.len() {
        pieces.push(&text[position..]);
    }
}

/// Bytes of the last character of a run of at least two white space characters before a word; 0 otherwise.
fn given_to_next_word(found: &str, at_end: bool, line_ends: LineEnds) -> usize {
    let mut characters = found.chars();
    let Some(last) = characters.next_back() else { return 0 };
    let Some(before) = characters.next_back() else { return 0 };
    // A match that ends in white space is white space throughout, unless it ends in the line ends that some
    // patterns add to punctuation.
    let is_run = last.is_whitespace() && before.is_whitespace() && !at_end;
    let is_line_end = matches!(last, '\r' | '\n');
    if is_run && !(is_line_end && line_ends == LineEnds::StandAlone) { last.len_utf8() } else { 0 }
}
