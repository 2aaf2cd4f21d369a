//! Re-checks: a served answer beside what the upstream says now.

use std::sync::atomic::Ordering;
use std::time::Duration;

use zlrs_graph::{Agreement, Proposal, Response, storable};

use super::compare::Said;
use super::{Decision, Graph, Settled, record};
use crate::{Draft, Entry, StoreError};

/// How long a re-signed entry waits to be committed. Nobody waits for the check.
const COMMIT_WAIT: Duration = Duration::from_secs(1);

impl Graph {
    /// Takes in the upstream's answer to a request that was answered from the graph. An answer that agrees is kept in
    /// the place of the older one, signed anew; one that contradicts withdraws it; one that is neither replaces it, so
    /// that what is served is at least the latest.
    pub(super) fn recheck(&self, decision: &Decision, response: &Response<'_>, now_ms: u64) -> Settled {
        let fresh = decision.protocol.and_then(|protocol| storable(&self.settings, protocol, response).ok());
        let agreement = fresh.and_then(|message| self.compared(decision, message, now_ms));
        if let Some((_, served)) = &decision.check {
            self.rechecks.checked(&served.key, agreement.is_some(), now_ms);
        } else if let Some(canonical) = &decision.canonical {
            self.rechecks.checked(&canonical.entry, agreement.is_some(), now_ms);
        }
        let counter = match agreement {
            Some(Agreement::Agree) => &self.counts.rechecks_agreed,
            Some(Agreement::Contradict) => &self.counts.rechecks_contradicted,
            Some(Agreement::Undecided) => &self.counts.rechecks_undecided,
            None => &self.counts.rechecks_inconclusive,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.keep_record(&record::rechecked(decision, response.status, agreement));
        Settled::Rechecked(agreement)
    }

    fn compared(&self, decision: &Decision, message: Vec<u8>, now_ms: u64) -> Option<Agreement> {
        let (protocol, keys) = (decision.protocol?, decision.keys.as_ref()?);
        if let Some(edge) = &decision.edge
            && matches!(edge.proposal, Proposal::Serve { .. })
        {
            let agreement = self.learn_over_edge(decision, edge, &message, now_ms);
            if let Some(canonical) = &decision.canonical {
                self.learn(decision, keys, canonical, &message, now_ms);
            }
            return agreement;
        }
        if let Some(canonical) = &decision.canonical {
            return self.learn(decision, keys, canonical, &message, now_ms);
        }
        let (_, served) = decision.check.as_ref()?;
        let stored = Said::of(protocol, &served.body);
        let fresh = Said::of(protocol, &message);
        let agreement = self.compare(decision, &decision.ask, &stored.text, &fresh.text);
        if agreement == Agreement::Contradict {
            // A store that cannot make it durable serves nothing from here on.
            let _: Result<(), StoreError> = self.withdraw(decision, now_ms, "contradicted");
            return Some(agreement);
        }
        let asked_ms = decision.asked_ms.min(now_ms);
        let draft = Draft {
            key: served.key,
            scope: served.scope,
            node: served.node,
            tenant: served.tenant,
            route: served.route,
            created_ms: asked_ms,
            expires_ms: asked_ms.saturating_add(self.settings.ttl_s * 1000),
            body: message,
        };
        // What cannot be written stays as it was, and runs out in its own time.
        let models = [decision.model.as_str(), fresh.model.as_str()];
        let tags = self.tags_same(&served.scope, &decision.ask, models, &decision.facts);
        let _ = self.in_service()?.put(Entry::seal(draft, &self.secrets).with_tags(tags), COMMIT_WAIT);
        Some(agreement)
    }
}
