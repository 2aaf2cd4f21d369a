//! The graph's settings: one strict JSON object, unknown keys refused, every range checked.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use zlrs_text::{DomainPattern, Extractor, TextError};

use crate::{Mode, Preset};

/// The highest temperature a limit may allow: above it two answers to one request are expected to differ.
const TEMPERATURE_LIMIT_MAX: f64 = 0.1;
const DAY_S: u64 = 86_400;
const MIB: u64 = 1 << 20;

/// Why settings were refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// Not the JSON object that is expected: syntax, an unknown key, a value of another type.
    #[error("graph settings: {0}; correct the key or its value")]
    Shape(#[from] serde_json::Error),
    /// A pattern that cannot be used.
    #[error("graph settings: {0}")]
    Pattern(#[from] TextError),
    /// A value outside its range.
    #[error("graph settings: {name} is {given}, allowed is {allowed}")]
    Range {
        /// The key.
        name: &'static str,
        /// What was given.
        given: String,
        /// The range, for people.
        allowed: String,
    },
}

/// What a request without `temperature` is. Both protocols define it as 1.0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AbsentTemperature {
    /// Not eligible, as the protocols say.
    #[default]
    NotEligible,
    /// Eligible: the operator accepts that one of the possible answers is repeated.
    Eligible,
}

/// Settings of a decision graph. Every field has a default, so `{}` is a whole file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, each with its name")]
pub struct Settings {
    /// Whether the *same* route serves and stores.
    pub same: bool,
    /// How long an answer is served, seconds, 1 to 30 days.
    pub ttl_s: u64,
    /// Largest answer that is stored, bytes, up to 64 MiB.
    pub max_answer_bytes: u64,
    /// Longest ask that is looked up, characters, up to 10 million.
    pub max_ask_chars: u64,
    /// Highest eligible temperature, 0 to 0.1.
    pub temperature_limit: f64,
    /// What a request without a temperature is.
    pub absent_temperature: AbsentTemperature,
    /// Whether a hit needs a credential that the upstream accepted lately. Off only where the graph's owner is the
    /// upstream itself.
    pub credential_check: bool,
    /// How lately, seconds, 1 to one day.
    pub credential_window_s: u64,
    /// Entries kept, up to 100 million.
    pub max_entries: u64,
    /// Bytes kept on disk (in memory without a disk).
    pub max_bytes: u64,
    /// Bytes of answers kept in memory in front of the disk.
    pub body_cache_bytes: u64,
    /// How long a lookup may take before it is a miss, milliseconds, 1 to 1000.
    pub read_deadline_ms: u64,
    /// Whether decisions are written to the audit log. Needs a directory.
    pub audit: bool,
    /// Whether wordings that differ by the canonical rules only are compared, or served where their bound holds.
    pub canonical: Mode,
    /// Whether the built-in patterns of business identifiers (orders, invoices, tickets, phones, …) are values of a form.
    pub built_in_patterns: bool,
    /// Further patterns, by name: regular expressions whose group `id`, or whole match, is a value of a form.
    pub patterns: BTreeMap<String, String>,
    /// Names of patterns, built in or of `patterns`, that are not looked for.
    pub patterns_off: Vec<String>,
    /// Whether forms that look alike are compared, or served where their edge is open and their bound holds. Needs
    /// `canonical` in shadow at least, whose entries it looks at.
    pub edge: Mode,
    /// Forms remembered for it, up to 10 million.
    pub max_forms: u64,
    /// The accepted rate of wrong answers per hit of the routes that need a proof.
    pub preset: Preset,
    /// Whether served answers are asked for again in the background. Off only where the graph's owner is the upstream
    /// itself.
    pub recheck: bool,
    /// Youngest age at which an answer is asked for again, seconds, up to one day.
    pub recheck_least_age_s: u64,
    /// Longest time an answer is served without being asked for again, seconds, up to an hour.
    pub recheck_every_s: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            same: true,
            ttl_s: DAY_S,
            max_answer_bytes: MIB,
            max_ask_chars: 200_000,
            temperature_limit: TEMPERATURE_LIMIT_MAX,
            absent_temperature: AbsentTemperature::NotEligible,
            credential_check: true,
            credential_window_s: 900,
            max_entries: 1_000_000,
            max_bytes: 1024 * MIB,
            body_cache_bytes: 24 * MIB,
            read_deadline_ms: 5,
            audit: true,
            canonical: Mode::Shadow,
            built_in_patterns: true,
            patterns: BTreeMap::new(),
            patterns_off: Vec::new(),
            edge: Mode::Off,
            max_forms: 200_000,
            preset: Preset::Strict,
            recheck: true,
            recheck_least_age_s: 60,
            recheck_every_s: 3600,
        }
    }
}

impl Settings {
    /// Reads a JSON object.
    ///
    /// # Errors
    /// [`SettingsError`] for anything but an object of known keys with values in their ranges.
    pub fn from_json(json: &[u8]) -> Result<Self, SettingsError> {
        let settings: Self = serde_json::from_slice(json)?;
        settings.check()?;
        Ok(settings)
    }

    /// What finds the values of a form.
    ///
    /// # Errors
    /// [`SettingsError::Pattern`].
    pub fn extractor(&self) -> Result<Extractor, SettingsError> {
        let patterns = self.patterns.iter().map(|(name, source)| DomainPattern::new(name, source));
        let extractor = Extractor::new(patterns.collect::<Result<_, _>>()?)?;
        let extractor = if self.built_in_patterns { extractor } else { extractor.without_built_in() };
        Ok(extractor.without(&self.patterns_off)?)
    }

    fn check(&self) -> Result<(), SettingsError> {
        self.extractor()?;
        let whole = [
            ("ttl_s", self.ttl_s, 1, 30 * DAY_S),
            ("max_answer_bytes", self.max_answer_bytes, 1, 64 * MIB),
            ("max_ask_chars", self.max_ask_chars, 1, 10_000_000),
            ("credential_window_s", self.credential_window_s, 1, DAY_S),
            ("max_entries", self.max_entries, 1, 100_000_000),
            ("max_bytes", self.max_bytes, MIB, 1 << 50),
            ("body_cache_bytes", self.body_cache_bytes, 0, 1 << 50),
            ("read_deadline_ms", self.read_deadline_ms, 1, 1000),
            ("recheck_least_age_s", self.recheck_least_age_s, 0, DAY_S),
            ("recheck_every_s", self.recheck_every_s, 1, 3600),
            ("max_forms", self.max_forms, 1, 10_000_000),
        ];
        for (name, given, least, most) in whole {
            if !(least..=most).contains(&given) {
                let (given, allowed) = (given.to_string(), format!("{least} to {most}"));
                return Err(SettingsError::Range { name, given, allowed });
            }
        }
        if self.edge != Mode::Off && self.canonical == Mode::Off {
            return Err(SettingsError::Range {
                name: "canonical",
                given: "off".to_owned(),
                allowed: "shadow or bounded where edge is not off".to_owned(),
            });
        }
        if !(0.0..=TEMPERATURE_LIMIT_MAX).contains(&self.temperature_limit) {
            return Err(SettingsError::Range {
                name: "temperature_limit",
                given: self.temperature_limit.to_string(),
                allowed: format!("0 to {TEMPERATURE_LIMIT_MAX}"),
            });
        }
        Ok(())
    }
}
