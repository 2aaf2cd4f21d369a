//! Why two asks may not share an answer.

use std::fmt;

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident $name:literal,)*) => {
        /// What differs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reason {
            $($(#[$doc])* $variant,)*
        }

        impl Reason {
            /// All reasons.
            pub const ALL: &'static [Reason] = &[$(Reason::$variant),*];

            /// The reason's name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Reason::$variant => $name,)*
                }
            }
        }
    };
}

reasons! {
    /// The language.
    Language "language",
    /// A quotation.
    Quotation "quotation",
    /// Code.
    Code "code",
    /// A web address.
    Url "url",
    /// A number, or digits in a word.
    Digits "digits",
    /// The unit of the same number.
    Unit "unit",
    /// An amount of money.
    Money "money",
    /// A percentage.
    Percent "percent",
    /// A date.
    Date "date",
    /// A time of day.
    Time "time",
    /// An identifier.
    Id "id",
    /// A superscript.
    Superscript "superscript",
    /// An operator or another sign.
    Operator "operator",
    /// A negation.
    Negation "negation",
    /// A word and its opposite.
    Antonym "antonym",
    /// Whose it is, or who does it.
    Person "person",
    /// How many, how often.
    Quantifier "quantifier",
    /// The direction of a comparison.
    Comparison "comparison",
    /// May, must, can.
    Modality "modality",
    /// When it happens: did, does, will.
    Tense "tense",
    /// A condition or an alternative.
    Condition "condition",
    /// From or to, on or off.
    Direction "direction",
    /// What is asked for: who, when, where.
    Question "question",
    /// A name.
    Entity "entity",
    /// The order of the same words.
    Order "order",
    /// One word in place of another, all else being equal.
    Substitution "substitution",
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// A refusal, with what differs in each of the two asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What differs.
    pub reason: Reason,
    /// What the first ask says.
    pub left: String,
    /// What the second ask says.
    pub right: String,
}
