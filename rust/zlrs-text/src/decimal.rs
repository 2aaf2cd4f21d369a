//! Exact decimal numbers of any length, compared by value.

use std::fmt;

/// A decimal number: `sign × digits × 10^exponent`. Never rounded; `1.50` and `1.5` are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Decimal {
    negative: bool,
    /// ASCII digits without zeros at either end; empty for zero.
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// Reads `[+-]digits[.digits][e[+-]digits]` in ASCII. `None` for anything else and for exponents beyond ±10⁶.
    #[must_use]
    pub fn parse(text: &str) -> Option<Decimal> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (mantissa, power) = match rest.find(['e', 'E']) {
            Some(at) => (&rest[..at], rest[at + 1..].parse::<i64>().ok()?),
            None => (rest, 0),
        };
        if power.abs() > 1_000_000 {
            return None;
        }
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let is_number = !(whole.is_empty() && fraction.is_empty())
            && whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit())
            && !mantissa.ends_with('.');
        is_number.then(|| Decimal::new(negative, format!("{whole}{fraction}"), power - fraction.len() as i64))
    }

    fn new(negative: bool, mut digits: String, mut exponent: i64) -> Decimal {
        let kept = digits.trim_end_matches('0').len();
        exponent += (digits.len() - kept) as i64;
        digits.truncate(kept);
        let leading = digits.len() - digits.trim_start_matches('0').len();
        digits.drain(..leading);
        if digits.is_empty() {
            return Decimal { negative: false, digits, exponent: 0 };
        }
        Decimal { negative, digits, exponent }
    }

    /// The number `value`.
    #[must_use]
    pub fn from_integer(value: u64) -> Decimal {
        Decimal::new(false, value.to_string(), 0)
    }

    /// The number with the other sign.
    #[must_use]
    pub fn negated(mut self) -> Decimal {
        self.negative = !self.negative && !self.digits.is_empty();
        self
    }

    /// The exact product. Time is the product of the two lengths.
    #[must_use]
    pub fn times(&self, other: &Decimal) -> Decimal {
        let mut sums = vec![0_u64; self.digits.len() + other.digits.len()];
        for (i, a) in self.digits.bytes().rev().enumerate() {
            let mut carry = 0;
            for (j, b) in other.digits.bytes().rev().enumerate() {
                let sum = sums[i + j] + u64::from(a - b'0') * u64::from(b - b'0') + carry;
                sums[i + j] = sum % 10;
                carry = sum / 10;
            }
            if carry > 0 {
                sums[i + other.digits.len()] += carry;
            }
        }
        let digits = sums.iter().rev().map(|digit| char::from(b'0' + *digit as u8)).collect();
        Decimal::new(self.negative != other.negative, digits, self.exponent + other.exponent)
    }

    /// The number times `10^power`.
    #[must_use]
    pub fn shifted(mut self, power: i64) -> Decimal {
        if !self.digits.is_empty() {
            self.exponent += power;
        }
        self
    }

    /// Whether the number is below zero.
    #[must_use]
    pub fn is_negative(&self) -> bool {
        self.negative
    }
}

impl fmt::Display for Decimal {
    /// The one canonical spelling: `[-]digits[e±exponent]`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.negative { "-" } else { "" };
        let digits = if self.digits.is_empty() { "0" } else { &self.digits };
        if self.exponent == 0 {
            write!(out, "{sign}{digits}")
        } else {
            write!(out, "{sign}{digits}e{}", self.exponent)
        }
    }
}
