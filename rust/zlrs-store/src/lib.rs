//! Where the decision graph keeps its answers: one trait, a SQLite store with a writing and a reading thread, a store
//! in memory, the keys that sign entries.
#![forbid(unsafe_code)]

mod directory;
mod entry;
mod error;
mod memory;
mod notices;
mod random;
mod secrets;
mod sqlite;
mod store;

pub use directory::Directory;
pub use entry::{Draft, Entry, ROW_OVERHEAD_BYTES};
pub use error::StoreError;
pub use memory::MemoryStore;
pub use notices::Notices;
pub use random::{random_bytes, record_id};
pub use secrets::{Secrets, Verifier};
pub use sqlite::{Limits, SCHEMA_VERSION, SetAside, SqliteStore};
pub use store::{Lookup, Purge, Stats, Store, Written};
