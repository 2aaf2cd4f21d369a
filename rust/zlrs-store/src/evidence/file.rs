//! The evidence file: SQLite in WAL mode, every commit fully synchronous, one connection to read and one to write.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use zlrs_graph::{Digest, EdgeRecord, Pool};

use super::sealed::Sealer;
use super::{KeptForm, LabelledPool, PoolLabel, edges, locked};
use crate::StoreError;
use crate::notices::Notices;

/// "zlre" in ASCII.
const APPLICATION_ID: i64 = 0x7a6c_7265;
const EVIDENCE_SCHEMA_VERSION: i64 = 2;
const TABLES: &str = "
CREATE TABLE pools (
    name BLOB PRIMARY KEY, label TEXT NOT NULL, pool TEXT NOT NULL, seal BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE doubts (node BLOB PRIMARY KEY, at_ms INTEGER NOT NULL, seal BLOB NOT NULL) STRICT, WITHOUT ROWID;
";
/// How long a change waits for another process's.
const WRITE_WAIT: Duration = Duration::from_secs(5);
/// How long a read may wait; WAL readers hardly ever do.
const READ_WAIT: Duration = Duration::from_millis(2);

pub struct EvidenceFile {
    path: PathBuf,
    reader: Mutex<Connection>,
    writer: Mutex<Connection>,
    sealer: Sealer,
    notices: Notices,
    broken: Mutex<Option<String>>,
}

impl EvidenceFile {
    pub fn open(path: &Path, key: [u8; 32], notices: Notices, now_ms: u64) -> Result<Self, StoreError> {
        let writer = match connect(path) {
            Err(StoreError::Sqlite { source, .. }) if is_corrupt(&source) => {
                let moved_to = set_aside(path, now_ms)?;
                notices.push(format!(
                    "{} was damaged ({source}) and was moved to {}; every class begins in shadow again",
                    path.display(),
                    moved_to.display()
                ));
                connect(path)?
            }
            other => other?,
        };
        let reader = connect(path)?;
        reader.busy_timeout(READ_WAIT).map_err(StoreError::sqlite("preparing the evidence reader"))?;
        Ok(Self {
            path: path.to_owned(),
            reader: Mutex::new(reader),
            writer: Mutex::new(writer),
            sealer: Sealer::new(key),
            notices,
            broken: Mutex::new(None),
        })
    }

    pub fn broken(&self) -> Option<String> {
        locked(&self.broken).clone()
    }

    fn fail(&self, action: &'static str, source: rusqlite::Error) -> StoreError {
        let error = StoreError::Sqlite { action, source };
        let mut broken = locked(&self.broken);
        if broken.is_none() {
            self.notices.push(format!("routes that need evidence are out of service: {error}"));
            *broken = Some(error.to_string());
        }
        error
    }

    pub fn pool(&self, name: &Digest) -> Option<Pool> {
        let read = self.sealer.read_pool(&locked(&self.reader), name);
        read.ok().flatten().map(|labelled| labelled.pool)
    }

    pub fn pools(&self) -> Vec<LabelledPool> {
        self.sealer.read_pools(&locked(&self.reader)).unwrap_or_default()
    }

    pub fn doubted_ms(&self, node: &Digest) -> Result<Option<u64>, StoreError> {
        self.sealer
            .read_doubt(&locked(&self.reader), node)
            .map_err(StoreError::sqlite("reading the nodes in doubt"))
    }

    pub fn change(
        &self,
        name: &Digest,
        label: &PoolLabel,
        new: &dyn Fn() -> Pool,
        change: &dyn Fn(&mut Pool),
    ) -> Result<Pool, StoreError> {
        self.write("writing evidence", |connection| {
            let known = self.sealer.read_pool(connection, name)?;
            let mut labelled =
                known.unwrap_or_else(|| LabelledPool { name: *name, label: label.clone(), pool: new() });
            change(&mut labelled.pool);
            self.sealer.write_pool(connection, &labelled)?;
            Ok(labelled.pool)
        })
    }

    pub fn doubt(&self, node: &Digest, at_ms: u64) -> Result<(), StoreError> {
        self.write("writing a doubt", |connection| self.sealer.write_doubt(connection, node, at_ms))
    }

    pub fn edge(&self, name: &Digest) -> Result<EdgeRecord, StoreError> {
        self.sealer.read_edge(&locked(&self.reader), name).map_err(StoreError::sqlite("reading an edge"))
    }

    pub fn unsealed_edges(&self) -> Result<Vec<String>, StoreError> {
        self.sealer.unsealed_edges(&locked(&self.reader)).map_err(StoreError::sqlite("reading the edges"))
    }

    pub fn change_edge(
        &self,
        name: &Digest,
        change: &dyn Fn(&mut EdgeRecord),
    ) -> Result<EdgeRecord, StoreError> {
        self.write("writing an edge", |connection| {
            let mut record = self.sealer.read_edge(connection, name)?;
            change(&mut record);
            self.sealer.write_edge(connection, name, record)?;
            Ok(record)
        })
    }

    pub fn keep_form(
        &self,
        network: &Digest,
        kept: &KeptForm,
        at_ms: u64,
        limit: usize,
    ) -> Result<(), StoreError> {
        self.write("writing a form", |connection| {
            self.sealer.write_form(connection, network, kept, at_ms, limit)
        })
    }

    pub fn forms(&self, network: &Digest) -> Vec<KeptForm> {
        self.sealer.read_forms(&locked(&self.reader), network).unwrap_or_default()
    }

    fn write<T>(
        &self,
        action: &'static str,
        work: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        if let Some(reason) = self.broken() {
            return Err(StoreError::Broken(reason));
        }
        if !self.path.exists() {
            let reason = format!("{} was deleted", self.path.display());
            return Err(self.fail(action, rusqlite::Error::InvalidPath(reason.into())));
        }
        let mut connection = locked(&self.writer);
        let done =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).and_then(|transaction| {
                let value = work(&transaction)?;
                transaction.commit()?;
                Ok(value)
            });
        done.map_err(|source| self.fail(action, source))
    }
}

