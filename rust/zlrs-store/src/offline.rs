//! A graph's directory, looked at without opening the graph: nothing in it is changed, and a running graph is not
//! disturbed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rusqlite::{Connection, OpenFlags};
use serde::Serialize;
use serde_json::Value;
use zlrs_graph::{Digest, Route};

use crate::audit::{VerifyError, verify_audit};
use crate::evidence::{Evidence, LabelledPool};
use crate::notices::Notices;
use crate::secrets::{Secrets, Verifier};
use crate::sqlite::entry_of;
use crate::{Directory, Entry, StoreError};

/// Rows handed to one thread at a time.
const ROWS_AT_ONCE: usize = 512;
/// Signatures checked together: more gain little.
const SIGNATURES_AT_ONCE: usize = 128;
/// Faults named in a report; more are counted.
const FAULTS_NAMED: usize = 100;

/// The row of an entry, without its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EntrySummary {
    /// Row in the database.
    pub row: i64,
    /// See [`Entry::key`]; all names are 64 hexadecimal digits.
    pub key: String,
    /// See [`Entry::node`].
    pub node: String,
    /// See [`Entry::scope`].
    pub scope: String,
    /// See [`Entry::tenant`].
    pub tenant: String,
    /// `same`, `canonical` or `edge`.
    pub route: &'static str,
    /// Unix milliseconds.
    pub created_ms: u64,
    /// Unix milliseconds.
    pub expires_ms: u64,
    /// Length of what is kept.
    pub body_bytes: usize,
    /// BLAKE3 of what is kept.
    pub answer_hash: String,
    /// Which key signed.
    pub key_id: String,
    /// Whether hash and signature hold.
    pub holds: bool,
}

/// What a check of the whole directory found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct VerifyReport {
    /// Entries whose hash and signature hold.
    pub entries: u64,
    /// Pools of evidence whose seal holds.
    pub pools: u64,
    /// Chains that are as they were written.
    pub chains: u64,
    /// Records in them.
    pub records: u64,
    /// Records that were dropped because they came too fast.
    pub dropped_records: u64,
    /// Chains without an end: their process writes still, was killed, or the end was cut off.
    pub open_chains: u64,
    /// How many faults there are.
    pub faults: u64,
    /// The first of them, each with the record's name.
    pub named: Vec<String>,
    /// Time for the entries, milliseconds.
    pub entries_ms: f64,
    /// Time for the chains, milliseconds.
    pub records_ms: f64,
}

impl VerifyReport {
    fn fault(&mut self, what: String) {
        self.faults += 1;
        if self.named.len() < FAULTS_NAMED {
            self.named.push(what);
        }
    }
}

/// A directory, open for reading.
pub struct Offline {
    directory: Directory,
    secrets: Secrets,
    pub(crate) connection: Connection,
}

