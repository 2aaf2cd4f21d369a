//! One ask as the guards see it.

use crate::atoms::{Atom, Extractor, Value, WordClass};
use crate::opposites::Words;
use crate::tokens::{self, Kind, Token};
use crate::{Canon, canonical};

pub(crate) struct Side {
    pub text: String,
    pub atoms: Vec<Atom>,
    pub tokens: Vec<Token>,
    pub words: Words,
}

impl Side {
    pub(crate) fn new(ask: &str) -> Side {
        let text = without_frame(&canonical(ask, Canon::C2)).to_owned();
        let extractor = Extractor::default();
        let slots = extractor.slots(&text);
        let tokens = tokens::tokens(&text, &slots);
        let words = Words::of(&text);
        let atoms = extractor.atoms(&text);
        Side { text, atoms, tokens, words }
    }

    /// Keys of the values of a kind, in order.
    pub(crate) fn keys(&self, kind: &str) -> Vec<String> {
        self.values(kind).map(Value::key).collect()
    }

    pub(crate) fn values(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.atoms.iter().map(|atom| &atom.value).filter(move |value| value.kind() == kind)
    }

    /// Texts of the tokens of a kind, in order.
    pub(crate) fn texts(&self, is_kind: impl Fn(Kind) -> bool) -> Vec<&str> {
        self.tokens.iter().filter(|token| is_kind(token.kind)).map(|token| token.text.as_str()).collect()
    }

    /// Labels of the words of a class, sorted, each once. "How can I" asks what "how do I" asks, so that "can" behind
    /// "how" is no modality.
    pub(crate) fn labels(&self, class: WordClass) -> Vec<&str> {
        let mut labels = Vec::new();
        let mut is_after_how = false;
        for token in &self.tokens {
            let is_how = token.kind == Kind::Word(WordClass::Question)
                && matches!(token.text.as_str(), "how" | "怎么");
            let is_polite = is_after_how && matches!(token.text.as_str(), "can" | "would" | "可以");
            if token.kind == Kind::Word(class) && !is_polite {
                labels.push(token.text.as_str());
            }
            is_after_how = is_how;
        }
        labels.sort_unstable();
        labels.dedup();
        labels
    }

    /// Content words and values, in order, with "the status of my order" read as "my order status".
    pub(crate) fn content(&self) -> Vec<&str> {
        let mut out: Vec<&str> = Vec::new();
        let mut at = 0;
        let is_content =
            |token: &Token| matches!(token.kind, Kind::Content | Kind::Name | Kind::Literal | Kind::Slot(_));
        while at < self.tokens.len() {
            let token = &self.tokens[at];
            if is_content(token) {
                let follows = self.tokens.get(at + 1..).unwrap_or_default();
                let is_of = follows.first().is_some_and(|next| {
                    next.kind == Kind::Light && self.text[next.span.clone()].eq_ignore_ascii_case("of")
                });
                let owner = follows.iter().skip(1).take(2).position(is_content).filter(|_| is_of);
                if let Some(owner) = owner {
                    out.push(&follows[owner + 1].text);
                    out.push(&token.text);
                    at += owner + 3;
                    continue;
                }
                out.push(&token.text);
            }
            at += 1;
        }
        out
    }
}

/// Openings that ask for an answer and say nothing about it.
const FRAMES: &[&str] = &[
    "can you please tell me ",
    "could you please tell me ",
    "can you tell me ",
    "could you tell me ",
    "do you know ",
    "i would like to know ",
    "i'd like to know ",
    "i want to know ",
    "please tell me ",
    "tell me ",
    "i was wondering ",
    "i need to know ",
    "can you please ",
    "could you please ",
    "can you ",
    "could you ",
    "would you ",
    "please ",
    "请问一下",
    "请问",
    "我想知道",
    "我想问一下",
    "我想问",
    "请告诉我",
    "麻烦问一下",
    "想咨询一下",
    "你好，",
    "您好，",
];

fn without_frame(text: &str) -> &str {
    let mut rest = text;
    while let Some(shorter) = FRAMES.iter().find_map(|frame| {
        let head = rest.get(..frame.len())?;
        head.eq_ignore_ascii_case(frame).then(|| &rest[frame.len()..])
    }) {
        rest = shorter;
    }
    rest
}
