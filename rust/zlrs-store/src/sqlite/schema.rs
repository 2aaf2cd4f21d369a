//! The database file: tables, settings of a connection, and what is done with a file that is not right.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use crate::StoreError;

/// Version of the tables. A newer file is refused, an older one would be migrated here.
pub const SCHEMA_VERSION: i64 = 1;
/// "zlrs" in ASCII: tells our files from any other SQLite database.
const APPLICATION_ID: i64 = 0x7a6c_7273;
/// Files up to this size are checked in full at every open; larger ones when they were suspected.
const CHECK_BYTES_MAX: u64 = 32 << 20;
/// How long opening may wait for other processes that open or close.
const OPEN_WAIT: Duration = Duration::from_secs(5);
/// Between two tries.
const OPEN_PAUSE: Duration = Duration::from_millis(5);

/// `seq` only ever grows (AUTOINCREMENT), so a reader sees new rows by looking past the last one it knows.
/// `totals` is kept by triggers, so that every process sees the same size without counting rows.
const TABLES: &str = "
CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE entries (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    key BLOB NOT NULL UNIQUE,
    scope BLOB NOT NULL,
    node BLOB NOT NULL,
    tenant BLOB NOT NULL,
    route INTEGER NOT NULL,
    versions BLOB NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    stored_bytes INTEGER NOT NULL,
    answer_hash BLOB NOT NULL,
    key_id TEXT NOT NULL,
    signature BLOB NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE INDEX entries_by_expiry ON entries (expires_ms);
CREATE TABLE tombstones (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    key BLOB NOT NULL UNIQUE,
    at_ms INTEGER NOT NULL,
    reason TEXT NOT NULL
) STRICT;
CREATE TABLE totals (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    entries INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) STRICT;
INSERT INTO totals VALUES (1, 0, 0);
CREATE TRIGGER entries_added AFTER INSERT ON entries BEGIN
    UPDATE totals SET entries = entries + 1, bytes = bytes + new.stored_bytes;
END;
CREATE TRIGGER entries_removed AFTER DELETE ON entries BEGIN
    UPDATE totals SET entries = entries - 1, bytes = bytes - old.stored_bytes;
END;
";

/// What entries can be purged by. Made where it is missing: files of earlier builds have none, and their entries no tags.
const TAGS: &str = "
CREATE TABLE IF NOT EXISTS tags (
    seq INTEGER NOT NULL,
    tag INTEGER NOT NULL,
    PRIMARY KEY (seq, tag)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS tags_by_tag ON tags (tag);
CREATE TRIGGER IF NOT EXISTS tags_removed AFTER DELETE ON entries BEGIN
    DELETE FROM tags WHERE seq = old.seq;
END;
";

/// What was purged, until when: answers that were asked for before and come after are refused. Made where it is missing.
const PURGES: &str = "
CREATE TABLE IF NOT EXISTS purges (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    what TEXT NOT NULL UNIQUE,
    at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS purges_by_time ON purges (at_ms);
";

/// A database that was found damaged, and where it was put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside {
    /// The damaged file under its new name.
    pub moved_to: PathBuf,
    /// What was wrong with it.
    pub why: String,
}

/// Opens the database for writing, making it when it is not there. A damaged file is renamed, never overwritten.
/// Processes that open at the same time do so one after the other, so that none renames what another has just made.
///
/// # Errors
/// When the file is of a newer schema, of another program or key, or the directory cannot be written.
pub fn open(path: &Path, key_id: &str, now_ms: u64) -> Result<(Connection, Option<SetAside>), StoreError> {
    let give_up = Instant::now() + OPEN_WAIT;
    let _lock = lock(&beside(path, "lock"), give_up)?;
    let mut aside = None;
    loop {
        match try_open(path, key_id) {
            Ok(connection) => return Ok((connection, aside)),
            // A process that closes just now; SQLite does not wait for it in every state by itself.
            Err(StoreError::Sqlite { source, .. }) if is_locked(&source) && Instant::now() < give_up => {
                std::thread::sleep(OPEN_PAUSE);
            }
            Err(StoreError::Sqlite { source, .. }) if is_corrupt(&source) && aside.is_none() => {
                aside = Some(set_aside(path, &source.to_string(), now_ms)?);
            }
            Err(other) => return Err(other),
        }
    }
}

/// A lock that ends with the returned file, or with its process.
fn lock(path: &Path, give_up: Instant) -> Result<File, StoreError> {
    let failed = |source| StoreError::File { action: "locking the graph", path: path.to_owned(), source };
    let file =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path).map_err(failed)?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < give_up => std::thread::sleep(OPEN_PAUSE),
            Err(TryLockError::WouldBlock) => {
                return Err(failed(io::Error::new(
                    io::ErrorKind::WouldBlock,
                    format!("another process has been opening it for {OPEN_WAIT:?}"),
                )));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
    }
}

/// A second connection of the same file, for reading.
///
/// # Errors
/// When SQLite cannot open it.
pub fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection
        .execute_batch("PRAGMA query_only = ON")
        .map_err(StoreError::sqlite("preparing the reading connection"))?;
    Ok(connection)
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let failed = StoreError::sqlite("opening the graph database");
    // NO_MUTEX: each connection belongs to one thread. NOFOLLOW is left out: directories may be links.
    let connection =
        Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(&failed)?;
    connection.busy_timeout(OPEN_WAIT).map_err(&failed)?;
    connection.set_prepared_statement_cache_capacity(32);
    connection
        .execute_batch(
            "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA synchronous = NORMAL",
        )
        .map_err(&failed)?;
    Ok(connection)
}

