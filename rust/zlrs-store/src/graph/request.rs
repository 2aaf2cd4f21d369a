//! From a request to its decision.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use zlrs_graph::{
    Digest, Inputs, LookupFacts, Mode, Outcome, Proposal, check_form, check_headers, check_words, decide,
    propose, propose_edge,
};
use zlrs_wire::replay::{Form, Fresh, replay};
use zlrs_wire::scope::{ScopeInput, ScopeKey, TenantKey, node_key, request_key, scope_key, tenant_key};
use zlrs_wire::{Protocol, Reason, Refusal, RequestView};

use super::canonical::{Question, render_stored};
use super::decision::{Decision, Keys};
use super::{Graph, record};
use crate::random::{record_id, uuid_v7};
use crate::{Lookup, Store};

/// The form of an ask on the *same* route is the ask itself: version 0 of the canonical rules.
const WORDING_ITSELF: u32 = 0;

/// A request as it came from the client.
#[derive(Clone, Copy, Debug)]
pub struct GraphRequest<'r> {
    /// `POST`
    pub method: &'r str,
    /// The path as it was sent, without the query.
    pub path: &'r str,
    /// The query as it was sent, without `?`.
    pub query: &'r str,
    /// All headers, in order.
    pub headers: &'r [(&'r [u8], &'r [u8])],
    /// The body.
    pub body: &'r [u8],
    /// The upstream's name or base URL, from configuration.
    pub upstream: &'r str,
    /// Facts of the operator's that the answer depends on.
    pub factors: Factors<'r>,
}

/// What is known of the operator's facts.
#[derive(Clone, Copy, Debug)]
pub enum Factors<'r> {
    /// Names and values, each name once. None where none are configured.
    Known(&'r [(String, String)]),
    /// The provider of this one gave no value in time: nothing can be said about the scope.
    Unknown(&'r str),
}

impl Factors<'_> {
    /// No facts.
    pub const NONE: Self = Self::Known(&[]);
}

/// Whether a decision may wait for a disk.
pub(super) trait Patience {
    /// What it says instead of waiting.
    type Refused;
    /// Looks an entry up.
    fn get(store: &dyn Store, key: &Digest, now_ms: u64) -> Result<Lookup, Self::Refused>;
    /// Called before evidence is read.
    fn read_evidence() -> Result<(), Self::Refused>;
}

/// It may, a bounded time.
pub(super) struct Patient;

/// It may not.
pub(super) struct Hasty;

impl Patience for Patient {
    type Refused = Infallible;

    fn get(store: &dyn Store, key: &Digest, now_ms: u64) -> Result<Lookup, Infallible> {
        Ok(store.get(key, now_ms))
    }

    fn read_evidence() -> Result<(), Infallible> {
        Ok(())
    }
}

impl Patience for Hasty {
    type Refused = ();

    fn get(store: &dyn Store, key: &Digest, now_ms: u64) -> Result<Lookup, ()> {
        store.get_now(key, now_ms).ok_or(())
    }

    fn read_evidence() -> Result<(), ()> {
        Err(())
    }
}

/// Names of a request before it is looked up.
struct Named {
    scope: ScopeKey,
    entry: Digest,
}

/// What was read of a request.
struct Understood<'r> {
    protocol: Option<Protocol>,
    view: Option<RequestView<'r>>,
    refusal: Option<Refusal>,
}

impl Graph {
    /// Decides about a request. Linear in its size; waits for the store at most its read deadline.
    pub fn decide(&self, request: &GraphRequest<'_>, now_ms: u64) -> Decision {
        let Ok(decision) = self.decided::<Patient>(request, now_ms);
        decision
    }

    /// [`Graph::decide`] where memory has everything it takes; none where something has to be read. Nothing has then
    /// been counted or recorded, and the caller asks again from a thread that may wait.
    pub fn decide_now(&self, request: &GraphRequest<'_>, now_ms: u64) -> Option<Decision> {
        self.decided::<Hasty>(request, now_ms).ok()
    }

