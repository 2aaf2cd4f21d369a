//! What the *canonical* route learns from a fresh answer: how it compares with the stored one, and what is kept of it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use zlrs_graph::{Agreement, Cause, Digest, Mode, Nothing, Policy, Pool, Proposal, Route, Stability, Trial};
use zlrs_text::is_refusal;
use zlrs_wire::scope::{ScopeKey, request_key};

use super::canonical::{ASK_CHARS_MAX, Canonical, Stored, model_version};
use super::compare::Said;
use super::decision::Keys;
use super::envelope::Envelope;
use super::{Decision, Graph, record};
use crate::{Draft, Entry, StoreError, Written};

impl Graph {
    /// Takes in a fresh answer to a request that the route has looked at, served or not. Returns how it compares with
    /// the stored one, where there was one to compare with.
    pub(super) fn learn(
        &self,
        decision: &Decision,
        keys: &Keys,
        canonical: &Canonical,
        message: &[u8],
        now_ms: u64,
    ) -> Option<Agreement> {
        let protocol = decision.protocol?;
        let asked_ms = decision.asked_ms.min(now_ms);
        let fresh = Said::of(protocol, message);
        let Some(stored) = &canonical.stored else {
            self.keep_canonical(
                keys,
                &decision.facts,
                canonical,
                Stability::default(),
                &fresh,
                message,
                asked_ms,
                now_ms,
            );
            return None;
        };
        let (counts, was_served) = match canonical.proposal {
            Proposal::Nothing(Nothing::NoEntry | Nothing::NotServable) => {
                self.keep_canonical(
                    keys,
                    &decision.facts,
                    canonical,
                    Stability::default(),
                    &fresh,
                    message,
                    asked_ms,
                    now_ms,
                );
                return None;
            }
            // What is stored answers another question; it is not overwritten by this one's answer.
            Proposal::Nothing(Nothing::Off | Nothing::Guard | Nothing::NotNear | Nothing::Closed) => {
                return None;
            }
            Proposal::Learn => (false, false),
            Proposal::Trial => (true, false),
            Proposal::Serve { .. } => (true, true),
        };
        let agreement = self.compare(decision, &canonical.ask, &stored.said.text, &fresh.text);
        let is_clean = agreement == Agreement::Agree;
        let mode = self.settings.canonical;
        if counts
            && !self.count(decision, mode, &canonical.node, stored, &fresh, agreement, was_served, now_ms)
        {
            return Some(agreement);
        }
        if !counts {
            self.counts.learned.fetch_add(1, Ordering::Relaxed);
        }
        if counts && agreement == Agreement::Contradict {
            // Where that fails, store or route are out of service and say so.
            let _ = self.withdraw_canonical(&canonical.node, &canonical.entry, now_ms);
            // Whether the stored wording's own answer is wrong too, its next hit will show.
            let scope = ScopeKey(keys.scope.0);
            let own = request_key(&self.scope_secret, &scope, &stored.ask);
            self.rechecks.doubt(&Digest(own.0));
            return Some(agreement);
        }
        // What came while the node was put in doubt, and was asked for before, takes no doubt away.
        let stability = stored.envelope.stability.after(is_clean, asked_ms);
        self.keep_canonical(keys, &decision.facts, canonical, stability, &fresh, message, asked_ms, now_ms);
        Some(agreement)
    }

    /// Counts a trial; false where it could not be written.
    #[expect(clippy::too_many_arguments, reason = "a trial is what was asked, kept and said")]
    pub(super) fn count(
        &self,
        decision: &Decision,
        mode: Mode,
        node: &Digest,
        stored: &Stored,
        fresh: &Said,
        agreement: Agreement,
        was_served: bool,
        now_ms: u64,
    ) -> bool {
        // The stored wording is not asked again here, so the cause is not known.
        let wrong = (agreement != Agreement::Agree).then_some(Cause::of(None));
        let version = model_version(&fresh.model);
        let policy = Policy { may_serve: mode == Mode::Bounded, preset: self.settings.preset };
        let changed = self.evidence.change(
            &stored.pool,
            &stored.label,
            || Pool::new(version, now_ms),
            |pool| {
                pool.note_model(&version, now_ms);
                pool.observe(Trial { wrong, was_served }, policy, now_ms);
            },
        );
        let Ok(pool) = changed else { return false };
        self.counts.trials.fetch_add(1, Ordering::Relaxed);
        if wrong.is_some() {
            self.counts.trials_wrong.fetch_add(1, Ordering::Relaxed);
        }
        self.keep_record(&record::trial(decision, node, stored, agreement, was_served, &pool));
        true
    }

    /// The *same* route's answer to an ask was contradicted: what is kept of it here goes with it.
    pub(super) fn withdraw_form(&self, keys: &Keys, ask: &str, now_ms: u64) -> Result<(), StoreError> {
        // Also while the route is off: it may be switched on again.
        self.canonical_of(&keys.scope, ask)
            .map_or(Ok(()), |(node, entry)| self.withdraw_canonical(&node, &entry, now_ms))
    }

    /// Node and entry of the canonical route for an ask; none for one that takes no part in it.
    pub(super) fn canonical_of(&self, scope: &Digest, ask: &str) -> Option<(Digest, Digest)> {
        let takes_part = !ask.is_empty() && ask.chars().count() <= ASK_CHARS_MAX;
        takes_part.then(|| self.canonical_keys(&ScopeKey(scope.0), ask))
    }

    /// Both are durable on return: a store that cannot write a tombstone serves nothing from here on, evidence that
    /// cannot be written nothing over this route.
    pub(super) fn withdraw_canonical(
        &self,
        node: &Digest,
        entry: &Digest,
        now_ms: u64,
    ) -> Result<(), StoreError> {
        let at_ms = now_ms.max(self.latest_ms.load(Ordering::Relaxed));
        let doubted = self.evidence.doubt(node, at_ms);
        self.serving()?.tombstone(entry, at_ms, "contradicted")?;
        doubted
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "an entry is whose it is, what was asked and what was said"
    )]
    fn keep_canonical(
        &self,
        keys: &Keys,
        facts: &[u64],
        canonical: &Canonical,
        stability: Stability,
        fresh: &Said,
        message: &[u8],
        asked_ms: u64,
        now_ms: u64,
    ) {
        let Some(store) = self.in_service().filter(|_| !is_refusal(&fresh.text)) else { return };
        let model = fresh.model.clone();
        // Without random bytes nothing is encrypted, and nothing is kept.
        let Ok(envelope) = Envelope::new(&self.wording_key, &canonical.ask, stability, model) else { return };
        match canonical.stored {
            Some(_) => self.rechecks.checked(&canonical.entry, true, now_ms),
            None => self.rechecks.begin(&canonical.entry),
        }
        let draft = Draft {
            key: canonical.entry,
            scope: keys.scope,
            node: canonical.node,
            tenant: keys.tenant,
            route: Route::Canonical,
            created_ms: asked_ms,
            expires_ms: asked_ms.saturating_add(self.settings.ttl_s * 1000),
            body: envelope.seal(message),
        };
        self.remember_form(&keys.scope, &canonical.node, &canonical.ask, now_ms);
        // A full queue costs a later comparison; the store counts what it drops.
        let models = [canonical.model.as_str(), fresh.model.as_str()];
        let tags = self.tags_canonical(&canonical.entry, &canonical.ask, models, facts);
        let entry = Entry::seal(draft, &self.secrets).with_tags(tags);
        let _: Result<Written, _> = store.put(entry, Duration::ZERO);
    }
}
