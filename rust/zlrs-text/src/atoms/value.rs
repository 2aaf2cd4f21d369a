//! Atoms: typed values of a text, equal by value and not by spelling.

use std::ops::Range;

use crate::atoms::calendar::{Date, Time};
use crate::decimal::Decimal;
use crate::units::Unit;

/// A typed value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Atom {
    /// Bytes of the text.
    pub span: Range<usize>,
    /// The value.
    pub value: Value,
}

/// A value. Two values are equal when they mean the same: `1 km` and `1000 m`, `3 pm` and `15:00`.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number, with or without a unit.
    Number(Quantity),
    /// An amount of money.
    Money {
        /// How much.
        amount: Quantity,
        /// ISO 4217 code; `$` alone is `$`, `¥` alone is `¥`, because several countries use them.
        currency: &'static str,
    },
    /// A share of a hundred.
    Percent(Quantity),
    /// A calendar date, a weekday or a relative day.
    Date(Date),
    /// A time of day.
    Time(Time),
    /// An identifier of the business, by one of the domain patterns.
    Id {
        /// The pattern's name, for example `order`.
        pattern: String,
        /// The identifier, as written but for phone numbers, which lose their separators.
        value: String,
    },
    /// A quotation, without its marks.
    Quoted(String),
    /// Code between back quotes, without them.
    Code(String),
    /// A web address.
    Url(String),
    /// A word that carries meaning by its class: see [`WordClass`]. The text is the class's own label for it.
    Word(WordClass, &'static str),
    /// A name: a capitalised word inside a sentence, an acronym, a currency, a Latin word in a Chinese text.
    Entity(String),
}

/// Classes of words that turn an answer round although they are short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WordClass {
    /// not, never, without, 不, 没
    Negation,
    /// all, some, only, at least, 所有, 至少
    Quantifier,
    /// more, less, before, after, over, 大于, 之前
    Comparison,
    /// can, must, may, should, 可以, 必须
    Modality,
    /// was, did, will, has, 了, 将, 曾
    Tense,
    /// my, your, his, we, 我, 你们
    Person,
    /// if, unless, except, 如果, 除非
    Condition,
    /// to, from, into, 从, 到, 向
    Direction,
    /// who, when, where, how many, 谁, 哪里, 多少
    Question,
}

/// A number with its unit, as written and as a value.
#[derive(Clone, Debug)]
pub struct Quantity {
    /// The number in `unit`.
    pub amount: Decimal,
    /// The unit, if there is one.
    pub unit: Option<&'static Unit>,
    /// Superscript digits behind the number, kept as they are: 10² is not 102.
    pub superscript: String,
    /// Digits written behind the decimal point: version 3.10 is not version 3.1.
    pub places: usize,
    /// Zeros written before the digits of a bare number: postcode 01067 is not 1067. 0 for `0` and `0.5`, and where a
    /// zero means nothing: with a unit, in a date.
    pub zeros: usize,
    /// Whether the number is a version by the name before it, so that its last zero counts: Python 3.10 is not 3.1.
    pub is_version: bool,
    /// The spelling of a scale, a unit or a currency that may mean something else: 4K, 5g, 元. Kept for asks only.
    pub spelling: &'static str,
}

impl Quantity {
    /// A plain number.
    #[must_use]
    pub fn plain(amount: Decimal) -> Quantity {
        Quantity {
            amount,
            unit: None,
            superscript: String::new(),
            places: 0,
            zeros: 0,
            is_version: false,
            spelling: "",
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Quantity) -> bool {
        self.superscript == other.superscript
            && self.zeros == other.zeros
            && (self.places == other.places || !(self.is_version || other.is_version))
            && match (self.unit, other.unit) {
                (Some(one), Some(two)) => {
                    one.dimension == two.dimension && one.to_base(&self.amount) == two.to_base(&other.amount)
                }
                (None, None) => self.amount == other.amount,
                _ => false,
            }
    }
}

impl Value {
    /// The name of the value's type.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Number(_) => "number",
            Value::Money { .. } => "money",
            Value::Percent(_) => "percent",
            Value::Date(_) => "date",
            Value::Time(_) => "time",
            Value::Id { .. } => "id",
            Value::Quoted(_) => "quotation",
            Value::Code(_) => "code",
            Value::Url(_) => "url",
            Value::Entity(_) => "entity",
            Value::Word(class, _) => class.name(),
        }
    }

    /// Whether a form leaves the value out, so that forms that differ in it are one form. Words stay in the form.
    #[must_use]
    pub fn is_slot(&self) -> bool {
        !matches!(self, Value::Word(..) | Value::Entity(_))
    }

    /// The value as text, one spelling for each value *as asked*: the unit and the number of decimal places stay as
    /// they were written, because a question may be about them. Stricter than equality.
    #[must_use]
    pub fn key(&self) -> String {
        match self {
            Value::Number(quantity) => written(quantity),
            Value::Money { amount, currency } => format!("{currency} {}", written(amount)),
            Value::Percent(amount) => format!("{} %", written(amount)),
            Value::Date(date) => date.to_string(),
            Value::Time(time) => time.to_string(),
            Value::Id { pattern, value } => format!("{pattern} {value}"),
            Value::Quoted(text) | Value::Code(text) | Value::Url(text) | Value::Entity(text) => text.clone(),
            Value::Word(_, label) => (*label).to_owned(),
        }
    }

    /// The value as text, one spelling for each value: equal exactly where the values are equal.
    #[must_use]
    pub fn base_key(&self) -> String {
        match self {
            Value::Number(quantity) => base(quantity),
            Value::Money { amount, currency } => format!("{currency} {}", base(amount)),
            Value::Percent(amount) => format!("{} %", base(amount)),
            _ => self.key(),
        }
    }
}

fn written(quantity: &Quantity) -> String {
    let unit = quantity.unit.map_or("", |unit| unit.symbol);
    let zeros = "0".repeat(quantity.zeros);
    let Quantity { amount, places, superscript, spelling, .. } = quantity;
    format!("{zeros}{amount}/{places}{superscript} {unit}{spelling}")
}

fn base(quantity: &Quantity) -> String {
    let Quantity { amount, superscript, places, zeros, .. } = quantity;
    if let Some(unit) = quantity.unit {
        return format!("{}{superscript} {}", unit.to_base(amount), unit.dimension);
    }
    let version = if quantity.is_version { format!("/{places}") } else { String::new() };
    format!("{}{amount}{version}{superscript}", "0".repeat(*zeros))
}

impl WordClass {
    /// The name of the class.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            WordClass::Negation => "negation",
            WordClass::Quantifier => "quantifier",
            WordClass::Comparison => "comparison",
            WordClass::Modality => "modality",
            WordClass::Tense => "tense",
            WordClass::Person => "person",
            WordClass::Condition => "condition",
            WordClass::Direction => "direction",
            WordClass::Question => "question",
        }
    }
}
