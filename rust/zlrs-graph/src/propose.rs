//! What the routes that need a proof make of a request that the *same* route does not answer. Pure, like [`decide`].

use serde::{Deserialize, Serialize};
use zlrs_wire::Reason;
use zlrs_wire::header::Route;

use crate::bound::{ALPHA, upper_limit};
use crate::decide::{Inputs, Outcome, decide};
use crate::gates::Stability;
use crate::lookup::LookupFacts;
use crate::stages::{Draw, Step, falls_into};

/// Whether a proven route is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Not at all.
    Off,
    /// It is compared with the upstream's answers and never served.
    #[default]
    Shadow,
    /// It serves where its bound holds.
    Bounded,
}

/// What is known of the class.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Standing {
    /// The stage.
    pub step: Step,
    /// Trials behind the bound.
    pub trials: u64,
    /// Wrong ones among them.
    pub wrong: u64,
    /// Clean trials in a row.
    pub clean_run: u64,
    /// Whether the count speaks for the rules of this build and for the model that gave the stored answer.
    pub is_current: bool,
}

impl Standing {
    /// Of a class without evidence.
    pub const NOTHING: Self =
        Self { step: Step::Shadow, trials: 0, wrong: 0, clean_run: 0, is_current: true };

    /// U.
    pub fn upper(&self) -> f64 {
        upper_limit(self.trials, self.wrong, ALPHA)
    }
}

/// Everything a proposal depends on. Kept in the audit record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProposalInputs {
    /// What the operator allows.
    pub mode: Mode,
    /// As for the *same* route, with what the store said of the canonical entry.
    pub base: Inputs,
    /// How the stored answer was confirmed.
    pub stability: Stability,
    /// When the node was put in doubt, if ever.
    pub doubted_ms: Option<u64>,
    /// The guard that keeps the two wordings apart, if one does.
    pub guard: Option<String>,
    /// Whether the entry's own schedule wants a check.
    #[serde(default)]
    pub is_due: bool,
    /// The class.
    pub standing: Standing,
    /// The accepted rate of wrong answers per hit.
    pub limit: f64,
    /// The draws of the request.
    pub draw: Draw,
    /// Whether evidence can be written: what cannot be counted is not served.
    pub evidence_in_service: bool,
}

/// What is done over the route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Proposal {
    /// Nothing: the route has no usable answer. The reason is the *same* route's name for it.
    Nothing(Nothing),
    /// Forward; the fresh answer shows whether the stored one is stable.
    Learn,
    /// Forward, and count whether the stored answer would have been right.
    Trial,
    /// Serve the stored answer.
    Serve {
        /// And ask upstream in the background.
        recheck: bool,
    },
}

/// Why nothing is proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Nothing {
    /// The route is off.
    Off,
    /// Nothing is stored for the form and these values.
    NoEntry,
    /// What is stored may not be served: too old, of other rules, not by this credential.
    NotServable,
    /// A guard keeps the wordings apart.
    Guard,
    /// The forms are not near enough to be looked at.
    NotNear,
    /// The edge was wrong once.
    Closed,
}

/// Proposes over the *canonical* route. Constant time but for the length of a guard's name; reads nothing but its
/// argument.
pub fn propose(inputs: &ProposalInputs) -> Proposal {
    propose_over(Route::Canonical, inputs)
}

/// The rules that both routes share.
pub(crate) fn propose_over(route: Route, inputs: &ProposalInputs) -> Proposal {
    if inputs.mode == Mode::Off {
        return Proposal::Nothing(Nothing::Off);
    }
    let is_overdue = match decide(&inputs.base) {
        Outcome::Hit => false,
        // It may not be served, and being compared is what it waits for.
        Outcome::Miss(refusal) if refusal.reason == Reason::Recheck => true,
        Outcome::Miss(refusal) if refusal.reason == Reason::NoEntry => {
            return Proposal::Nothing(Nothing::NoEntry);
        }
        Outcome::Miss(_) | Outcome::Skipped(_) => return Proposal::Nothing(Nothing::NotServable),
    };
    let LookupFacts::Found(entry) = inputs.base.lookup else {
        return Proposal::Nothing(Nothing::NoEntry);
    };
    if !entry.versions.serve(route) {
        return Proposal::Nothing(Nothing::NotServable);
    }
    if inputs.guard.is_some() {
        return Proposal::Nothing(Nothing::Guard);
    }
    if !inputs.stability.is_stable(inputs.doubted_ms) {
        return Proposal::Learn;
    }
    let standing = &inputs.standing;
    let may_serve = inputs.mode == Mode::Bounded
        && !is_overdue
        && inputs.evidence_in_service
        && standing.is_current
        && standing.upper() <= inputs.limit
        && falls_into(inputs.draw.serve, standing.step.serve_share());
    if !may_serve {
        return Proposal::Trial;
    }
    let share = standing.step.check_share(standing.clean_run);
    Proposal::Serve { recheck: inputs.is_due || falls_into(inputs.draw.check, share) }
}
