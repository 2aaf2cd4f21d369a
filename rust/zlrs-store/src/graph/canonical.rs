//! The *canonical* route: looking up what was answered to another wording of the same question. What it keeps is what
//! the *edge* route looks at too; [`super::learning`] counts whether it would have been right.

use std::sync::Arc;

use zlrs_graph::{
    AnswerKind, Class, Digest, Draw, Inputs, LookupFacts, Mode, Proposal, ProposalInputs, Route, Stability,
    Standing, Versions, propose,
};
use zlrs_text::{Canon, Language, guard, language};
use zlrs_wire::replay::Form;
use zlrs_wire::scope::{ScopeKey, node_key};
use zlrs_wire::{Protocol, Reason, Refusal};

use super::Graph;
use super::compare::{Said, kind_of};
use super::envelope::Envelope;
use super::request::{Patience, render};
use crate::evidence::PoolLabel;
use crate::{Entry, Lookup};

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
    pub(super) fn canonical_keys(&self, scope: &ScopeKey, ask: &str) -> (Digest, Digest) {
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
