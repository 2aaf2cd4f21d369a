//! A whole plain request in, the whole answer out, for hits that need nothing else.

use zlrs_wire::Protocol;
use zlrs_wire::header::Route;
use zlrs_wire::http::{PlainPost, whole_answer};
use zlrs_wire::replay::Form;

use super::{Decision, Factors, Graph, GraphRequest};
use crate::random::uuid_v7;

/// What is the same for every request of a time.
#[derive(Clone, Copy, Debug)]
pub struct PlainTerms<'t> {
    /// Values of `Host` that are served.
    pub hosts: &'t [&'t [u8]],
    /// The upstream's name or base URL, from configuration.
    pub upstream: &'t str,
    /// The value of `Date`.
    pub date: &'t str,
    /// Whether the answer says what was decided.
    pub receipts: bool,
}

/// A decision about a plain request.
#[derive(Clone, Debug)]
pub struct Plain {
    /// The decision, counted and recorded; none where something has to be read first, or the host is not known.
    pub decision: Option<Decision>,
    /// For a hit of the *same* route that needs no check upstream.
    pub answer: Option<PlainAnswer>,
}

/// A hit as it travels.
#[derive(Clone, Debug)]
pub struct PlainAnswer {
    /// Head and body.
    pub sent: Vec<u8>,
    /// Equal for answers with the same content to requests with the same meaning.
    pub mark: [u8; 40],
}

impl Graph {
    /// Decides about `data` where it is one whole plain request ([`PlainPost::read`]) for a host that is served, and
    /// memory has everything it takes. Without a decision nothing is counted or recorded; `None` where `data` is
    /// anything else.
    pub fn answer_plain(&self, data: &[u8], terms: &PlainTerms<'_>, now_ms: u64) -> Option<Plain> {
        let post = PlainPost::read(data)?;
        if !terms.hosts.contains(&post.host) {
            return Some(Plain { decision: None, answer: None });
        }
        let request = GraphRequest {
            method: "POST",
            path: post.path,
            query: post.query,
            headers: &post.headers,
            body: post.body,
            upstream: terms.upstream,
            factors: Factors::Known(&[]),
        };
        let decision = self.decide_now(&request, now_ms);
        let answer =
            decision.as_ref().and_then(|decision| plain_answer(decision, post.protocol, terms, now_ms));
        Some(Plain { decision, answer })
    }
}

fn plain_answer(
    decision: &Decision,
    protocol: Protocol,
    terms: &PlainTerms<'_>,
    now_ms: u64,
) -> Option<PlainAnswer> {
    let (keys, age) = (decision.keys?, decision.age?);
    if decision.pieces.is_empty() || decision.recheck() || decision.route() != Some(Route::Same) {
        return None;
    }
    let id = format!("req_{}", uuid_v7(now_ms).ok()?.simple());
    let shown = decision.header();
    let mut headers = vec![
        ("Content-Type", decision.form.content_type()),
        (if protocol == Protocol::Chat { "x-request-id" } else { "request-id" }, &*id),
        ("Cache-Control", "no-store"),
    ];
    if terms.receipts {
        headers.extend([("X-ZLRS-Request-Id", &*id), ("X-ZLRS-Decision", &*shown)]);
        if !decision.audit.is_empty() {
            headers.push(("X-ZLRS-Audit", &decision.audit));
        }
    }
    if decision.form != Form::Json {
        // Servers in front of us that collect answers before they send them are told not to.
        headers.push(("X-Accel-Buffering", "no"));
    }
    let sent = whole_answer(&headers, terms.date, &decision.pieces)?;
    let mut mark = [0; 40];
    mark[..32].copy_from_slice(&keys.entry.0);
    let created_ms = u64::try_from(u128::from(now_ms).saturating_sub(age.as_millis())).ok()?;
    mark[32..].copy_from_slice(&created_ms.to_le_bytes());
    // What an answer tells of its tokens depends on its form. Times end long before this byte.
    mark[39] = match decision.form {
        Form::Json => 1,
        Form::Stream { include_usage: false } => 2,
        Form::Stream { include_usage: true } => 3,
    };
    Some(PlainAnswer { sent, mark })
}
