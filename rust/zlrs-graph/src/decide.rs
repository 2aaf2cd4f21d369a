//! The decision, pure: the same inputs give the same outcome, today and when an audit record is replayed.

use serde::{Deserialize, Serialize};
use zlrs_wire::header::{DecisionKind, Route};
use zlrs_wire::{Reason, Refusal};

use crate::credential::Credential;
use crate::lookup::LookupFacts;

/// How far the clock may run back between two requests without meaning anything: callers read it on several threads.
pub const CLOCK_SLACK_MS: u64 = 2_000;

/// Everything a decision depends on. Kept in the audit record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inputs {
    /// Why the request is not eligible, if it is not.
    #[serde(with = "refusal_text")]
    pub refusal: Option<Refusal>,
    /// Whether store and audit log are in service.
    pub in_service: bool,
    /// What the store said.
    pub lookup: LookupFacts,
    /// Why the stored answer cannot be given in the form asked for, if it cannot.
    #[serde(with = "refusal_text")]
    pub unfit: Option<Refusal>,
    /// What the upstream last said to this tenant.
    pub credential: Credential,
    /// How lately it must have accepted the tenant, milliseconds; none where it need not.
    pub credential_window_ms: Option<u64>,
    /// How long an answer is served, milliseconds.
    pub ttl_ms: u64,
    /// When the answer was first served after it was last asked for upstream, Unix milliseconds; none where it was not.
    #[serde(default)]
    pub unchecked_ms: Option<u64>,
    /// How long after that it may still be served, milliseconds; none where answers are not asked for again.
    #[serde(default)]
    pub check_within_ms: Option<u64>,
    /// The time of the request, Unix milliseconds.
    pub now_ms: u64,
    /// The latest time this graph has seen.
    pub latest_ms: u64,
}

/// What is done with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Answered from the graph.
    Hit,
    /// Eligible, and goes upstream.
    Miss(Refusal),
    /// Not eligible, or the graph is out of service; goes upstream.
    Skipped(Refusal),
}

impl Outcome {
    /// The word in the header.
    pub const fn kind(&self) -> DecisionKind {
        match self {
            Self::Hit => DecisionKind::Hit,
            Self::Miss(_) => DecisionKind::Miss,
            Self::Skipped(_) => DecisionKind::Skipped,
        }
    }

    /// Why not, for what is no hit.
    pub const fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Hit => None,
            Self::Miss(refusal) | Self::Skipped(refusal) => Some(refusal),
        }
    }
}

/// Decides. Constant time; reads nothing but its argument.
pub fn decide(inputs: &Inputs) -> Outcome {
    if let Some(refusal) = &inputs.refusal {
        return Outcome::Skipped(refusal.clone());
    }
    if !inputs.in_service {
        return Outcome::Skipped(Refusal::whole(Reason::StoreUnavailable));
    }
    match against_a_hit(inputs) {
        Some(refusal) => Outcome::Miss(refusal),
        None => Outcome::Hit,
    }
}

fn against_a_hit(inputs: &Inputs) -> Option<Refusal> {
    let whole = |reason| Some(Refusal::whole(reason));
    let entry = match inputs.lookup {
        LookupFacts::Found(entry) => entry,
        LookupFacts::Absent | LookupFacts::NotAsked => return whole(Reason::NoEntry),
        LookupFacts::Expired => return whole(Reason::Expired),
        LookupFacts::Corrupt => return whole(Reason::StoreCorrupt),
        LookupFacts::Slow | LookupFacts::Behind | LookupFacts::Unavailable => {
            return whole(Reason::StoreUnavailable);
        }
    };
    if !entry.versions.serve(Route::Same) {
        return whole(Reason::NoEntry);
    }
    if let Some(window_ms) = inputs.credential_window_ms {
        let Credential { accepted_ms, refused_ms } = inputs.credential;
        // Some(_) is greater than None, and an acceptance of the same moment does not outweigh a refusal.
        if refused_ms.is_some() && refused_ms >= accepted_ms {
            return whole(Reason::CredentialLocked);
        }
        // Wide, so that no time a caller can give overflows.
        let fresh = accepted_ms.is_some_and(|accepted_ms| {
            let age_ms = i128::from(inputs.now_ms) - i128::from(accepted_ms);
            (-i128::from(CLOCK_SLACK_MS)..=i128::from(window_ms)).contains(&age_ms)
        });
        if !fresh {
            return whole(Reason::CredentialUnproven);
        }
    }
    // An age is only known on a clock that has not been set back since.
    let ran_back = inputs.now_ms.saturating_add(CLOCK_SLACK_MS) < inputs.latest_ms;
    let Some(age_ms) = inputs.now_ms.checked_sub(entry.created_ms).filter(|_| !ran_back) else {
        return whole(Reason::ClockBackward);
    };
    if age_ms >= inputs.ttl_ms || inputs.now_ms >= entry.expires_ms {
        return whole(Reason::Expired);
    }
    if let (Some(since_ms), Some(within_ms)) = (inputs.unchecked_ms, inputs.check_within_ms)
        && inputs.now_ms.saturating_sub(since_ms) >= within_ms
    {
        return whole(Reason::Recheck);
    }
    inputs.unfit.clone()
}

/// A refusal as `null` or `[name, path]`.
mod refusal_text {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
    use zlrs_wire::{Reason, Refusal};

    #[expect(clippy::ref_option, reason = "the signature serde calls")]
    pub fn serialize<S: Serializer>(refusal: &Option<Refusal>, serializer: S) -> Result<S::Ok, S::Error> {
        refusal.as_ref().map(|refusal| (refusal.reason.name(), &refusal.path)).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Refusal>, D::Error> {
        let Some((name, path)) = Option::<(String, String)>::deserialize(deserializer)? else {
            return Ok(None);
        };
        let reason = Reason::ALL
            .iter()
            .find(|reason| reason.name() == name)
            .ok_or_else(|| D::Error::custom(format!("unknown reason {name:?}")))?;
        Ok(Some(Refusal::new(*reason, path)))
    }
}
