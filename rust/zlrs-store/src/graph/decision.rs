//! What was decided about one request.

use std::time::Duration;

use zlrs_graph::{Digest, Outcome};
use zlrs_wire::header::{Bound, DecisionKind, DecisionValue, Route, Stage};
use zlrs_wire::replay::Form;
use zlrs_wire::scope::NodeKey;
use zlrs_wire::{Protocol, Reason, Refusal};

/// Names of an eligible request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Keys {
    pub tenant: Digest,
    pub scope: Digest,
    pub node: Digest,
    pub entry: Digest,
}

/// A decision, with what is needed to settle or to replay it.
#[derive(Clone, Debug)]
pub struct Decision {
    pub(super) outcome: Outcome,
    pub(super) keys: Option<Keys>,
    /// The tenant at this upstream, for credentials.
    pub(super) who: Digest,
    pub(super) protocol: Option<Protocol>,
    pub(super) form: Form,
    pub(super) model: String,
    pub(super) asked_ms: u64,
    pub(super) audit: String,
    pub(super) pieces: Vec<Vec<u8>>,
    pub(super) age: Option<Duration>,
}

impl Decision {
    /// What was done.
    pub fn kind(&self) -> DecisionKind {
        self.outcome.kind()
    }

    /// Over which route; none for a skipped request.
    pub fn route(&self) -> Option<Route> {
        self.keys.map(|_| Route::Same)
    }

    /// Why not, for what is no hit.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.outcome.refusal()
    }

    /// The node, for requests that have one. Equal nodes are requests that may wait for one upstream call.
    pub fn node(&self) -> Option<Digest> {
        self.keys.map(|keys| keys.node)
    }

    /// The protocol, for requests that are understood.
    pub fn protocol(&self) -> Option<Protocol> {
        self.protocol
    }

    /// The form the client asked for.
    pub fn form(&self) -> Form {
        self.form
    }

    /// The model asked for; empty where the request is not understood.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The id of the audit record; empty without an audit log.
    pub fn audit(&self) -> &str {
        &self.audit
    }

    /// For a hit, what to send: one JSON body, or one piece per event of a stream. Empty for anything else.
    pub fn pieces(&self) -> &[Vec<u8>] {
        &self.pieces
    }

    /// For a hit, how long ago the upstream gave the answer.
    pub fn age(&self) -> Option<Duration> {
        self.age
    }

    /// The value of `X-ZLRS-Decision`.
    pub fn header(&self) -> String {
        let is_hit = self.kind() == DecisionKind::Hit;
        DecisionValue {
            route: self.route(),
            node: self.node().map(|node| NodeKey(node.0)),
            stage: is_hit.then_some(Stage::Full),
            bound: is_hit.then_some(Bound::Replay),
            // That nothing is known is what a miss means.
            refusal: self.refusal().filter(|refusal| refusal.reason != Reason::NoEntry).cloned(),
            ..DecisionValue::new(self.kind())
        }
        .to_string()
    }
}