fn connect(path: &Path) -> Result<Connection, StoreError> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            let path = path.to_owned();
            return Err(StoreError::File { action: "making the evidence file", path, source: error });
        }
        _ => {}
    }
    let failed = StoreError::sqlite("opening the evidence file");
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(&failed)?;
    connection.busy_timeout(WRITE_WAIT).map_err(&failed)?;
    let number = |connection: &Connection, what: &str| -> Result<i64, StoreError> {
        connection.query_row(what, [], |row| row.get(0)).map_err(&failed)
    };
    let application = number(&connection, "PRAGMA application_id")?;
    let tables = number(&connection, "SELECT count(*) FROM sqlite_schema")?;
    if application != APPLICATION_ID && (application != 0 || tables != 0) {
        return Err(StoreError::ForeignDatabase { path: path.to_owned(), found: application });
    }
    connection
        .execute_batch(
            "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 4194304",
        )
        .map_err(&failed)?;
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&failed)?;
    let found = number(&transaction, "PRAGMA user_version")?;
    if found > EVIDENCE_SCHEMA_VERSION {
        let path = path.to_owned();
        return Err(StoreError::SchemaTooNew { path, found, known: EVIDENCE_SCHEMA_VERSION });
    }
    if found < EVIDENCE_SCHEMA_VERSION {
        let settings = format!(
            "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {EVIDENCE_SCHEMA_VERSION}"
        );
        let first = if found == 0 { TABLES } else { "" };
        transaction
            .execute_batch(first)
            .and_then(|()| transaction.execute_batch(edges::TABLES))
            .and_then(|()| transaction.execute_batch(&settings))
            .map_err(&failed)?;
    }
    transaction.commit().map_err(&failed)?;
    let verdict: String =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(&failed)?;
    if verdict != "ok" {
        let corrupt = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
        return Err(failed(rusqlite::Error::SqliteFailure(corrupt, Some(verdict))));
    }
    Ok(connection)
}

fn is_corrupt(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

fn set_aside(path: &Path, now_ms: u64) -> Result<PathBuf, StoreError> {
    let beside = |path: &Path, suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let moved_to = beside(path, &format!("-damaged-{now_ms}"));
    for suffix in ["-wal", "-shm", ""] {
        let from = beside(path, suffix);
        if from.exists() {
            fs::rename(&from, beside(&moved_to, suffix)).map_err(|source| StoreError::File {
                action: "setting the damaged evidence file aside",
                path: from.clone(),
                source,
            })?;
        }
    }
    Ok(moved_to)
}
