//! The *canonical* route: looking up what was answered to another wording of the same question, and counting whether
//! that would have been right. What it keeps is what the *edge* route looks at too.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use zlrs_graph::{
    Agreement, AnswerKind, Cause, Class, Digest, Draw, Inputs, LookupFacts, Mode, Nothing, Policy, Pool,
    Proposal, ProposalInputs, Route, Stability, Standing, Trial, Versions, propose,
};
use zlrs_text::{Canon, Language, guard, is_refusal, language};
use zlrs_wire::replay::Form;
use zlrs_wire::scope::{ScopeKey, node_key, request_key};
use zlrs_wire::{Protocol, Reason, Refusal};

use super::compare::{Said, kind_of};
use super::decision::Keys;
use super::envelope::Envelope;
use super::request::{Patience, render};
use super::{Decision, Graph, record};
use crate::evidence::PoolLabel;
use crate::{Draft, Entry, Lookup, StoreError, Written};

/// The set of rules of the route: C2.
pub(super) const RULES: Canon = Canon::C2;
const RULES_NUMBER: u8 = 2;
/// Longer asks take part in the *same* route only.
pub(super) const ASK_CHARS_MAX: usize = 2000;
/// The class of asks, wordings and answers that are all too short to tell.
const USUAL_LANGUAGE: Language = Language::English;

/// What the route knows of one request.
#[derive(Clone, Debug)]
pub(super) struct Canonical {
    /// Scope and template.
    pub node: Digest,
    /// Node and values.
    pub entry: Digest,
    /// The request's own wording.
    pub ask: String,
    /// The model it asks for.
    pub model: String,
    /// What was decided.
    pub proposal: Proposal,
    /// And from what. Kept in the audit record.
    pub inputs: ProposalInputs,
    /// What was found.
    pub stored: Option<Stored>,
}

/// A stored answer to another wording, or to the same one.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub entry: Arc<Entry>,
    pub envelope: Envelope,
    /// The wording it answered.
    pub ask: String,
    pub said: Said,
    pub pool: Digest,
    pub label: PoolLabel,
}

impl Stored {
    /// The final message, as the *same* route would keep it.
    pub fn message(&self) -> &[u8] {
        Envelope::open(&self.entry.body).map_or(&[], |(_, message)| message)
    }
}

/// A request that the *same* route does not answer.
#[derive(Clone, Copy)]
pub(super) struct Question<'q> {
    pub protocol: Protocol,
    pub scope: &'q ScopeKey,
    pub tenant: Digest,
    pub upstream: &'q str,
    pub model: &'q str,
    pub ask: &'q str,
    /// Turns of the conversation, this one included.
    pub turns: usize,
    /// The inputs of the *same* route.
    pub base: &'q Inputs,
    /// What the draws are a function of.
    pub request_id: &'q str,
}

impl Graph {
    /// Looks at a request over the canonical route. One lookup, and two reads of evidence where something is found.
    pub(super) fn consider<P: Patience>(
        &self,
        question: &Question<'_>,
    ) -> Result<Option<Canonical>, P::Refused> {
        if self.settings.canonical == Mode::Off || question.ask.chars().count() > ASK_CHARS_MAX {
            return Ok(None);
        }
        let (node, entry) = self.canonical_keys(question.scope, question.ask);
        let Some(store) = self.in_service() else { return Ok(None) };
        let lookup = P::get(store, &entry, question.base.now_ms)?;
        let stored = match &lookup {
            Lookup::Found(found) => self.stored(Route::Canonical, question, found),
            Lookup::Nothing(_) => None,
        };
        if stored.is_some() {
            P::read_evidence()?;
        }
        let facts = match (&lookup, &stored) {
            (Lookup::Found(_), None) => LookupFacts::Corrupt,
            (other, _) => other.facts(),
        };
        let standing = stored.as_ref().map_or(Standing::NOTHING, |stored| self.standing(stored));
        let doubted_ms = match stored {
            // Where it cannot be read, everything is in doubt.
            Some(_) => self.evidence.doubted_ms(&node).unwrap_or(Some(u64::MAX)),
            None => None,
        };
        let refused = stored.as_ref().and_then(|stored| guard(&stored.ask, question.ask));
        let inputs = ProposalInputs {
            mode: self.settings.canonical,
            base: Inputs {
                lookup: facts,
                unchecked_ms: self.unchecked_ms(&entry, stored.as_ref(), question.base),
                ..question.base.clone()
            },
            stability: stored.as_ref().map_or_else(Stability::default, |stored| stored.envelope.stability),
            doubted_ms,
            is_due: stored.as_ref().is_some_and(|stored| {
                self.settings.recheck
                    && self.rechecks.is_due(&entry, stored.entry.created_ms, question.base.now_ms)
            }),
            guard: refused.map(|refusal| refusal.reason.name().to_owned()),
            standing,
            limit: self.settings.preset.limit(),
            draw: Draw::of(&self.draw_key, question.request_id.as_bytes()),
            evidence_in_service: self.evidence.broken().is_none(),
        };
        Ok(Some(Canonical {
            node,
            entry,
            ask: question.ask.to_owned(),
            model: question.model.to_owned(),
            proposal: propose(&inputs),
            inputs,
            stored,
        }))
    }

