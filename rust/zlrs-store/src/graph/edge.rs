//! The *edge* route: looking at what was answered to a form that is near by its fingerprint, and counting whether that
//! would have been right.

use std::sync::atomic::Ordering;

use zlrs_fingerprint::Network;
use zlrs_graph::{
    Agreement, Digest, Draw, EdgeEnds, EdgeInputs, EdgeRecord, Inputs, LookupFacts, Mode, Proposal,
    ProposalInputs, Route, Standing, Versions, explore_threshold, propose_edge,
};
use zlrs_text::guard;
use zlrs_wire::scope::node_key;

use super::canonical::{ASK_CHARS_MAX, Question, RULES, Stored, model_version};
use super::compare::Said;
use super::{Decision, Graph, record};
use crate::Lookup;
use crate::evidence::KnownForm;

/// Near forms looked at for one ask.
const CANDIDATES: usize = 4;

/// What the route knows of one request: the best of the forms it has looked at.
#[derive(Clone, Debug)]
pub(super) struct OverEdge {
    /// The edge's name.
    pub edge: Digest,
    /// The other form's node.
    pub node: Digest,
    /// Its entry under the values of the ask.
    pub entry: Digest,
    /// What was decided.
    pub proposal: Proposal,
    /// And from what. Kept in the audit record.
    pub inputs: EdgeInputs,
    /// What was found.
    pub stored: Option<Stored>,
}

impl Graph {
    /// Looks at a request over the edge route: its fingerprint, the nearest forms of its scope, and for each of them a
    /// lookup under the ask's own values. Linear in the forms of the scope.
    pub(super) fn consider_edges(&self, question: &Question<'_>) -> Option<OverEdge> {
        if self.settings.edge == Mode::Off || question.ask.chars().count() > ASK_CHARS_MAX {
            return None;
        }
        let network = self.network?;
        let form = self.extractor.form(question.ask, RULES);
        let fingerprint = network.fingerprint(&form.template)?;
        let version = u32::from(Versions::CURRENT.canon);
        let own = node_key(&self.scope_secret, question.scope, version, &form.template);
        let template = self.template_key(&form.template);
        let least = explore_threshold(self.load());
        let scope = Digest(question.scope.0);
        let near = self.forms.nearest(&scope, &fingerprint, least as f32, CANDIDATES + 1);
        let values = form.values_key();
        let mut best: Option<OverEdge> = None;
        for (cosine, other) in near.into_iter().filter(|(_, other)| other.node.0 != own.0).take(CANDIDATES) {
            let looked = self.look_over(question, &template, other, &values, cosine, least)?;
            let is_better = best.as_ref().is_none_or(|best| rank(looked.proposal) > rank(best.proposal));
            if is_better {
                best = Some(looked);
            }
        }
        best
    }

    fn look_over(
        &self,
        question: &Question<'_>,
        template: &Digest,
        other: KnownForm,
        values: &str,
        cosine: f32,
        least: f64,
    ) -> Option<OverEdge> {
        let entry = self.entry_under(&other.node, values);
        let lookup = self.in_service()?.get(&entry, question.base.now_ms);
        let stored = match &lookup {
            Lookup::Found(found) => self.stored(Route::Edge, question, found),
            Lookup::Nothing(_) => None,
        };
        let facts = match (&lookup, &stored) {
            (Lookup::Found(_), None) => LookupFacts::Corrupt,
            (other, _) => other.facts(),
        };
        let edge = EdgeEnds {
            tenant: &question.tenant,
            upstream: question.upstream,
            model: question.model,
            context: if question.turns > 1 { &question.scope.0 } else { &[] },
            means: self.judge_name().as_bytes(),
            one: template,
            other: &other.template,
        }
        .edge(&self.form_key);
        let (standing, doubted_ms, record) = match &stored {
            None => (Standing::NOTHING, None, EdgeRecord::default()),
            // What cannot be read is in doubt, and not open.
            Some(stored) => (
                self.standing(stored),
                self.evidence.doubted_ms(&other.node).unwrap_or(Some(u64::MAX)),
                self.evidence.edge(&edge).unwrap_or_default(),
            ),
        };
        let refused = stored.as_ref().and_then(|stored| guard(&stored.ask, question.ask));
        let inputs = EdgeInputs {
            entry: ProposalInputs {
                mode: self.settings.edge,
                base: Inputs {
                    lookup: facts,
                    unchecked_ms: self.rechecks.unchecked_ms(&entry),
                    ..question.base.clone()
                },
                stability: stored.as_ref().map(|stored| stored.envelope.stability).unwrap_or_default(),
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
            },
            cosine_millionths: millionths(f64::from(cosine)),
            least_millionths: millionths(least),
            record,
        };
        Some(OverEdge { edge, node: other.node, entry, proposal: propose_edge(&inputs), inputs, stored })
    }

