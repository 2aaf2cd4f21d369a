//! One stored answer: what is kept, and what is signed.

use zlrs_graph::{Digest, EntryFacts, Route, Versions, route_code};

use crate::secrets::{Secrets, Verifier};

/// Fixed cost of a row beside its body, for the byte limit: keys, signature, indexes.
pub const ROW_OVERHEAD_BYTES: u64 = 512;

/// An answer under its key, signed. Only [`Entry::seal`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Route, node and values: what a request must equal to get this answer.
    pub key: Digest,
    /// Everything beside the ask that must be equal.
    pub scope: Digest,
    /// Scope and form.
    pub node: Digest,
    /// Whose answer it is.
    pub tenant: Digest,
    /// The route it may be served on.
    pub route: Route,
    /// Rules it was written under.
    pub versions: Versions,
    /// When it was asked for upstream, Unix milliseconds: what was withdrawn or purged while the upstream was answering
    /// is older than that, and an answer's age counts from there, as it does in HTTP (RFC 9111, section 4.2.3).
    pub created_ms: u64,
    /// When it stops being served, Unix milliseconds.
    pub expires_ms: u64,
    /// The answer as the graph keeps it; the store does not look inside.
    pub body: Vec<u8>,
    /// BLAKE3 of the body.
    pub answer_hash: Digest,
    /// Which key signed.
    pub key_id: String,
    /// Ed25519 over everything above but the body, which its hash stands for.
    pub signature: [u8; 64],
    /// Keyed hashes of what it can be purged by. Not signed, and not read back: they decide nothing but what is removed.
    pub tags: Vec<u64>,
}

/// The parts of an entry before it is sealed.
#[derive(Clone, Debug)]
pub struct Draft {
    /// See [`Entry::key`].
    pub key: Digest,
    /// See [`Entry::scope`].
    pub scope: Digest,
    /// See [`Entry::node`].
    pub node: Digest,
    /// See [`Entry::tenant`].
    pub tenant: Digest,
    /// See [`Entry::route`].
    pub route: Route,
    /// See [`Entry::created_ms`].
    pub created_ms: u64,
    /// See [`Entry::expires_ms`].
    pub expires_ms: u64,
    /// See [`Entry::body`].
    pub body: Vec<u8>,
}

impl Entry {
    /// Hashes the body and signs the rest, under the rules of this build.
    pub fn seal(draft: Draft, secrets: &Secrets) -> Self {
        let mut entry = Self {
            answer_hash: Digest::of(&draft.body),
            key: draft.key,
            scope: draft.scope,
            node: draft.node,
            tenant: draft.tenant,
            route: draft.route,
            versions: Versions::CURRENT,
            created_ms: draft.created_ms,
            expires_ms: draft.expires_ms,
            body: draft.body,
            key_id: secrets.verifier().key_id(),
            signature: [0; 64],
            tags: Vec::new(),
        };
        entry.signature = secrets.sign(&entry.signed_bytes());
        entry
    }

    /// With what it can be purged by.
    #[must_use]
    pub fn with_tags(mut self, tags: Vec<u64>) -> Self {
        self.tags = tags;
        self
    }

    /// What a decision needs to know.
    pub fn facts(&self) -> EntryFacts {
        EntryFacts {
            created_ms: self.created_ms,
            expires_ms: self.expires_ms,
            answer_hash: self.answer_hash,
            versions: self.versions,
        }
    }

    /// Bytes this entry counts for against the store's limit.
    pub fn stored_bytes(&self) -> u64 {
        self.body.len() as u64 + ROW_OVERHEAD_BYTES
    }

    /// Whether the body is still the one that was signed. Checked on every hit.
    pub fn body_holds(&self) -> bool {
        Digest::of(&self.body) == self.answer_hash
    }

    /// Whether body and signature hold. Checked when a row is first read.
    pub fn holds(&self, verifier: &Verifier) -> bool {
        self.body_holds()
            && self.key_id == verifier.key_id()
            && verifier.holds(&self.signed_bytes(), &self.signature)
    }

    /// Whether all of them hold, signatures checked together. Where one does not, this does not say which.
    pub(crate) fn all_hold(entries: &[&Self], verifier: &Verifier) -> bool {
        let key_id = verifier.key_id();
        if !entries.iter().all(|entry| entry.body_holds() && entry.key_id == key_id) {
            return false;
        }
        let messages: Vec<Vec<u8>> = entries.iter().map(|entry| entry.signed_bytes()).collect();
        let messages: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
        let signatures: Vec<[u8; 64]> = entries.iter().map(|entry| entry.signature).collect();
        verifier.all_hold(&messages, &signatures)
    }

    /// The signed message: a domain name, then every field, each of a fixed or stated length.
    fn signed_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(288);
        bytes.extend_from_slice(b"zlrs.entry.1\0");
        for digest in [&self.key, &self.scope, &self.node, &self.tenant, &self.answer_hash] {
            bytes.extend_from_slice(digest.as_bytes());
        }
        bytes.push(route_code(self.route));
        bytes.extend_from_slice(&self.versions.to_bytes());
        bytes.extend_from_slice(&self.created_ms.to_le_bytes());
        bytes.extend_from_slice(&self.expires_ms.to_le_bytes());
        bytes.extend_from_slice(&(self.key_id.len() as u64).to_le_bytes());
        bytes.extend_from_slice(self.key_id.as_bytes());
        bytes
    }
}
