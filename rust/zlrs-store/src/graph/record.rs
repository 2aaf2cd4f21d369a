//! Bodies of audit records. Keyed hashes stand for tenants, scopes and answers; no text of a request is in them.

use serde_json::{Value, json};
use zlrs_graph::{Agreement, Digest, EntryFacts, Inputs, LookupFacts, Pool, ProposalInputs, Route};
use zlrs_wire::replay::Form;
use zlrs_wire::{Protocol, Refusal};

use super::canonical::Canonical;
use super::{Decision, Settled};
use crate::Entry;

/// A decision with everything it depended on.
pub(super) fn decided(decision: &Decision, inputs: &Inputs, audit_key: &[u8; 32]) -> Value {
    let mut body = json!({
        "kind": "decision",
        "id": decision.audit,
        "outcome": decision.kind().name(),
        "reason": decision.refusal().map(name_of),
        "protocol": decision.protocol.map(Protocol::name),
        "stream": decision.form != Form::Json,
        // Plain fields only: this cannot fail, and a record without inputs would still be a record.
        "inputs": serde_json::to_value(recordable(inputs, audit_key)).unwrap_or_default(),
    });
    if let Some(keys) = &decision.keys {
        body["route"] = json!(decision.route().map(Route::name));
        body["tenant"] = json!(keys.tenant.to_hex());
        body["scope"] = json!(keys.scope.to_hex());
        body["node"] = json!(keys.node.to_hex());
        body["entry"] = json!(keys.entry.to_hex());
    }
    if let Some(canonical) = &decision.canonical {
        let base = recordable(&canonical.inputs.base, audit_key);
        body["canonical"] = json!({
            "node": canonical.node.to_hex(),
            "entry": canonical.entry.to_hex(),
            "pool": canonical.stored.as_ref().map(|stored| stored.pool.to_hex()),
            "proposal": canonical.proposal,
            "inputs": serde_json::to_value(ProposalInputs { base, ..canonical.inputs.clone() }).unwrap_or_default(),
        });
    }
    if let Some((due, _)) = &decision.check {
        body["recheck"] = json!(due.name());
    }
    body
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

/// A served or stored answer beside a fresh one, over the canonical route.
pub(super) fn trial(
    decision: &Decision,
    canonical: &Canonical,
    name: &Digest,
    agreement: Agreement,
    was_served: bool,
    pool: &Pool,
) -> Value {
    json!({
        "kind": "trial",
        "decision": decision.audit,
        "node": canonical.node.to_hex(),
        "pool": name.to_hex(),
        "agreement": agreement.name(),
        "served": was_served,
        "trials": pool.trials,
        "wrong": pool.wrong,
        "step": pool.progress.step,
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

/// An answer that must not be served any more.
pub(super) fn withdrawn(decision: &Decision, reason: &str) -> Value {
    json!({"kind": "withdrawn", "decision": decision.audit, "reason": reason})
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
