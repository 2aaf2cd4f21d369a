//! Evidence: what trials have shown for one class of asks. Classes never mix routes, tenants or upstream models.

use serde::{Deserialize, Serialize};
use zlrs_wire::header::Route;

use crate::alarm::Alarm;
use crate::bound::{ALPHA, upper_limit};
use crate::route::{Versions, route_code};
use crate::stages::{Observation, Progress, Step};
use crate::{Digest, Preset};

/// Whether answers of a class are of a kind with an exact comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerKind {
    /// JSON, code, a number, yes or no, a choice.
    Closed,
    /// Anything else.
    Prose,
}

/// Asks whose errors are counted together.
#[derive(Clone, Copy, Debug)]
pub struct Class<'c> {
    /// The claim.
    pub route: Route,
    /// The set of canonical rules, by the number of its name: 1 for C1, 2 for C2.
    pub rules: u8,
    /// Of the stored answer.
    pub kind: AnswerKind,
    /// Of the ask, as a short name.
    pub language: &'c str,
    /// Whose asks.
    pub tenant: &'c Digest,
    /// The upstream, as configured.
    pub upstream: &'c str,
    /// The model that is asked for. Which version of it answers is part of the pool.
    pub model: &'c str,
    /// What else the count depends on: the fingerprint that proposes, the judge that compares. Empty for neither.
    pub means: &'c [u8],
}

impl Class<'_> {
    /// The pool's name.
    pub fn pool(&self, key: &[u8; 32]) -> Digest {
        let kind = match self.kind {
            AnswerKind::Closed => 1,
            AnswerKind::Prose => 2,
        };
        let class = [route_code(self.route), self.rules, kind];
        let mut parts = vec![
            b"evidence".as_slice(),
            &class,
            self.language.as_bytes(),
            self.tenant.as_bytes(),
            self.upstream.as_bytes(),
            self.model.as_bytes(),
        ];
        if !self.means.is_empty() {
            parts.push(self.means);
        }
        Digest::keyed(key, parts)
    }
}

/// How a comparison ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    /// The same answer.
    Agree,
    /// Another answer.
    Contradict,
    /// Neither is certain. Counts as wrong.
    Undecided,
}

impl Agreement {
    /// The name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agree => "agree",
            Self::Contradict => "contradict",
            Self::Undecided => "undecided",
        }
    }
}

/// Why a trial was wrong. All of them count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The two wordings have different answers.
    Merge,
    /// The answer has changed since it was stored.
    Stale,
    /// The upstream does not say the same thing twice.
    Unstable,
    /// The stored wording was not asked again.
    Unknown,
}

impl Cause {
    /// Every cause, in the order of [`Pool::causes`].
    pub const ALL: [Self; 4] = [Self::Merge, Self::Stale, Self::Unstable, Self::Unknown];

    /// The name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Merge => "merge",
            Self::Stale => "stale",
            Self::Unstable => "unstable",
            Self::Unknown => "unknown",
        }
    }

    /// The cause, from a fresh answer to the *stored* wording: whether that agrees with the stored answer, and
    /// whether it agrees with the fresh answer that did not. `None` where it was not asked.
    pub const fn of(reasked: Option<(Agreement, Agreement)>) -> Self {
        match reasked {
            None => Self::Unknown,
            Some((Agreement::Agree, _)) => Self::Merge,
            Some((_, Agreement::Agree)) => Self::Stale,
            Some(_) => Self::Unstable,
        }
    }
}

/// One comparison of what would have been served, or was, with what the upstream says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// None for a clean one.
    pub wrong: Option<Cause>,
    /// The stored answer was served, and checked afterwards.
    pub was_served: bool,
}

/// The rules under which trials move a pool's stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// The operator lets the route serve.
    pub may_serve: bool,
    /// The accepted rate of wrong answers per hit.
    pub preset: Preset,
}

/// What is known of one class. Bound, alarm and stage belong to one version of rules and of the upstream's model; the
/// totals go on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// The rules it was gathered under.
    pub versions: Versions,
    /// The served model's own name, hashed.
    pub model_version: Digest,
    /// Trials since the count began.
    pub trials: u64,
    /// Wrong ones among them.
    pub wrong: u64,
    /// Clean trials since the last wrong one.
    pub clean_run: u64,
    /// The freshness alarm.
    pub alarm: Alarm,
    /// The stage.
    pub progress: Progress,
    /// When the count began, Unix milliseconds.
    pub since_ms: u64,
    /// Trials ever.
    pub total_trials: u64,
    /// Wrong ones ever, by [`Cause::ALL`].
    pub causes: [u64; 4],
    /// How often the count began anew.
    pub restarts: u64,
    /// How often it was sent back to shadow.
    pub demotions: u64,
}

impl Pool {
    /// An empty pool.
    pub fn new(model_version: Digest, now_ms: u64) -> Self {
        Self {
            versions: Versions::CURRENT,
            model_version,
            trials: 0,
            wrong: 0,
            clean_run: 0,
            alarm: Alarm::default(),
            progress: Progress::default(),
            since_ms: now_ms,
            total_trials: 0,
            causes: [0; 4],
            restarts: 0,
            demotions: 0,
        }
    }

    /// Whether its count speaks for these rules and this version of the upstream's model.
    pub fn speaks_for(&self, model_version: &Digest) -> bool {
        self.versions == Versions::CURRENT && self.model_version == *model_version
    }

    /// The upper limit of the mean error rate.
    pub fn upper(&self) -> f64 {
        upper_limit(self.trials, self.wrong, ALPHA)
    }

    /// Begins the count anew; the totals stay.
    fn restart(&mut self, model_version: Digest, now_ms: u64) {
        let (total_trials, causes, demotions) = (self.total_trials, self.causes, self.demotions);
        let restarts = self.restarts + 1;
        *self = Self {
            total_trials,
            causes,
            demotions,
            restarts,
            progress: Progress { step: self.progress.step.min(Step::Shadow), clean: 0 },
            ..Self::new(model_version, now_ms)
        };
    }

    /// A fresh answer came from this version of the upstream's model; another one than before restarts the count.
    pub fn note_model(&mut self, model_version: &Digest, now_ms: u64) {
        if !self.speaks_for(model_version) {
            self.demotions += u64::from(self.progress.step > Step::Shadow);
            self.restart(*model_version, now_ms);
        }
    }

    /// Takes in a trial. The alarm begins the count anew, because the long average is what has hidden the change.
    pub fn observe(&mut self, trial: Trial, policy: Policy, now_ms: u64) {
        let is_wrong = trial.wrong.is_some();
        self.trials += 1;
        self.total_trials += 1;
        self.wrong += u64::from(is_wrong);
        self.clean_run = if is_wrong { 0 } else { self.clean_run + 1 };
        if let Some(at) = Cause::ALL.iter().position(|cause| Some(*cause) == trial.wrong) {
            self.causes[at] += 1;
        }
        let alarm = self.alarm.observe(is_wrong);
        let before = self.progress.step;
        self.progress = self.progress.after(Observation {
            is_wrong,
            was_served: trial.was_served,
            bound_holds: self.upper() <= policy.preset.limit(),
            alarm,
            may_serve: policy.may_serve,
        });
        self.demotions += u64::from(before > self.progress.step && before > Step::Shadow);
        if alarm {
            self.restart(self.model_version, now_ms);
        }
    }
}
