//! Bodies of audit records. Keyed hashes stand for tenants, scopes and answers; no text of a request is in them.

use serde::Serialize;
use serde_json::{Value, json};
use zlrs_graph::{
    Agreement, Digest, EdgeInputs, EdgeRecord, EntryFacts, Inputs, LookupFacts, Pool, Proposal,
    ProposalInputs, Route,
};
use zlrs_wire::replay::Form;
use zlrs_wire::{Protocol, Refusal};

use super::canonical::Stored;
use super::judge::Judged;
use super::{Decision, Settled};
use crate::Entry;

/// The body of a decision's record. Written straight to text: there is one for every request.
#[derive(Serialize)]
struct Decided<'d> {
    kind: &'static str,
    id: &'d str,
    outcome: &'static str,
    reason: Option<&'static str>,
    protocol: Option<&'static str>,
    stream: bool,
    inputs: Inputs,
    #[serde(flatten)]
    names: Option<Names>,
    #[serde(skip_serializing_if = "Option::is_none")]
    canonical: Option<DecidedCanonical<'d>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    edge: Option<DecidedEdge<'d>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recheck: Option<&'static str>,
}

#[derive(Serialize)]
struct Names {
    route: Option<&'static str>,
    tenant: Digest,
    scope: Digest,
    node: Digest,
    entry: Digest,
}

#[derive(Serialize)]
struct DecidedCanonical<'d> {
    node: Digest,
    entry: Digest,
    pool: Option<Digest>,
    proposal: &'d Proposal,
    inputs: ProposalInputs,
}

#[derive(Serialize)]
struct DecidedEdge<'d> {
    edge: Digest,
    node: Digest,
    entry: Digest,
    pool: Option<Digest>,
    proposal: &'d Proposal,
    inputs: EdgeInputs,
}

/// A decision with everything it depended on, as JSON.
pub(super) fn decided(decision: &Decision, inputs: &Inputs, audit_key: &[u8; 32]) -> String {
    let record = Decided {
        kind: "decision",
        id: &decision.audit,
        outcome: decision.kind().name(),
        reason: decision.refusal().map(name_of),
        protocol: decision.protocol.map(Protocol::name),
        stream: decision.form != Form::Json,
        inputs: recordable(inputs, audit_key),
        names: decision.keys.map(|keys| Names {
            route: decision.route().map(Route::name),
            tenant: keys.tenant,
            scope: keys.scope,
            node: keys.node,
            entry: keys.entry,
        }),
        canonical: decision.canonical.as_ref().map(|canonical| DecidedCanonical {
            node: canonical.node,
            entry: canonical.entry,
            pool: canonical.stored.as_ref().map(|stored| stored.pool),
            proposal: &canonical.proposal,
            inputs: ProposalInputs {
                base: recordable(&canonical.inputs.base, audit_key),
                ..canonical.inputs.clone()
            },
        }),
        edge: decision.edge.as_ref().map(|edge| DecidedEdge {
            edge: edge.edge,
            node: edge.node,
            entry: edge.entry,
            pool: edge.stored.as_ref().map(|stored| stored.pool),
            proposal: &edge.proposal,
            inputs: EdgeInputs {
                entry: ProposalInputs {
                    base: recordable(&edge.inputs.entry.base, audit_key),
                    ..edge.inputs.entry.clone()
                },
                ..edge.inputs.clone()
            },
        }),
        recheck: decision.check.as_ref().map(|(due, _)| due.name()),
    };
    // Plain fields only: this cannot fail, and an empty record would still show that there was one.
    serde_json::to_string(&record).unwrap_or_else(|_| "{}".to_owned())
}

/// An answer that was stored.
pub(super) fn stored(decision: &Decision, status: u16, entry: &Entry, audit_key: &[u8; 32]) -> Value {
    json!({
        "kind": "settled",
        "decision": decision.audit,
        "status": status,
        "outcome": "stored",
        "answer": keyed(&entry.answer_hash, audit_key).to_hex(),
        "created_ms": entry.created_ms,
        "expires_ms": entry.expires_ms,
    })
}

