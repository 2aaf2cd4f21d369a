//! What an upstream's answer changes: the credential it proves, the entry it becomes.

use std::sync::atomic::Ordering;
use std::time::Duration;

use zlrs_graph::{Agreement, Outcome, Response, Route, storable};
use zlrs_wire::{Reason, Refusal};

use zlrs_text::is_refusal;

use super::compare::Said;
use super::decision::Keys;
use super::{Decision, Graph, record};
use crate::{Draft, Entry, Written};

/// How long a settle waits for its entry to be committed. Nobody waits for the settle.
const COMMIT_WAIT: Duration = Duration::from_secs(1);

/// What became of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Committed: the next equal request may be a hit.
    Stored,
    /// A served answer was compared with a fresh one; none where the upstream gave none that could be.
    Rechecked(Option<Agreement>),
    /// Not kept, and why.
    Refused(Refusal),
}

impl Settled {
    /// `stored`, `recheck_` and how it ended, or the reason.
    pub fn name(&self) -> String {
        match self {
            Self::Stored => "stored".to_owned(),
            Self::Rechecked(agreement) => {
                format!("recheck_{}", agreement.map_or("inconclusive", Agreement::name))
            }
            Self::Refused(refusal) => refusal.header_value(),
        }
    }
}

impl Graph {
    /// Takes in what the upstream answered to a request that was forwarded, whatever was decided about it: the
    /// status says whether the credential is good, and the answer to an eligible request is stored if its form
    /// allows it. `now_ms` is when the answer ended. Blocks up to a second; call it from a thread of its own.
    pub fn settle(&self, decision: &Decision, response: &Response<'_>, now_ms: u64) -> Settled {
        self.note_time(now_ms);
        if decision.outcome == Outcome::Hit && decision.recheck() {
            self.note_credential(&decision.who, response.status, decision.asked_ms);
            return self.recheck(decision, response, now_ms);
        }
        if decision.outcome == Outcome::Hit {
            // Nothing was forwarded; the graph's own answer proves nothing.
            return Settled::Refused(Refusal::whole(Reason::UpstreamReplay));
        }
        self.note_credential(&decision.who, response.status, decision.asked_ms);
        let settled = match (&decision.outcome, &decision.keys) {
            (Outcome::Skipped(refusal), _) => Settled::Refused(refusal.clone()),
            (_, Some(keys)) => match self.keep(decision, keys, response, now_ms) {
                Ok(entry) => {
                    self.counts.stored.fetch_add(1, Ordering::Relaxed);
                    self.add_record(&record::stored(decision, response.status, &entry, &self.audit_key));
                    return Settled::Stored;
                }
                Err(refusal) => Settled::Refused(refusal),
            },
            (_, None) => Settled::Refused(Refusal::whole(Reason::StoreUnavailable)),
        };
        self.counts.refused.fetch_add(1, Ordering::Relaxed);
        self.add_record(&record::refused(decision, response.status, &settled));
        settled
    }

    fn keep(
        &self,
        decision: &Decision,
        keys: &Keys,
        response: &Response<'_>,
        now_ms: u64,
    ) -> Result<Entry, Refusal> {
        let unavailable = || Refusal::whole(Reason::StoreUnavailable);
        let protocol = decision.protocol.ok_or_else(|| Refusal::whole(Reason::NotUnderstood))?;
        let body = storable(&self.settings, protocol, response)?;
        let store = self.in_service().ok_or_else(unavailable)?;
        let asked_ms = decision.asked_ms.min(now_ms);
        let draft = Draft {
            key: keys.entry,
            scope: keys.scope,
            node: keys.node,
            tenant: keys.tenant,
            route: Route::Same,
            created_ms: asked_ms,
            expires_ms: asked_ms.saturating_add(self.settings.ttl_s * 1000),
            body,
        };
        if let Some(edge) = &decision.edge {
            self.learn_over_edge(decision, edge, &draft.body, now_ms);
        }
        if let Some(canonical) = &decision.canonical {
            self.learn(decision, keys, canonical, &draft.body, now_ms);
        }
        // In words; what the protocol itself marks as refused has not come this far.
        if is_refusal(&Said::of(protocol, &draft.body).text) {
            return Err(Refusal::whole(Reason::Refused));
        }
        let said = Said::of(protocol, &draft.body);
        let models = [decision.model.as_str(), said.model.as_str()];
        let tags = self.tags_same(&keys.scope, &decision.ask, models, &decision.facts);
        let entry = Entry::seal(draft, &self.secrets).with_tags(tags);
        self.rechecks.begin(&entry.key);
        match store.put(entry.clone(), COMMIT_WAIT) {
            Ok(Written::Committed) => Ok(entry),
            Ok(Written::Superseded) => Err(Refusal::whole(Reason::Tombstoned)),
            Ok(Written::Queued) | Err(_) => Err(unavailable()),
        }
    }
}