    /// Takes in a fresh answer to a request that the route has looked at, served or not.
    pub(super) fn learn_over_edge(
        &self,
        decision: &Decision,
        edge: &OverEdge,
        message: &[u8],
        now_ms: u64,
    ) -> Option<Agreement> {
        let stored = edge.stored.as_ref()?;
        let (counts, was_served) = match edge.proposal {
            Proposal::Nothing(_) => return None,
            Proposal::Learn => (false, false),
            Proposal::Trial => (true, false),
            Proposal::Serve { .. } => (true, true),
        };
        let fresh = Said::of(decision.protocol?, message);
        // Another version of the model answers now: nothing is learnt about the two forms.
        if !counts && model_version(&fresh.model) != model_version(&stored.said.model) {
            return None;
        }
        let agreement = self.compare(decision, &decision.ask, &stored.said.text, &fresh.text);
        let is_wrong = agreement != Agreement::Agree;
        if counts {
            let mode = self.settings.edge;
            self.count(decision, mode, &edge.node, stored, &fresh, agreement, was_served, now_ms);
        }
        let seen = self.evidence.change_edge(&edge.edge, |record| record.observe(&edge.entry, is_wrong));
        if let Ok(record) = seen {
            self.counts.edge_comparisons.fetch_add(1, Ordering::Relaxed);
            self.keep_record(&record::edge_seen(decision, &edge.edge, agreement, record));
        }
        if agreement == Agreement::Agree {
            // The answer was compared with the upstream's, whichever form asked for it.
            self.rechecks.checked(&edge.entry, true, now_ms);
        }
        if counts && agreement == Agreement::Contradict {
            // The edge had proven itself: the answer may have changed as well. Where this fails, the store or the
            // routes that need evidence are out of service and say so.
            let _ = self.withdraw_canonical(&edge.node, &edge.entry, now_ms);
        }
        Some(agreement)
    }

    /// Remembers the form of an ask whose answer is kept, for the edge route.
    pub(super) fn remember_form(&self, scope: &Digest, node: &Digest, ask: &str, now_ms: u64) {
        if self.settings.edge == Mode::Off {
            return;
        }
        let template = self.extractor.form(ask, RULES).template;
        let Some(fingerprint) = self.network.and_then(|network| network.fingerprint(&template)) else {
            return;
        };
        let form = KnownForm { node: *node, template: self.template_key(&template) };
        if self.forms.add(scope, &fingerprint, form) {
            // A form that is not kept is looked at until the program ends.
            let _ = self.evidence.keep_form(&self.network_name, scope, &form, &fingerprint, now_ms);
        }
    }

    /// What stands for a template whatever the scope.
    fn template_key(&self, template: &str) -> Digest {
        Digest::keyed(&self.form_key, [b"template".as_slice(), template.as_bytes()])
    }

    /// Notes the load, the used part of what the upstream or the engine can do, 0 to 1. It moves how far the edge route
    /// looks, and nothing else.
    pub fn note_load(&self, load: f64) {
        self.load_bits.store(load.to_bits(), Ordering::Relaxed);
    }

    fn load(&self) -> f64 {
        f64::from_bits(self.load_bits.load(Ordering::Relaxed))
    }
}

/// The shipped network with its name; none where it does not load, and then there is no edge route.
pub(super) fn network() -> (Option<&'static Network>, Digest) {
    (Network::shipped().ok(), Digest::of(Network::shipped_bytes()))
}

const fn rank(proposal: Proposal) -> u8 {
    match proposal {
        Proposal::Nothing(_) => 0,
        Proposal::Learn => 1,
        Proposal::Trial => 2,
        Proposal::Serve { .. } => 3,
    }
}

fn millionths(value: f64) -> i32 {
    (value * 1e6).round().clamp(-1e6, 1e6) as i32
}
