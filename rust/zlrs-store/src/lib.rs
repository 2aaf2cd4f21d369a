//! Where the decision graph keeps its answers, and the graph itself: [`Graph`] puts the pure decisions of
//! `zlrs-graph` together with a [`Store`] (SQLite, or memory), the keys that sign entries and the audit log.
#![forbid(unsafe_code)]

mod audit;
mod directory;
mod entry;
mod error;
mod evidence;
mod graph;
mod memory;
mod notices;
mod offline;
mod random;
mod secrets;
mod sqlite;
mod store;
mod transfer;

pub use audit::{Audit, AuditFault, AuditReport, VerifyError, verify_audit};
pub use directory::Directory;
pub use entry::{Draft, Entry, ROW_OVERHEAD_BYTES};
pub use error::StoreError;
pub use evidence::{Evidence, KeptForm, KnownForm, LabelledPool, PoolLabel};
pub use graph::{
    Appointed, Behind, Decision, Factors, Graph, GraphRequest, Judge, Plain, PlainAnswer, PlainTerms,
    Repeated, ReplayError, Settled, Topic, Verdict, repeat,
};
pub use memory::MemoryStore;
pub use notices::Notices;
pub use offline::{EntrySummary, Offline, VerifyReport};
pub use random::{random_bytes, record_id, uuid_v7};
pub use secrets::{Secrets, Verifier};
#[doc(hidden)]
pub use sqlite::Index;
pub use sqlite::{Limits, SCHEMA_VERSION, SetAside, SqliteStore};
pub use store::{Lookup, Purge, Stats, Store, Written};
pub use transfer::Imported;
