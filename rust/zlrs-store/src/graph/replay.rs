//! Decisions made again from their audit records.

use serde_json::Value;
use zlrs_graph::{EdgeInputs, Inputs, Outcome, Proposal, ProposalInputs, decide, propose, propose_edge};

/// A decision, as it was recorded and as the same inputs give it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// What the record says was done.
    pub recorded: String,
    /// What this build does with the record's inputs.
    pub repeated: String,
}

impl Repeated {
    /// Whether both are the same.
    pub fn holds(&self) -> bool {
        self.recorded == self.repeated
    }
}

/// Why a record cannot be repeated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// It is not one of a decision.
    #[error("the record is of kind {kind:?}; only a decision can be repeated")]
    Kind {
        /// What it is.
        kind: String,
    },
    /// Its inputs are not those of this build.
    #[error("the record's inputs cannot be read: {0}; it was written by another version")]
    Inputs(#[from] serde_json::Error),
}

/// Repeats the decision of an audit record's body. Reads nothing else.
///
/// # Errors
/// When the record is of another kind or of another version.
pub fn repeat(body: &Value) -> Result<Repeated, ReplayError> {
    if body["kind"] != "decision" {
        return Err(ReplayError::Kind { kind: body["kind"].as_str().unwrap_or("?").to_owned() });
    }
    let inputs: Inputs = serde_json::from_value(body["inputs"].clone())?;
    let mut outcome = decide(&inputs);
    let mut proposal = Value::Null;
    if let Some(canonical) = body.get("canonical") {
        let inputs: ProposalInputs = serde_json::from_value(canonical["inputs"].clone())?;
        let repeated = propose(&inputs);
        if matches!(repeated, Proposal::Serve { .. }) {
            outcome = Outcome::Hit;
        }
        proposal = serde_json::to_value(repeated)?;
    }
    let mut over_edge = Value::Null;
    if let Some(edge) = body.get("edge") {
        let inputs: EdgeInputs = serde_json::from_value(edge["inputs"].clone())?;
        let repeated = propose_edge(&inputs);
        if matches!(repeated, Proposal::Serve { .. }) {
            outcome = Outcome::Hit;
        }
        over_edge = serde_json::to_value(repeated)?;
    }
    let describe = |outcome: &str, reason: Option<&str>, proposal: &Value, over_edge: &Value| {
        let mut text = outcome.to_owned();
        if let Some(reason) = reason {
            text = format!("{text};reason={reason}");
        }
        if !proposal.is_null() {
            text = format!("{text};canonical={proposal}");
        }
        if !over_edge.is_null() {
            text = format!("{text};edge={over_edge}");
        }
        text
    };
    Ok(Repeated {
        recorded: describe(
            body["outcome"].as_str().unwrap_or("?"),
            body["reason"].as_str(),
            body.get("canonical").map_or(&Value::Null, |canonical| &canonical["proposal"]),
            body.get("edge").map_or(&Value::Null, |edge| &edge["proposal"]),
        ),
        repeated: describe(
            outcome.kind().name(),
            outcome.refusal().map(|refusal| refusal.reason.name()),
            &proposal,
            &over_edge,
        ),
    })
}