fn try_open(path: &Path, key_id: &str) -> Result<Connection, StoreError> {
    let failed = StoreError::sqlite("opening the graph database");
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    let application: i64 =
        connection.query_row("PRAGMA application_id", [], |row| row.get(0)).map_err(&failed)?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(&failed)?;
    if application != APPLICATION_ID && (application != 0 || tables != 0) {
        return Err(StoreError::ForeignDatabase { path: path.to_owned(), found: application });
    }
    let mode: String = connection
        .query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
        .map_err(StoreError::sqlite("switching the graph database to its write-ahead log"))?;
    if mode != "wal" {
        return Err(StoreError::Broken(format!(
            "{} is on a file system without a write-ahead log (journal mode {mode}); use a local directory",
            path.display()
        )));
    }
    connection
        .execute_batch("PRAGMA journal_size_limit = 67108864")
        .map_err(StoreError::sqlite("limiting the write-ahead log"))?;
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&failed)?;
    prepare(&transaction, path, key_id)?;
    transaction.commit().map_err(&failed)?;
    let suspected = suspicion(path).exists();
    if suspected || fs::metadata(path).is_ok_and(|metadata| metadata.len() <= CHECK_BYTES_MAX) {
        check(&connection)?;
        if suspected {
            // Best effort: a mark that stays costs one more check at the next start.
            let _ = fs::remove_file(suspicion(path));
        }
    }
    Ok(connection)
}

/// Makes the tables in an empty file; checks version and key in any other.
fn prepare(transaction: &Transaction<'_>, path: &Path, key_id: &str) -> Result<(), StoreError> {
    let failed = StoreError::sqlite("preparing the graph database");
    let version: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(&failed)?;
    if version > SCHEMA_VERSION {
        return Err(StoreError::SchemaTooNew {
            path: path.to_owned(),
            found: version,
            known: SCHEMA_VERSION,
        });
    }
    if version == 0 {
        transaction.execute_batch(TABLES).map_err(&failed)?;
        transaction.execute_batch(TAGS).map_err(&failed)?;
        transaction.execute_batch(PURGES).map_err(&failed)?;
        transaction
            .execute("INSERT INTO meta VALUES ('key_id', ?1), ('purge_epoch', 0)", [key_id])
            .map_err(&failed)?;
        transaction
            .execute_batch(&format!(
                "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION}"
            ))
            .map_err(&failed)?;
        return Ok(());
    }
    let found: String = transaction
        .query_row("SELECT value FROM meta WHERE name = 'key_id'", [], |row| row.get(0))
        .map_err(&failed)?;
    if found != key_id {
        return Err(StoreError::KeyMismatch { path: path.to_owned(), found, expected: key_id.to_owned() });
    }
    transaction.execute_batch(TAGS).map_err(&failed)?;
    transaction.execute_batch(PURGES).map_err(&failed)
}

fn check(connection: &Connection) -> Result<(), StoreError> {
    let verdict: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(StoreError::sqlite("checking the graph database"))?;
    if verdict == "ok" {
        return Ok(());
    }
    let source = rusqlite::Error::SqliteFailure(
        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT),
        Some(verdict),
    );
    Err(StoreError::Sqlite { action: "checking the graph database", source })
}

/// Whether an error says that another connection holds a lock.
pub fn is_locked(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Whether an error says that the file itself is damaged.
pub fn is_corrupt(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// The mark that a running process leaves when it met damage: the next opening then checks the whole file.
fn suspicion(path: &Path) -> PathBuf {
    beside(path, "suspect")
}

/// Leaves the mark of [`suspicion`].
pub fn suspect(path: &Path) {
    // Best effort: without the mark a large damaged file is only noticed again when its pages are read.
    let _ = fs::write(suspicion(path), b"");
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-");
    name.push(suffix);
    PathBuf::from(name)
}

fn set_aside(path: &Path, why: &str, now_ms: u64) -> Result<SetAside, StoreError> {
    let moved_to = beside(path, &format!("damaged-{now_ms}"));
    let failed = |source: io::Error| StoreError::File {
        action: "setting the damaged graph database aside",
        path: path.to_owned(),
        source,
    };
    for suffix in ["wal", "shm"] {
        let from = beside(path, suffix);
        if from.exists() {
            fs::rename(&from, beside(&moved_to, suffix)).map_err(failed)?;
        }
    }
    fs::rename(path, &moved_to).map_err(failed)?;
    // The mark belonged to the file that was moved; a leftover only costs one more check.
    let _ = fs::remove_file(suspicion(path));
    Ok(SetAside { moved_to, why: why.to_owned() })
}
