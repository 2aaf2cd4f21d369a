//! What was decided about one request.

use std::sync::Arc;
use std::time::Duration;

use zlrs_graph::{Digest, Due, Outcome, Proposal, Standing, printed};
use zlrs_wire::header::{Bound, DecisionKind, DecisionValue, Route, Stage};
use zlrs_wire::replay::Form;
use zlrs_wire::scope::NodeKey;
use zlrs_wire::{Protocol, Reason, Refusal};

use super::canonical::Canonical;
use super::edge::OverEdge;
use crate::Entry;

/// Names of an eligible request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Keys {
    pub tenant: Digest,
    pub scope: Digest,
    pub node: Digest,
    pub entry: Digest,
}

/// What a header says of a class.
struct ClassView<'d> {
    route: Route,
    node: Digest,
    standing: &'d Standing,
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
    /// What the canonical route makes of it, where the *same* route has no answer.
    pub(super) canonical: Option<Canonical>,
    /// What the edge route makes of it, where neither of the others has one.
    pub(super) edge: Option<OverEdge>,
    /// The greatest part of wrong answers that comparisons may take for agreeing ones.
    pub(super) false_agree: f64,
    /// For a hit of the *same* route that is to be checked: why, and the answer that was served.
    pub(super) check: Option<(Due, Arc<Entry>)>,
    /// Tags of the operator's facts it was made under.
    pub(super) facts: Vec<u64>,
    /// The ask, where a comparison may need it.
    pub(super) ask: String,
}

impl Decision {
    /// What was done.
    pub fn kind(&self) -> DecisionKind {
        self.outcome.kind()
    }

    /// Over which route; none for a skipped request.
    pub fn route(&self) -> Option<Route> {
        self.keys.map(|_| self.class().map_or(Route::Same, |class| class.route))
    }

    /// Why not, for what is no hit.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.outcome.refusal()
    }

    /// The node, for requests that have one. Equal nodes are requests that may wait for one upstream call.
    pub fn node(&self) -> Option<Digest> {
        self.keys.map(|keys| keys.node)
    }

    /// Whether the caller is to ask upstream again, not on the client's time, and to settle the answer with this
    /// decision: what was served may have changed.
    pub fn recheck(&self) -> bool {
        let wants = |proposal: Proposal| proposal == Proposal::Serve { recheck: true };
        let over_edge = self.edge.as_ref().is_some_and(|edge| wants(edge.proposal));
        let canonical = self.canonical.as_ref().is_some_and(|canonical| wants(canonical.proposal));
        over_edge || canonical || self.check.is_some()
    }

    /// The part of a route that needs a proof, where the decision is about it: a hit, or a trial.
    fn class(&self) -> Option<ClassView<'_>> {
        let is_about = |proposal: Proposal| matches!(proposal, Proposal::Serve { .. } | Proposal::Trial);
        let over_edge = self.edge.as_ref().filter(|edge| is_about(edge.proposal)).map(|edge| ClassView {
            route: Route::Edge,
            node: edge.node,
            standing: &edge.inputs.entry.standing,
        });
        over_edge.or_else(|| {
            self.canonical.as_ref().filter(|canonical| is_about(canonical.proposal)).map(|canonical| {
                ClassView {
                    route: Route::Canonical,
                    node: canonical.node,
                    standing: &canonical.inputs.standing,
                }
            })
        })
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
        if let Some(ClassView { node, standing, .. }) = self.class() {
            return DecisionValue {
                route: self.route(),
                node: Some(NodeKey(node.0)),
                stage: Some(standing.step.stage()),
                bound: Some(Bound::Rate(printed(standing.upper(), self.false_agree))),
                trials: Some((standing.trials, standing.wrong)),
                ..DecisionValue::new(self.kind())
            }
            .to_string();
        }
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
