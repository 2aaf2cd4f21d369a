//! The *edge* route: an answer to another form of the question, near by its fingerprint. Pure, like
//! [`propose`](crate::propose()).
//!
//! A fingerprint finds where to look. What may be served is decided by what does not ask the fingerprint: values that
//! are equal, guards that see nothing, an edge that has proven itself, and the bound of its class.

use serde::{Deserialize, Serialize};
use zlrs_wire::header::Route;

use crate::propose::{Nothing, Proposal, ProposalInputs, propose_over};
use crate::{Digest, EdgeRecord, Mode};

/// Everything a proposal over an edge depends on. Kept in the audit record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EdgeInputs {
    /// As for the *canonical* route, with what the store said of the other form's entry under the same values.
    pub entry: ProposalInputs,
    /// The cosine of the two forms' fingerprints, in millionths.
    pub cosine_millionths: i32,
    /// The least one that is looked at, in millionths: [`explore_threshold`](crate::explore_threshold) at the load.
    pub least_millionths: i32,
    /// What the edge has shown.
    pub record: EdgeRecord,
}

/// Proposes over an edge. Where the edge has not proven itself, the fresh answer teaches and counts for the edge alone;
/// the evidence of the class takes what policy would have served. Constant time; reads nothing but its argument.
pub fn propose_edge(inputs: &EdgeInputs) -> Proposal {
    if inputs.entry.mode == Mode::Off {
        return Proposal::Nothing(Nothing::Off);
    }
    if inputs.cosine_millionths < inputs.least_millionths {
        return Proposal::Nothing(Nothing::NotNear);
    }
    if inputs.record.is_closed() {
        return Proposal::Nothing(Nothing::Closed);
    }
    match propose_over(Route::Edge, &inputs.entry) {
        // An answer that is not known to be stable shows nothing about two forms.
        Proposal::Learn => Proposal::Nothing(Nothing::NotServable),
        Proposal::Trial | Proposal::Serve { .. } if !inputs.record.is_open() => Proposal::Learn,
        other => other,
    }
}

/// Two forms that an edge joins, whichever comes first.
#[derive(Clone, Copy, Debug)]
pub struct EdgeEnds<'e> {
    /// Whose asks.
    pub tenant: &'e Digest,
    /// The upstream, as configured.
    pub upstream: &'e str,
    /// The model that is asked for.
    pub model: &'e str,
    /// Where the ask stands in a conversation: everything before it. What two wordings share there says nothing about
    /// another conversation. Empty for a first ask, where the forms stand alone.
    pub context: &'e [u8],
    /// What compares: versions of the rules, and the judge.
    pub means: &'e [u8],
    /// One form's template.
    pub one: &'e Digest,
    /// The other's.
    pub other: &'e Digest,
}

impl EdgeEnds<'_> {
    /// The edge's name.
    pub fn edge(&self, key: &[u8; 32]) -> Digest {
        let (low, high) = (self.one.min(self.other), self.one.max(self.other));
        Digest::keyed(
            key,
            [
                b"edge".as_slice(),
                self.tenant.as_bytes(),
                self.upstream.as_bytes(),
                self.model.as_bytes(),
                self.context,
                self.means,
                low.as_bytes(),
                high.as_bytes(),
            ],
        )
    }
}
