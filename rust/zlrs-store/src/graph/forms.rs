//! The forms that were asked, by scope: where the *edge* route looks for near ones. In bounded memory; a form that is
//! forgotten costs a later comparison and nothing else.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashlink::LruCache;
use zlrs_fingerprint::{Fingerprint, Forms};
use zlrs_graph::Digest;

use crate::evidence::KnownForm;

/// Scopes remembered: conversations make new ones all the time.
const SCOPES: usize = 4096;

#[derive(Clone)]
struct OfScope {
    forms: Forms<KnownForm>,
    nodes: HashSet<Digest>,
}

struct Scopes {
    of: LruCache<Digest, Arc<OfScope>>,
    total: usize,
}

/// Forms of all scopes.
pub(super) struct FormMemory {
    scopes: Mutex<Scopes>,
    capacity: usize,
}

impl FormMemory {
    /// For so many forms in all.
    pub fn new(capacity: usize) -> Self {
        Self { scopes: Mutex::new(Scopes { of: LruCache::new_unbounded(), total: 0 }), capacity }
    }

    fn scopes(&self) -> MutexGuard<'_, Scopes> {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a form; false where it was known. Where there are too many, the scope that was not asked in for the longest
    /// time goes.
    pub fn add(&self, scope: &Digest, fingerprint: &Fingerprint, form: KnownForm) -> bool {
        let mut scopes = self.scopes();
        let fresh = || Arc::new(OfScope { forms: Forms::new(self.capacity), nodes: HashSet::new() });
        let of_scope = scopes.of.entry(*scope).or_insert_with(fresh);
        if of_scope.nodes.contains(&form.node) {
            return false;
        }
        // Copied only while somebody looks at it.
        let of_scope = Arc::make_mut(of_scope);
        of_scope.nodes.insert(form.node);
        match of_scope.forms.add(fingerprint, form) {
            Some(oldest) => {
                of_scope.nodes.remove(&oldest.node);
            }
            None => scopes.total += 1,
        }
        while scopes.total > self.capacity || scopes.of.len() > SCOPES {
            let Some((_, oldest)) = scopes.of.remove_lru() else { break };
            scopes.total -= oldest.forms.len();
        }
        true
    }

    /// The nearest forms of a scope with their cosines. Linear in the forms of the scope.
    pub fn nearest(
        &self,
        scope: &Digest,
        fingerprint: &Fingerprint,
        least: f32,
        count: usize,
    ) -> Vec<(f32, KnownForm)> {
        let Some(of_scope) = self.scopes().of.get(scope).map(Arc::clone) else { return Vec::new() };
        let near = of_scope.forms.nearest(fingerprint, least, count);
        near.into_iter().map(|near| (near.cosine, *near.value)).collect()
    }

    /// Forms in all scopes.
    pub fn len(&self) -> u64 {
        self.scopes().total as u64
    }
}