/// An answer that was not.
pub(super) fn refused(decision: &Decision, status: u16, settled: &Settled) -> Value {
    let reason = match settled {
        Settled::Stored | Settled::Rechecked(_) => None,
        Settled::Refused(refusal) => Some(name_of(refusal)),
    };
    json!({
        "kind": "settled",
        "decision": decision.audit,
        "status": status,
        "outcome": "refused",
        "reason": reason,
    })
}

/// A served or stored answer beside a fresh one, over a route that needs a proof.
pub(super) fn trial(
    decision: &Decision,
    node: &Digest,
    stored: &Stored,
    agreement: Agreement,
    was_served: bool,
    pool: &Pool,
) -> Value {
    json!({
        "kind": "trial",
        "decision": decision.audit,
        "route": stored.label.route,
        "node": node.to_hex(),
        "pool": stored.pool.to_hex(),
        "agreement": agreement.name(),
        "served": was_served,
        "trials": pool.trials,
        "wrong": pool.wrong,
        "step": pool.progress.step,
    })
}

/// A comparison over an edge that has not proven itself.
pub(super) fn edge_seen(
    decision: &Decision,
    edge: &Digest,
    agreement: Agreement,
    record: EdgeRecord,
) -> Value {
    let (comparisons, wrong) = record.counts();
    json!({
        "kind": "edge",
        "decision": decision.audit,
        "edge": edge.to_hex(),
        "agreement": agreement.name(),
        "comparisons": comparisons,
        "wrong": wrong,
        "open": record.is_open(),
    })
}

/// What a judge said of two answers.
pub(super) fn judged(decision: &Decision, judged: &Judged) -> Value {
    json!({
        "kind": "judge",
        "decision": decision.audit,
        "judge": judged.name,
        "verdict": judged.verdict.name(),
        "counts": judged.counts,
        "calls": judged.calls,
        "milliseconds": judged.milliseconds,
    })
}

/// A served answer of the *same* route beside a fresh one; no agreement where the upstream gave none to compare.
pub(super) fn rechecked(decision: &Decision, status: u16, agreement: Option<Agreement>) -> Value {
    json!({
        "kind": "recheck",
        "decision": decision.audit,
        "status": status,
        "agreement": agreement.map(Agreement::name),
    })
}

/// What was changed in a request before it was decided about.
pub(super) fn rewritten(decision: &Decision, changes: &Value) -> Value {
    json!({"kind": "rewritten", "decision": decision.audit, "changes": changes})
}

/// An answer that must not be served any more.
pub(super) fn withdrawn(decision: &Decision, reason: &str) -> Value {
    json!({"kind": "withdrawn", "decision": decision.audit, "reason": reason})
}

/// Entries that were removed on somebody's word. What they were chosen by is a keyed hash or a time.
pub(super) fn purged(kind: &str, which: &[String], entries: u64, at_ms: u64) -> Value {
    json!({"kind": "purged", "what": kind, "which": which, "entries": entries, "at_ms": at_ms})
}

/// An entry that came from a file.
pub(crate) fn imported(entry: &Digest, signed_by: &str, at_ms: u64) -> Value {
    json!({"kind": "imported", "entry": entry.to_hex(), "signed_by": signed_by, "at_ms": at_ms})
}

fn name_of(refusal: &Refusal) -> &'static str {
    refusal.reason.name()
}

/// The inputs without what a reader of the log must not learn: paths may hold keys that a client made up, and the
/// plain hash of a short answer is easily guessed. The decision depends on neither.
fn recordable(inputs: &Inputs, audit_key: &[u8; 32]) -> Inputs {
    let bare = |refusal: &Option<Refusal>| refusal.as_ref().map(|refusal| Refusal::whole(refusal.reason));
    let lookup = match inputs.lookup {
        LookupFacts::Found(facts) => {
            LookupFacts::Found(EntryFacts { answer_hash: keyed(&facts.answer_hash, audit_key), ..facts })
        }
        other => other,
    };
    Inputs { refusal: bare(&inputs.refusal), unfit: bare(&inputs.unfit), lookup, ..inputs.clone() }
}

fn keyed(answer: &Digest, audit_key: &[u8; 32]) -> Digest {
    Digest::keyed(audit_key, [answer.as_bytes().as_slice()])
}