    fn decided<P: Patience>(&self, request: &GraphRequest<'_>, now_ms: u64) -> Result<Decision, P::Refused> {
        let latest_ms = self.note_time(now_ms);
        let tenant = tenant_key(&self.scope_secret, request.headers);
        let who = Digest::keyed(&self.credential_key, [tenant.0.as_slice(), request.upstream.as_bytes()]);
        let mut understood = self.understand(request);
        let store = self.in_service();
        let named = self.name(request, tenant, &mut understood);
        let lookup = match (store, &named) {
            (Some(store), Some(named)) => P::get(store, &named.entry, now_ms)?,
            _ => Lookup::Nothing(LookupFacts::NotAsked),
        };
        let scope = named.as_ref().map(|named| named.scope);
        let keys = named.map(|Named { scope, entry }| {
            let ask = understood.view.as_ref().and_then(|view| view.ask.as_deref()).unwrap_or("");
            let node = match &lookup {
                // The entry was stored under the name of its node.
                Lookup::Found(entry) => entry.node,
                Lookup::Nothing(_) => Digest(node_key(&self.scope_secret, &scope, WORDING_ITSELF, ask).0),
            };
            Keys { tenant: Digest(tenant.0), scope: Digest(scope.0), node, entry }
        });
        let mut inputs = Inputs {
            refusal: understood.refusal,
            in_service: store.is_some(),
            lookup: lookup.facts(),
            unfit: None,
            credential: self.credential(&who),
            credential_window_ms: self
                .settings
                .credential_check
                .then_some(self.settings.credential_window_s * 1000),
            ttl_ms: self.settings.ttl_s * 1000,
            unchecked_ms: match &lookup {
                Lookup::Found(entry) => self.rechecks.unchecked_ms(&entry.key),
                Lookup::Nothing(_) => None,
            },
            check_within_ms: self.settings.recheck.then_some(self.settings.recheck_every_s * 1000),
            now_ms,
            latest_ms,
        };
        let form = understood.view.as_ref().map_or(Form::Json, Form::of);
        let mut outcome = decide(&inputs);
        let mut pieces = Vec::new();
        let mut age = None;
        if let (Outcome::Hit, Lookup::Found(entry), Some(protocol)) = (&outcome, &lookup, understood.protocol)
        {
            match render(protocol, &entry.body, form, now_ms) {
                Ok(rendered) => {
                    pieces = rendered;
                    age = Some(Duration::from_millis(now_ms.saturating_sub(entry.created_ms)));
                }
                Err(refusal) => {
                    inputs.unfit = Some(refusal);
                    outcome = decide(&inputs);
                }
            }
        }
        let id = record_id("aud", now_ms).unwrap_or_default();
        let ask = understood.view.as_ref().and_then(|view| view.ask.as_deref()).unwrap_or("");
        let (mut canonical, mut over_edge) = (None, None);
        if let (Outcome::Miss(refusal), Some(scope), Some(protocol), Some(view)) =
            (&outcome, &scope, understood.protocol, &understood.view)
            && matches!(refusal.reason, Reason::NoEntry | Reason::Expired | Reason::Recheck)
        {
            let question = Question {
                protocol,
                scope,
                tenant: Digest(tenant.0),
                upstream: request.upstream,
                model: &view.model,
                ask,
                turns: view.turns,
                base: &inputs,
                request_id: &id,
            };
            canonical = self.consider::<P>(&question)?;
            if self.settings.edge != Mode::Off
                && canonical.as_ref().is_some_and(|canonical| canonical.stored.is_none())
            {
                // Looking through the forms takes its time.
                P::read_evidence()?;
                over_edge = self.consider_edges(&question);
            }
        }
        if let (Some(canonical), Some(protocol)) = (&mut canonical, understood.protocol)
            && matches!(canonical.proposal, Proposal::Serve { .. })
        {
            match render_stored(protocol, canonical.stored.as_ref(), form, now_ms) {
                Ok((rendered, created_ms)) => {
                    pieces = rendered;
                    age = Some(Duration::from_millis(now_ms.saturating_sub(created_ms)));
                    outcome = Outcome::Hit;
                    self.counts.canonical_hits.fetch_add(1, Ordering::Relaxed);
                    self.rechecks.hit(&canonical.entry, created_ms, now_ms);
                }
                Err(refusal) => {
                    canonical.inputs.base.unfit = Some(refusal);
                    canonical.proposal = propose(&canonical.inputs);
                }
            }
        }
        if let (Some(edge), Some(protocol)) = (&mut over_edge, understood.protocol)
            && matches!(edge.proposal, Proposal::Serve { .. })
        {
            match render_stored(protocol, edge.stored.as_ref(), form, now_ms) {
                Ok((rendered, created_ms)) => {
                    pieces = rendered;
                    age = Some(Duration::from_millis(now_ms.saturating_sub(created_ms)));
                    outcome = Outcome::Hit;
                    self.counts.edge_hits.fetch_add(1, Ordering::Relaxed);
                    self.rechecks.hit(&edge.entry, created_ms, now_ms);
                }
                Err(refusal) => {
                    edge.inputs.entry.base.unfit = Some(refusal);
                    edge.proposal = propose_edge(&edge.inputs);
                }
            }
        }
        let mut check = None;
        if let (Outcome::Hit, None, Lookup::Found(entry)) = (&outcome, &canonical, &lookup)
            && self.settings.recheck
            && let Some(due) = self.rechecks.hit(&entry.key, entry.created_ms, now_ms)
        {
            self.counts.rechecks_due.fetch_add(1, Ordering::Relaxed);
            check = Some((due, Arc::clone(entry)));
        }
        let counter = match outcome {
            Outcome::Hit => &self.counts.hits,
            Outcome::Miss(_) => &self.counts.misses,
            Outcome::Skipped(_) => &self.counts.skipped,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let mut decision = Decision {
            outcome,
            keys: keys.filter(|_| store.is_some()),
            who,
            protocol: understood.protocol,
            form,
            model: understood.view.as_ref().map_or_else(String::new, |view| view.model.clone().into_owned()),
            asked_ms: now_ms,
            audit: String::new(),
            pieces,
            age,
            ask: if keys.is_some() { ask.to_owned() } else { String::new() },
            canonical,
            edge: over_edge,
            false_agree: self.false_agree(),
            facts: match request.factors {
                Factors::Known(known) => self.fact_tags(known),
                Factors::Unknown(_) => Vec::new(),
            },
            check,
        };
        // Without random bytes there is no id, and the decision goes unrecorded rather than unanswered.
        if self.audit.is_some() && !id.is_empty() {
            decision.audit = id;
            self.add_text(record::decided(&decision, &inputs, &self.audit_key));
        }
        Ok(decision)
    }

    fn understand<'r>(&self, request: &GraphRequest<'r>) -> Understood<'r> {
        let Some(protocol) = Protocol::of_endpoint(request.method, request.path) else {
            let refusal = Some(Refusal::whole(Reason::NotUnderstood));
            return Understood { protocol: None, view: None, refusal };
        };
        let parsed = RequestView::parse(protocol, request.body);
        let headers = check_headers(&self.settings, request.headers);
        let (view, body) = match parsed {
            Ok(view) => {
                let body = check_form(&self.settings, &view).err();
                (Some(view), body)
            }
            Err(refusal) => (None, Some(refusal)),
        };
        Understood { protocol: Some(protocol), view, refusal: headers.err().or(body) }
    }

    /// The names of a request that nothing speaks against. What is left to check is checked here: the words of an ask
    /// that was not seen before, and the operator's facts.
    fn name(
        &self,
        request: &GraphRequest<'_>,
        tenant: TenantKey,
        understood: &mut Understood<'_>,
    ) -> Option<Named> {
        let (None, Some(view)) = (&understood.refusal, &understood.view) else { return None };
        let ask = view.ask.as_deref().unwrap_or("");
        let factors = match request.factors {
            Factors::Known(known) => known,
            Factors::Unknown(name) => {
                let unknown = Refusal::new(Reason::FactorUnknown, name);
                understood.refusal = Some(check_words(ask).err().unwrap_or(unknown));
                return None;
            }
        };
        let input = ScopeInput {
            tenant,
            upstream: request.upstream,
            method: request.method,
            path: request.path,
            query: request.query,
            headers: request.headers,
            factors,
        };
        let scope = scope_key(&self.scope_secret, &input, view);
        let entry = Digest(request_key(&self.scope_secret, &scope, ask).0);
        if !self.clean.knows(&entry) {
            if let Err(refusal) = check_words(ask) {
                understood.refusal = Some(refusal);
                return None;
            }
            self.clean.learn(&entry);
        }
        Some(Named { scope, entry })
    }
}

pub(super) fn render(
    protocol: Protocol,
    message: &[u8],
    form: Form,
    now_ms: u64,
) -> Result<Vec<Vec<u8>>, Refusal> {
    let unique = uuid_v7(now_ms).map_err(|_| Refusal::new(Reason::StoreUnavailable, "random"))?;
    replay(protocol, message, form, Fresh { unique: *unique.as_bytes(), created_s: now_ms / 1000 })
}
