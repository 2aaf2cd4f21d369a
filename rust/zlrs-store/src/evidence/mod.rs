//! Where evidence is kept: pools of trials and nodes in doubt.
//!
//! Every change is on the disk when it returns, like a tombstone, and is made inside one transaction, so that several
//! processes count in one pool. What is read comes from the file each time: a class that another process has sent to
//! shadow serves nothing here either. Evidence that cannot be written takes the routes that need it out of service and
//! nothing else.

mod edges;
mod file;
mod sealed;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use zlrs_fingerprint::Fingerprint;
use zlrs_graph::{Digest, EdgeRecord, Pool};

use crate::StoreError;
use crate::notices::Notices;
use file::EvidenceFile;

/// What a pool is about, for people. Tenants stay hashed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolLabel {
    /// The claim: `canonical` or `edge`.
    pub route: String,
    /// `closed` or `prose`.
    pub kind: String,
    /// The language of the asks.
    pub language: String,
    /// Whose asks, 16 digits of the keyed hash.
    pub tenant: String,
    /// The upstream, as configured.
    pub upstream: String,
    /// The model that is asked for.
    pub model: String,
}

/// A pool under its name.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelledPool {
    /// The class.
    pub name: Digest,
    /// The class, for people.
    pub label: PoolLabel,
    /// What its trials have shown.
    pub pool: Pool,
}

/// A form that was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownForm {
    /// Scope and template.
    pub node: Digest,
    /// The template alone.
    pub template: Digest,
}

/// A form as it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptForm {
    /// Everything but the ask.
    pub scope: Digest,
    /// Which form.
    pub form: KnownForm,
    /// Where it lies.
    pub fingerprint: Fingerprint,
}

/// Most forms a file keeps; then the oldest goes.
const FORMS_KEPT: usize = 1_000_000;

/// Pools, doubts, edges and forms of one graph. All methods may be called from any thread; those that write wait for the disk.
pub struct Evidence {
    place: Place,
}

enum Place {
    Memory(Mutex<Memory>),
    File(Box<EvidenceFile>),
}

#[derive(Default)]
struct Memory {
    pools: HashMap<Digest, LabelledPool>,
    doubts: HashMap<Digest, u64>,
    edges: HashMap<Digest, EdgeRecord>,
}

impl Evidence {
    /// Evidence that lives and dies with the process.
    pub fn memory() -> Self {
        Self { place: Place::Memory(Mutex::default()) }
    }

    /// The evidence of a file, which is made when it is not there. A damaged one is renamed and said in `notices`; its
    /// classes begin in shadow again. `key` seals each row.
    ///
    /// # Errors
    /// When the file cannot be made or belongs to another program.
    pub fn open(path: &Path, key: [u8; 32], notices: Notices, now_ms: u64) -> Result<Self, StoreError> {
        Ok(Self { place: Place::File(Box::new(EvidenceFile::open(path, key, notices, now_ms)?)) })
    }

    /// A pool as it is now. None where there is none, or where it cannot be read: what is not known is not served.
    pub fn pool(&self, name: &Digest) -> Option<Pool> {
        match &self.place {
            Place::Memory(memory) => locked(memory).pools.get(name).map(|labelled| labelled.pool.clone()),
            Place::File(file) => file.pool(name),
        }
    }

    /// Every pool, by name.
    pub fn pools(&self) -> Vec<LabelledPool> {
        let mut pools = match &self.place {
            Place::Memory(memory) => locked(memory).pools.values().cloned().collect(),
            Place::File(file) => file.pools(),
        };
        pools.sort_by_key(|labelled| labelled.name);
        pools
    }

    /// Changes a pool, or a new one made by `new`; returns it as it is then. Durable on return.
    ///
    /// # Errors
    /// When it could not be made durable; the routes that need evidence are then out of service.
    pub fn change(
        &self,
        name: &Digest,
        label: &PoolLabel,
        new: impl Fn() -> Pool,
        change: impl Fn(&mut Pool),
    ) -> Result<Pool, StoreError> {
        match &self.place {
            Place::Memory(memory) => {
                let mut memory = locked(memory);
                let labelled = memory.pools.entry(*name).or_insert_with(|| LabelledPool {
                    name: *name,
                    label: label.clone(),
                    pool: new(),
                });
                change(&mut labelled.pool);
                Ok(labelled.pool.clone())
            }
            Place::File(file) => file.change(name, label, &new, &change),
        }
    }

    /// When a node was put in doubt last. `Err` where it cannot be read.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn doubted_ms(&self, node: &Digest) -> Result<Option<u64>, StoreError> {
        match &self.place {
            Place::Memory(memory) => Ok(locked(memory).doubts.get(node).copied()),
            Place::File(file) => file.doubted_ms(node),
        }
    }

    /// Puts a node in doubt: its entries serve no more until a later answer confirms them. Durable on return.
    ///
    /// # Errors
    /// As for [`Evidence::change`].
    pub fn doubt(&self, node: &Digest, at_ms: u64) -> Result<(), StoreError> {
        match &self.place {
            Place::Memory(memory) => {
                let mut memory = locked(memory);
                let latest = memory.doubts.get(node).map_or(at_ms, |earlier| at_ms.max(*earlier));
                memory.doubts.insert(*node, latest);
                Ok(())
            }
            Place::File(file) => file.doubt(node, at_ms),
        }
    }

    /// What an edge has shown.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn edge(&self, name: &Digest) -> Result<EdgeRecord, StoreError> {
        match &self.place {
            Place::Memory(memory) => Ok(locked(memory).edges.get(name).copied().unwrap_or_default()),
            Place::File(file) => file.edge(name),
        }
    }

    /// Names of edges whose seal does not hold.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn unsealed_edges(&self) -> Result<Vec<String>, StoreError> {
        match &self.place {
            Place::Memory(_) => Ok(Vec::new()),
            Place::File(file) => file.unsealed_edges(),
        }
    }

    /// Changes what an edge has shown; returns it as it is then. Durable on return.
    ///
    /// # Errors
    /// As for [`Evidence::change`].
    pub fn change_edge(
        &self,
        name: &Digest,
        change: impl Fn(&mut EdgeRecord),
    ) -> Result<EdgeRecord, StoreError> {
        match &self.place {
            Place::Memory(memory) => {
                let mut memory = locked(memory);
                let record = memory.edges.entry(*name).or_default();
                change(record);
                Ok(*record)
            }
            Place::File(file) => file.change_edge(name, &change),
        }
    }

    /// Keeps a form for the next start, under the name of the network that made its fingerprint.
    ///
    /// # Errors
    /// As for [`Evidence::change`].
    pub fn keep_form(
        &self,
        network: &Digest,
        scope: &Digest,
        form: &KnownForm,
        fingerprint: &Fingerprint,
        at_ms: u64,
    ) -> Result<(), StoreError> {
        let kept = KeptForm { scope: *scope, form: *form, fingerprint: *fingerprint };
        match &self.place {
            Place::Memory(_) => Ok(()),
            Place::File(file) => file.keep_form(network, &kept, at_ms, FORMS_KEPT),
        }
    }

    /// The forms that were kept under the name of a network, oldest first.
    pub fn forms(&self, network: &Digest) -> Vec<KeptForm> {
        match &self.place {
            Place::Memory(_) => Vec::new(),
            Place::File(file) => file.forms(network),
        }
    }

    /// Why nothing can be counted any more, if so.
    pub fn broken(&self) -> Option<String> {
        match &self.place {
            Place::Memory(_) => None,
            Place::File(file) => file.broken(),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
