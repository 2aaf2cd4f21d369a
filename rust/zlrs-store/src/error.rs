//! What can go wrong with a store, each with what to do.

use std::io;
use std::path::PathBuf;

/// Why a store could not be opened or does not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The directory cannot be made or used.
    #[error("the graph directory {path} cannot be used: {source}; give a directory this user may write")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody else may write into the directory.
    #[error(
        "the graph directory {path} may be written by other users (mode {mode:o}); run `chmod 700` on it"
    )]
    DirectoryOpen {
        /// The directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The key file is unreadable, damaged or readable by others.
    #[error("the graph key file {path} cannot be used: {what}")]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        what: String,
    },
    /// The database is of a newer zlrs.
    #[error(
        "{path} has schema version {found}, this zlrs knows up to {known}; upgrade zlrs or use another directory"
    )]
    SchemaTooNew {
        /// The database.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The newest this build reads.
        known: i64,
    },
    /// A database, but not one of ours.
    #[error(
        "{path} is not a graph database (application id {found:#x}); it is left as it is, use another directory"
    )]
    ForeignDatabase {
        /// The file.
        path: PathBuf,
        /// Its application id.
        found: i64,
    },
    /// The database was written under another key file.
    #[error(
        "{path} was written with key {found}, the key file beside it is {expected}; restore the key file or move the database away"
    )]
    KeyMismatch {
        /// The database.
        path: PathBuf,
        /// Key id in the database.
        found: String,
        /// Key id of the key file.
        expected: String,
    },
    /// SQLite refused something.
    #[error("{action} failed: {source}")]
    Sqlite {
        /// What was being done.
        action: &'static str,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// Reading or writing a file failed.
    #[error("{action} failed for {path}: {source}")]
    File {
        /// What was being done.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The settings name patterns that cannot be used.
    #[error(transparent)]
    Settings(#[from] zlrs_graph::SettingsError),
    /// The system gave no random bytes.
    #[error("no random bytes from the system: {0}")]
    Random(String),
    /// A thread could not be started.
    #[error("cannot start the {name} thread: {source}")]
    Thread {
        /// Which one.
        name: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The store broke earlier and serves nothing until it is opened again.
    #[error("the store is out of service: {0}")]
    Broken(String),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// Entries arrive faster than they can be written; this one was dropped and counted.
    #[error("the store's write queue is full; the entry was dropped")]
    QueueFull,
    /// The writer did not answer in time.
    #[error("the store's writer did not answer within {limit_ms} ms")]
    Timeout {
        /// How long was waited.
        limit_ms: u64,
    },
}

impl StoreError {
    /// Adds what was being done to an error of SQLite.
    pub(crate) fn sqlite(action: &'static str) -> impl Fn(rusqlite::Error) -> Self {
        move |source| Self::Sqlite { action, source }
    }
}
