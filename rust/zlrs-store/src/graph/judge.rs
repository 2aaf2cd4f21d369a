//! A judge: what decides whether two answers say the same where the rules cannot.
//!
//! It is asked twice, with the answers in either order, and must call them equivalent both times; anything else leaves
//! the comparison undecided, which counts as wrong. Its own error is part of every bound it takes part in: without a
//! measured one it is asked and recorded, and changes nothing.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use zlrs_graph::{Agreement, Digest, Route};

use super::compare::{FALSE_AGREE, agree_by_rules};
use super::{Decision, Graph, record};

/// What a judge says of two answers to one ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They say the same.
    Equivalent,
    /// They do not.
    Different,
    /// It does not know.
    Unsure,
    /// It gave no verdict: an error, or too late.
    Failed,
}

impl Verdict {
    /// The name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Equivalent => "equivalent",
            Self::Different => "different",
            Self::Unsure => "unsure",
            Self::Failed => "failed",
        }
    }
}

/// Compares two answers. May take its time, within its own time-out: nobody waits but the thread that settles.
pub trait Judge: Send + Sync {
    /// Whether `one` and `other` say the same in answer to `ask`.
    fn verdict(&self, ask: &str, one: &str, other: &str) -> Verdict;
}

/// A judge with what is known of it.
#[derive(Clone)]
pub struct Appointed {
    /// What is asked.
    pub judge: Arc<dyn Judge>,
    /// Its name and version. Evidence gathered with another one does not count.
    pub name: String,
    /// The upper limit (95 %) of the part of wrong pairs that it calls equivalent twice, as measured. Without one it
    /// changes nothing.
    pub false_equivalent: Option<f64>,
}

/// The largest error with which a judge counts: a bound divides by what is left.
const FALSE_EQUIVALENT_MAX: f64 = 0.05;

/// A verdict for the audit log.
pub(super) struct Judged {
    pub name: String,
    pub verdict: Verdict,
    /// Whether it changes anything.
    pub counts: bool,
    pub calls: u32,
    pub milliseconds: u64,
}

impl Appointed {
    fn counts(&self) -> bool {
        self.false_equivalent.is_some_and(|error| (0.0..=FALSE_EQUIVALENT_MAX).contains(&error))
    }
}

impl Graph {
    /// Appoints a judge, or dismisses the one there is.
    pub fn appoint(&self, judge: Option<Appointed>) {
        *self.judge.write().unwrap_or_else(PoisonError::into_inner) = judge;
    }

    fn appointed(&self) -> Option<Appointed> {
        self.judge.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The greatest part of wrong answers that a comparison may take for agreeing ones.
    pub(super) fn false_agree(&self) -> f64 {
        let judge = self.judge.read().unwrap_or_else(PoisonError::into_inner);
        let error = judge.as_ref().filter(|judge| judge.counts()).and_then(|judge| judge.false_equivalent);
        error.unwrap_or(0.0).max(FALSE_AGREE)
    }

    /// What counts depend on beside the class: the fingerprint on the edge route, and a judge that counts.
    pub(super) fn means(&self, route: Route) -> Vec<u8> {
        let mut means = Vec::new();
        if route == Route::Edge {
            means.extend_from_slice(self.network_name.as_bytes());
        }
        means.extend(self.judge_name().into_bytes());
        let patterns = self.extractor.patterns_id();
        if !patterns.is_empty() {
            means.extend_from_slice(Digest::of(&patterns).as_bytes());
        }
        means
    }

    /// The name of the judge that counts; empty for none.
    pub(super) fn judge_name(&self) -> String {
        let judge = self.judge.read().unwrap_or_else(PoisonError::into_inner);
        judge.as_ref().filter(|judge| judge.counts()).map_or_else(String::new, |judge| judge.name.clone())
    }

    /// Compares two answers: by rules, and where these do not decide, by the judge.
    pub(super) fn compare(&self, decision: &Decision, ask: &str, stored: &str, fresh: &str) -> Agreement {
        let by_rules = agree_by_rules(ask, stored, fresh);
        if by_rules != Agreement::Undecided {
            return by_rules;
        }
        let Some(appointed) = self.appointed() else { return by_rules };
        let started = Instant::now();
        let mut calls = 1;
        let mut verdict = appointed.judge.verdict(ask, stored, fresh);
        if verdict == Verdict::Equivalent {
            calls = 2;
            verdict = appointed.judge.verdict(ask, fresh, stored);
        }
        let milliseconds = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let counters = &self.counts;
        counters.judge_calls.fetch_add(u64::from(calls), Ordering::Relaxed);
        counters.judge_ms.fetch_add(milliseconds, Ordering::Relaxed);
        let counter = match verdict {
            Verdict::Equivalent => &counters.judge_equivalent,
            Verdict::Different => &counters.judge_different,
            Verdict::Unsure => &counters.judge_unsure,
            Verdict::Failed => &counters.judge_failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let counts = appointed.counts();
        self.keep_record(&record::judged(
            decision,
            &Judged { name: appointed.name, verdict, counts, calls, milliseconds },
        ));
        if counts && verdict == Verdict::Equivalent { Agreement::Agree } else { by_rules }
    }
}