impl Offline {
    /// Opens the directory of a graph that exists.
    ///
    /// # Errors
    /// When there is no graph, or its key file or database cannot be read.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let missing = |file: &Path| StoreError::File {
            action: "opening the graph",
            path: file.to_owned(),
            source: std::io::ErrorKind::NotFound.into(),
        };
        if !path.join("graph.key").exists() {
            return Err(missing(&path.join("graph.key")));
        }
        let directory = Directory::open(path)?;
        let secrets = Secrets::open(&directory.key())?;
        let database = directory.database();
        if !database.exists() {
            return Err(missing(&database));
        }
        // Not the read-only flag: a database whose last process was killed needs its log read back. Nothing is written.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&database, flags)
            .and_then(|connection| connection.execute_batch("PRAGMA query_only = ON").map(|()| connection))
            .map_err(StoreError::sqlite("opening the graph database"))?;
        Ok(Self { directory, secrets, connection })
    }

    /// The public key that entries and chains are signed with, 64 hexadecimal digits.
    pub fn public_key(&self) -> String {
        self.secrets.verifier().to_hex()
    }

    /// Every pool of evidence.
    ///
    /// # Errors
    /// When the evidence file cannot be read.
    pub fn pools(&self) -> Result<Vec<LabelledPool>, StoreError> {
        let path = self.directory.evidence();
        if !path.exists() {
            return Ok(Vec::new());
        }
        let key = self.secrets.derived("evidence rows");
        Ok(Evidence::open(&path, key, Notices::default(), 0)?.pools())
    }

    /// Entries whose key, node, scope or tenant begins with these hexadecimal digits, oldest first; all for an empty
    /// text. Linear in the number of entries.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn entries(&self, prefix: &str, limit: usize) -> Result<Vec<EntrySummary>, StoreError> {
        let verifier = self.secrets.verifier();
        let mut found = Vec::new();
        self.each_row(|row, entry| {
            let Some(entry) = entry else { return found.len() < limit };
            let names = [entry.key, entry.node, entry.scope, entry.tenant].map(|name| name.to_hex());
            if names.iter().any(|name| name.starts_with(prefix)) {
                found.push(summary(row, &entry, &verifier));
            }
            found.len() < limit
        })?;
        Ok(found)
    }

    /// The body of the audit record of a decision, and of every record about it.
    ///
    /// # Errors
    /// When a chain cannot be read.
    pub fn records(&self, id: &str) -> Result<Vec<Value>, StoreError> {
        let mut found = Vec::new();
        for path in self.chains()? {
            let text = fs::read_to_string(&path).map_err(|source| StoreError::File {
                action: "reading the audit log",
                path: path.clone(),
                source,
            })?;
            for line in text.lines().filter(|line| line.contains(id)) {
                // A cut last line is what a kill leaves; `verify` names it.
                let Ok(mut line) = serde_json::from_str::<Value>(line) else { continue };
                let body = line["body"].take();
                if body["id"] == id || body["decision"] == id {
                    found.push(body);
                }
            }
        }
        Ok(found)
    }

    /// Checks every signature, hash and seal, and every chain.
    ///
    /// # Errors
    /// When a file cannot be read at all; what is wrong inside is in the report.
    pub fn verify(&self) -> Result<VerifyReport, StoreError> {
        let mut report = VerifyReport::default();
        let began = Instant::now();
        self.verify_entries(&mut report)?;
        report.entries_ms = began.elapsed().as_secs_f64() * 1000.0;
        self.verify_pools(&mut report)?;
        let began = Instant::now();
        let verifier = self.secrets.verifier();
        for path in self.chains()? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            match verify_audit(&path, Some(&verifier)) {
                Ok(chain) => {
                    report.chains += 1;
                    report.records += chain.records;
                    report.dropped_records += chain.dropped_records;
                    report.open_chains += u64::from(!chain.ended);
                }
                Err(VerifyError::Fault(fault)) => report.fault(format!("{name}: {fault}")),
                Err(VerifyError::Unreadable(error)) => return Err(error),
            }
        }
        report.records_ms = began.elapsed().as_secs_f64() * 1000.0;
        Ok(report)
    }

    fn verify_entries(&self, report: &mut VerifyReport) -> Result<(), StoreError> {
        let verifier = self.secrets.verifier();
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let mut batch: Vec<(i64, Option<Entry>)> = Vec::new();
        let mut check = |batch: &mut Vec<(i64, Option<Entry>)>| {
            for (row, entry) in failed(batch, &verifier, threads) {
                let name = entry.as_ref().map_or_else(|| "?".to_owned(), |entry| entry.key.to_hex());
                report.fault(format!("entry {name} (row {row}): its hash or signature does not hold"));
                report.entries = report.entries.wrapping_sub(1);
            }
            report.entries = report.entries.wrapping_add(batch.len() as u64);
            batch.clear();
        };
        self.each_row(|row, entry| {
            batch.push((row, entry));
            if batch.len() >= ROWS_AT_ONCE * threads {
                check(&mut batch);
            }
            true
        })?;
        check(&mut batch);
        Ok(())
    }

    fn verify_pools(&self, report: &mut VerifyReport) -> Result<(), StoreError> {
        let path = self.directory.evidence();
        if !path.exists() {
            return Ok(());
        }
        let key = self.secrets.derived("evidence rows");
        for name in Evidence::open(&path, key, Notices::default(), 0)?.unsealed_edges()? {
            report.fault(format!("edge {name}: its seal does not hold"));
        }
        let believed = self.pools()?;
        report.pools = believed.len() as u64;
        let names = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)
            .and_then(|connection| {
                let mut statement = connection.prepare("SELECT name FROM pools")?;
                let rows = statement.query_map([], |row| row.get::<_, Vec<u8>>(0))?;
                rows.collect::<Result<Vec<_>, _>>()
            })
            .map_err(StoreError::sqlite("reading the evidence"))?;
        for name in names {
            let known = Digest::from_slice(&name);
            if !believed.iter().any(|labelled| Some(labelled.name) == known) {
                let shown = known.map_or_else(|| "?".to_owned(), |name| name.to_hex());
                report.fault(format!("pool {shown}: its seal does not hold"));
            }
        }
        Ok(())
    }

    /// Every row in the order of writing; an entry that cannot be read as one is `None`. Stops when `see` says false.
    pub(crate) fn each_row(&self, mut see: impl FnMut(i64, Option<Entry>) -> bool) -> Result<(), StoreError> {
        let failed = StoreError::sqlite("reading the graph database");
        let mut statement = self
            .connection
            .prepare(
                "SELECT key, scope, node, tenant, route, versions, created_ms, expires_ms, answer_hash, key_id,
                        signature, body, seq
                 FROM entries ORDER BY seq",
            )
            .map_err(&failed)?;
        let mut rows = statement.query([]).map_err(&failed)?;
        while let Some(row) = rows.next().map_err(&failed)? {
            let number: i64 = row.get(12).map_err(&failed)?;
            if !see(number, entry_of(row)) {
                break;
            }
        }
        Ok(())
    }

    fn chains(&self) -> Result<Vec<PathBuf>, StoreError> {
        let folder = self.directory.audit();
        if !folder.exists() {
            return Ok(Vec::new());
        }
        let listed = fs::read_dir(&folder).map_err(|source| StoreError::File {
            action: "listing the audit log",
            path: folder.clone(),
            source,
        })?;
        let mut paths: Vec<PathBuf> = listed
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
            .collect();
        paths.sort();
        Ok(paths)
    }
}

