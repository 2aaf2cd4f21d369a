//! Whose credential the upstream accepted, and whose it refused: a revoked key must not go on getting answers.

use hashlink::LruCache;
use serde::{Deserialize, Serialize};

use crate::Digest;

/// Tenants remembered; one that is forgotten gets no hit until the upstream accepts it again.
const TENANTS_MAX: usize = 65_536;

/// What the upstream last said to a tenant. Times are those of the request, not of the answer, so that an old
/// acceptance that arrives late does not undo a later refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    /// When the latest accepted request was made, Unix milliseconds.
    pub accepted_ms: Option<u64>,
    /// When the latest refused one was.
    pub refused_ms: Option<u64>,
}

/// Credentials of all tenants of one graph, in memory, bounded.
pub struct Credentials {
    tenants: LruCache<Digest, Credential>,
}

impl Default for Credentials {
    fn default() -> Self {
        Self { tenants: LruCache::new(TENANTS_MAX) }
    }
}

impl Credentials {
    /// What is known of a tenant.
    pub fn of(&mut self, tenant: &Digest) -> Credential {
        self.tenants.get(tenant).copied().unwrap_or_default()
    }

    /// Notes the upstream's status for a request made at `asked_ms`: 2xx accepts, 401 and 403 refuse, anything else
    /// says nothing about the credential.
    pub fn note(&mut self, tenant: &Digest, status: u16, asked_ms: u64) {
        let accepts = (200..300).contains(&status);
        if !accepts && status != 401 && status != 403 {
            return;
        }
        let mut credential = self.of(tenant);
        let field = if accepts { &mut credential.accepted_ms } else { &mut credential.refused_ms };
        *field = Some(field.map_or(asked_ms, |earlier| earlier.max(asked_ms)));
        self.tenants.insert(*tenant, credential);
    }
}