    /// Since when the stored answer has been served without a check: over this route, or word for word to the same ask
    /// after this route's answer was last confirmed.
    fn unchecked_ms(&self, entry: &Digest, stored: Option<&Stored>, base: &Inputs) -> Option<u64> {
        let created_ms = stored?.entry.created_ms;
        let own = self.rechecks.unchecked_ms(entry);
        own.into_iter().chain(base.unchecked_ms.filter(|since_ms| created_ms <= *since_ms)).min()
    }

    /// Node and entry of an ask: scope and template, and the values that fill it. Linear in its length.
    fn canonical_keys(&self, scope: &ScopeKey, ask: &str) -> (Digest, Digest) {
        let form = self.extractor.form(ask, RULES);
        let version = u32::from(Versions::CURRENT.canon);
        let node = Digest(node_key(&self.scope_secret, scope, version, &form.template).0);
        (node, self.entry_under(&node, &form.values_key()))
    }

    /// The entry of a node under values.
    pub(super) fn entry_under(&self, node: &Digest, values: &str) -> Digest {
        Digest::keyed(&self.form_key, [node.as_bytes().as_slice(), values.as_bytes()])
    }

    /// An entry as evidence sees it; none where it cannot be read.
    pub(super) fn stored(&self, route: Route, question: &Question<'_>, entry: &Arc<Entry>) -> Option<Stored> {
        let (envelope, message) = Envelope::open(&entry.body)?;
        let ask = envelope.ask(&self.wording_key)?;
        let said = Said::of(question.protocol, message);
        let kind = kind_of(&said.text);
        // Short asks often do not tell; their answers do, or the wording that was asked first. What nothing tells is no
        // class of its own: it would take evidence away from both.
        let told = language(question.ask).or_else(|| language(&said.text)).or_else(|| language(&ask));
        let language = format!("{:?}", told.unwrap_or(USUAL_LANGUAGE)).to_ascii_lowercase();
        let class = Class {
            route,
            rules: RULES_NUMBER,
            kind,
            language: &language,
            tenant: &question.tenant,
            upstream: question.upstream,
            model: question.model,
            means: &self.means(route),
        };
        let label = PoolLabel {
            route: route.name().to_owned(),
            kind: match kind {
                AnswerKind::Closed => "closed",
                AnswerKind::Prose => "prose",
            }
            .to_owned(),
            language: language.clone(),
            tenant: question.tenant.short(),
            upstream: question.upstream.to_owned(),
            model: question.model.to_owned(),
        };
        let pool = class.pool(&self.evidence_key);
        Some(Stored { entry: Arc::clone(entry), envelope, ask, said, pool, label })
    }

    /// What is known of the entry's class.
    pub(super) fn standing(&self, stored: &Stored) -> Standing {
        let Some(pool) = self.evidence.pool(&stored.pool) else { return Standing::NOTHING };
        Standing {
            step: pool.progress.step,
            trials: pool.trials,
            wrong: pool.wrong,
            clean_run: pool.clean_run,
            is_current: pool.speaks_for(&model_version(&stored.said.model)),
        }
    }

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
        let fresh = Said::of(protocol, message);
        let Some(stored) = &canonical.stored else {
            self.keep_canonical(
                keys,
                &decision.facts,
                canonical,
                Stability::default(),
                &fresh,
                message,
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
        let stability = stored.envelope.stability.after(is_clean, now_ms);
        self.keep_canonical(keys, &decision.facts, canonical, stability, &fresh, message, now_ms);
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
        self.add_record(&record::trial(decision, node, stored, agreement, was_served, &pool));
        true
    }

    /// The *same* route's answer to an ask was contradicted: what is kept of it here goes with it.
    pub(super) fn withdraw_form(&self, keys: &Keys, ask: &str, now_ms: u64) -> Result<(), StoreError> {
        if ask.is_empty() || ask.chars().count() > ASK_CHARS_MAX {
            return Ok(());
        }
        // Also while the route is off: it may be switched on again.
        let (node, entry) = self.canonical_keys(&ScopeKey(keys.scope.0), ask);
        self.withdraw_canonical(&node, &entry, now_ms)
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
            created_ms: now_ms,
            expires_ms: now_ms.saturating_add(self.settings.ttl_s * 1000),
            body: envelope.seal(message),
        };
        self.remember_form(&keys.scope, &canonical.node, &canonical.ask, now_ms);
        // A full queue costs a later comparison; the store counts what it drops.
        let tags = self.tags(&canonical.ask, [&canonical.model, &fresh.model], facts);
        let entry = Entry::seal(draft, &self.secrets).with_tags(tags);
        let _: Result<Written, _> = store.put(entry, Duration::ZERO);
    }
}

/// The answer of a hit in the form that is asked for, and when it came.
pub(super) fn render_stored(
    protocol: Protocol,
    stored: Option<&Stored>,
    form: Form,
    now_ms: u64,
) -> Result<(Vec<Vec<u8>>, u64), Refusal> {
    let stored = stored.ok_or_else(|| Refusal::whole(Reason::NoEntry))?;
    let pieces = render(protocol, stored.message(), form, now_ms)?;
    Ok((pieces, stored.entry.created_ms))
}

/// The version of an upstream's model: its own name in the answer.
pub(super) fn model_version(name: &str) -> Digest {
    Digest::of(name.as_bytes())
}