fn summary(row: i64, entry: &Entry, verifier: &Verifier) -> EntrySummary {
    EntrySummary {
        row,
        key: entry.key.to_hex(),
        node: entry.node.to_hex(),
        scope: entry.scope.to_hex(),
        tenant: entry.tenant.to_hex(),
        route: Route::name(entry.route),
        created_ms: entry.created_ms,
        expires_ms: entry.expires_ms,
        body_bytes: entry.body.len(),
        answer_hash: entry.answer_hash.to_hex(),
        key_id: entry.key_id.clone(),
        holds: entry.holds(verifier),
    }
}

/// The rows of a batch that do not hold, checked on all threads.
fn failed<'b>(
    batch: &'b [(i64, Option<Entry>)],
    verifier: &Verifier,
    threads: usize,
) -> Vec<&'b (i64, Option<Entry>)> {
    let bad = |(_, entry): &&(i64, Option<Entry>)| !entry.as_ref().is_some_and(|entry| entry.holds(verifier));
    // Together first; one by one only where something is wrong.
    let search = |part: &'b [(i64, Option<Entry>)]| -> Vec<&'b (i64, Option<Entry>)> {
        part.chunks(SIGNATURES_AT_ONCE)
            .filter(|rows| {
                let entries: Option<Vec<&Entry>> = rows.iter().map(|(_, entry)| entry.as_ref()).collect();
                !entries.is_some_and(|entries| Entry::all_hold(&entries, verifier))
            })
            .flat_map(|rows| rows.iter().filter(bad))
            .collect()
    };
    let share = batch.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            batch.chunks(share).map(|part| (part, scope.spawn(move || search(part)))).collect();
        workers
            .into_iter()
            // A worker that panicked has vouched for nothing.
            .flat_map(|(part, worker)| worker.join().unwrap_or_else(|_| part.iter().collect()))
            .collect()
    })
}
