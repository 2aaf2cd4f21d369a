//! Index and bodies in memory, and the one connection that reads. What is in memory, and has not been changed since, a
//! caller looks up where it stands ([`Reader::remembered_now`]): that waits for no disk. Everything else is read by a
//! thread; callers wait for it a bounded time and go on without an answer when it is late.
//!
//! Before each answer it looks whether any connection has committed since (`PRAGMA data_version`, one look into
//! shared memory) and if so reads the rows past the last one it knows. The writer of this process is just another
//! connection to it: there is one way in which news arrives.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use rusqlite::{Connection, OptionalExtension, Row};
use zlrs_graph::{Digest, LookupFacts, Versions, route_of_code};

use super::bodies::Bodies;
use super::index::{Index, Place};
use super::rows::{is_refused, signed, unsigned};
use super::shared::{Shared, add};
use crate::secrets::Verifier;
use crate::{Entry, Lookup};

/// How long news of other connections may be read before a lookup is given up as a miss.
const NEWS_BUDGET: Duration = Duration::from_millis(2);
/// Rows between two looks at the time.
const NEWS_ROWS: i64 = 512;
/// And where nobody may wait.
const FEW_ROWS: i64 = 64;
/// New keys between two looks for rows that are gone.
const PRUNE_AFTER: usize = 4096;
/// A reader hardly ever waits for a lock in WAL mode; when it does, a miss is better.
const LOCK_WAIT: Duration = Duration::from_millis(2);

/// What the thread is asked.
pub enum Request {
    /// One lookup.
    Lookup { key: Digest, now_ms: u64, done: Sender<Lookup> },
    /// Whether something stands against an entry.
    Refuses { entry: Arc<Entry>, done: Sender<bool> },
}

pub struct Reader {
    connection: Connection,
    shared: Arc<Shared>,
    verifier: Verifier,
    index: Index,
    bodies: Bodies,
    data_version: i64,
    purge_epoch: i64,
    last_entry: i64,
    last_tombstone: i64,
    /// News was begun and not finished: the index is behind until it is.
    behind: bool,
    /// Keys noted since the index was last rid of rows that are gone.
    noted_since_prune: usize,
}

impl Reader {
    /// Reads the whole index: about a second for a million entries.
    pub fn new(
        connection: Connection,
        shared: Arc<Shared>,
        verifier: Verifier,
        body_cache_bytes: u64,
    ) -> rusqlite::Result<Self> {
        let mut reader = Self {
            connection,
            shared,
            verifier,
            index: Index::default(),
            bodies: Bodies::new(body_cache_bytes),
            data_version: -1,
            purge_epoch: -1,
            last_entry: 0,
            last_tombstone: 0,
            behind: true,
            noted_since_prune: 0,
        };
        reader.read_news(None, NEWS_ROWS)?;
        reader.connection.busy_timeout(LOCK_WAIT)?;
        Ok(reader)
    }

    /// The answer to a lookup where memory has it; none where a row would have to be read or a signature checked. What
    /// few rows others have committed since is read into memory first: they were written a moment ago.
    pub fn remembered_now(&mut self, key: &Digest, now_ms: u64) -> Option<Lookup> {
        if self.shared.check_file_lately().is_err() {
            return Some(Lookup::Nothing(LookupFacts::Unavailable));
        }
        if !self.read_news(Some(Instant::now()), FEW_ROWS).ok()? {
            return None;
        }
        self.remembered(key, now_ms).ok()
    }

    fn look_up(&mut self, key: &Digest, now_ms: u64) -> Lookup {
        if self.shared.check_file_lately().is_err() {
            return Lookup::Nothing(LookupFacts::Unavailable);
        }
        match self.find(key, now_ms) {
            Ok(lookup) => lookup,
            Err(error) if is_transient(&error) => {
                add(&self.shared.counters.slow, 1);
                Lookup::Nothing(LookupFacts::Slow)
            }
            Err(error) => {
                self.shared.fail_on("reading the graph database", &error);
                Lookup::Nothing(LookupFacts::Unavailable)
            }
        }
    }

    fn find(&mut self, key: &Digest, now_ms: u64) -> rusqlite::Result<Lookup> {
        if !self.read_news(Some(Instant::now() + NEWS_BUDGET), NEWS_ROWS)? {
            add(&self.shared.counters.behind, 1);
            return Ok(Lookup::Nothing(LookupFacts::Behind));
        }
        let place = match self.remembered(key, now_ms) {
            Ok(lookup) => return Ok(lookup),
            Err(place) => place,
        };
        let entry = match self.read_row(place)? {
            Found::Entry(entry) => entry,
            Found::Unreadable => return Ok(self.corrupt(key, place)),
            Found::None => {
                self.index.remove(key);
                return Ok(self.nothing(LookupFacts::Absent));
            }
        };
        if entry.key != *key {
            // Another key with the same first half.
            return Ok(self.nothing(LookupFacts::Absent));
        }
        let holds = if place.verified { entry.body_holds() } else { entry.holds(&self.verifier) };
        if !holds {
            return Ok(self.corrupt(key, place));
        }
        if !place.verified {
            self.index.mark_verified(key);
        }
        self.bodies.insert(place.row, &entry);
        add(&self.shared.counters.found, 1);
        Ok(Lookup::Found(entry))
    }

    /// What memory says of a key; the place of its row where that has to be read.
    fn remembered(&mut self, key: &Digest, now_ms: u64) -> Result<Lookup, Place> {
        let Some(place) = self.index.get(key) else { return Ok(self.nothing(LookupFacts::Absent)) };
        if place.expiry_ms <= now_ms {
            return Ok(self.nothing(LookupFacts::Expired));
        }
        let Some(entry) = self.bodies.get(place.row).filter(|_| place.verified) else { return Err(place) };
        if entry.key != *key {
            return Ok(self.nothing(LookupFacts::Absent));
        }
        if !entry.body_holds() {
            return Ok(self.corrupt(key, place));
        }
        add(&self.shared.counters.found, 1);
        Ok(Lookup::Found(entry))
    }

    fn nothing(&self, facts: LookupFacts) -> Lookup {
        add(&self.shared.counters.absent, 1);
        Lookup::Nothing(facts)
    }

    /// Forgets a row that failed its checks. The row itself stays, for whoever wants to look at it, until the next
    /// answer to the same request replaces it.
    fn corrupt(&mut self, key: &Digest, place: Place) -> Lookup {
        self.index.remove(key);
        self.bodies.remove(place.row);
        add(&self.shared.counters.corrupt, 1);
        self.shared.notices.push(format!(
            "graph entry {} (row {}) failed its hash or signature and is not served",
            key.short(),
            place.row
        ));
        Lookup::Nothing(LookupFacts::Corrupt)
    }

    fn read_row(&self, place: Place) -> rusqlite::Result<Found> {
        let row = signed(place.row);
        self.connection
            .prepare_cached(
                "SELECT key, scope, node, tenant, route, versions, created_ms, expires_ms, answer_hash, key_id,
                        signature, body
                 FROM entries WHERE seq = ?1",
            )?
            .query_row([row], |row| Ok(entry_of(row).map_or(Found::Unreadable, |entry| Found::Entry(Arc::new(entry)))))
            .optional()
            .map(|found| found.unwrap_or(Found::None))
    }

    /// Changes with every commit of another connection.
    fn committed_version(&self) -> rusqlite::Result<i64> {
        self.connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
    }

    /// Reads what was committed since the last look, so many rows between two looks at the time. False when the
    /// deadline came first.
    fn read_news(&mut self, deadline: Option<Instant>, rows_at_once: i64) -> rusqlite::Result<bool> {
        let data_version = self.committed_version()?;
        if data_version == self.data_version && !self.behind {
            return Ok(true);
        }
        self.behind = true;
        let purge_epoch: i64 = self
            .connection
            .prepare_cached("SELECT value FROM meta WHERE name = 'purge_epoch'")?
            .query_row([], |row| row.get(0))?;
        if purge_epoch != self.purge_epoch {
            self.index.clear();
            self.bodies.clear();
            self.last_entry = 0;
            self.purge_epoch = purge_epoch;
        }
        if !self.read_new_entries(deadline, rows_at_once)?
            || !self.read_new_tombstones(deadline, rows_at_once)?
        {
            return Ok(false);
        }
        self.data_version = data_version;
        self.behind = false;
        Ok(true)
    }

    fn read_new_entries(&mut self, deadline: Option<Instant>, rows_at_once: i64) -> rusqlite::Result<bool> {
        let mut statement = self.connection.prepare_cached(
            "SELECT seq, key, expires_ms FROM entries WHERE seq > ?1 ORDER BY seq LIMIT ?2",
        )?;
        loop {
            let mut rows = statement.query([self.last_entry, rows_at_once])?;
            let mut count = 0;
            while let Some(row) = rows.next()? {
                count += 1;
                self.last_entry = row.get(0)?;
                // A key of another length cannot be asked for.
                let Some(key) = Digest::from_slice(row.get_ref(1)?.as_blob().unwrap_or(&[])) else {
                    continue;
                };
                if let Some(old) = self.index.get(&key) {
                    self.bodies.remove(old.row);
                }
                self.index.insert(&key, unsigned(self.last_entry), unsigned(row.get(2)?));
                self.noted_since_prune += 1;
            }
            if count < rows_at_once {
                return Ok(true);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(false);
            }
        }
    }

    fn read_new_tombstones(
        &mut self,
        deadline: Option<Instant>,
        rows_at_once: i64,
    ) -> rusqlite::Result<bool> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT seq, key FROM tombstones WHERE seq > ?1 ORDER BY seq LIMIT ?2")?;
        let mut row_of =
            self.connection.prepare_cached("SELECT seq, expires_ms FROM entries WHERE key = ?1")?;
        loop {
            let mut rows = statement.query([self.last_tombstone, rows_at_once])?;
            let mut count = 0;
            while let Some(row) = rows.next()? {
                count += 1;
                self.last_tombstone = row.get(0)?;
                let Some(key) = Digest::from_slice(row.get_ref(1)?.as_blob().unwrap_or(&[])) else {
                    continue;
                };
                let now: Option<(i64, i64)> =
                    row_of.query_row([key.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
                if let Some(old) = self.index.get(&key) {
                    self.bodies.remove(old.row);
                    self.index.remove(&key);
                }
                if let Some((row, expires_ms)) = now {
                    self.index.insert(&key, unsigned(row), unsigned(expires_ms));
                }
            }
            if count < rows_at_once {
                return Ok(true);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(false);
            }
        }
    }

    /// Rids the index of rows that the limits or their age have removed, after every quarter of new keys and not on a
    /// caller's time. Limits remove the lowest rows first, so one number tells which are gone.
    fn prune(&mut self, now_ms: u64) {
        if self.noted_since_prune < PRUNE_AFTER.max(self.index.len() / 4) {
            return;
        }
        self.noted_since_prune = 0;
        let lowest: rusqlite::Result<Option<i64>> = self
            .connection
            .prepare_cached("SELECT min(seq) FROM entries")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)));
        // An error here shows in the next lookup; keys kept too long only cost memory.
        if let Ok(lowest) = lowest {
            self.index.retain(lowest.map_or(u64::MAX, unsigned), now_ms);
        }
    }
}

/// Answers until every sender is gone. The lock is free between two requests, and gone when the store has closed.
pub fn run(reader: &Mutex<Option<Reader>>, requests: &Receiver<Request>) {
    for request in requests {
        let mut held = reader.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(reader) = held.as_mut() else { return };
        let (key, now_ms, done) = match request {
            Request::Lookup { key, now_ms, done } => (key, now_ms, done),
            Request::Refuses { entry, done } => {
                // What cannot be read is refused.
                let _ = done.send(is_refused(&reader.connection, &entry).unwrap_or(true));
                continue;
            }
        };
        let lookup = reader.look_up(&key, now_ms);
        let (bodies, bytes) = reader.bodies.size();
        reader.shared.counters.cached_bodies.store(bodies as u64, Ordering::Relaxed);
        reader.shared.counters.cached_bytes.store(bytes, Ordering::Relaxed);
        // A caller whose deadline has passed is gone.
        let _ = done.send(lookup);
        reader.prune(now_ms);
    }
}

enum Found {
    Entry(Arc<Entry>),
    None,
    Unreadable,
}

/// None when a column has another type or length than we write: damage that SQLite itself cannot see.
pub fn entry_of(row: &Row<'_>) -> Option<Entry> {
    let digest = |column: usize| Digest::from_slice(row.get_ref(column).ok()?.as_blob().ok()?);
    Some(Entry {
        key: digest(0)?,
        scope: digest(1)?,
        node: digest(2)?,
        tenant: digest(3)?,
        route: route_of_code(row.get(4).ok()?)?,
        versions: Versions::from_bytes(row.get(5).ok()?),
        created_ms: u64::try_from(row.get::<_, i64>(6).ok()?).ok()?,
        expires_ms: u64::try_from(row.get::<_, i64>(7).ok()?).ok()?,
        answer_hash: digest(8)?,
        key_id: row.get(9).ok()?,
        signature: row.get(10).ok()?,
        body: row.get(11).ok()?,
        tags: Vec::new(),
    })
}

/// Another process holds a lock for longer than a lookup may wait, or SQLite gave up on a crowd of them.
fn is_transient(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{
        DatabaseBusy, DatabaseLocked, FileLockingProtocolFailed, OperationInterrupted,
    };
    matches!(
        error.sqlite_error_code(),
        Some(DatabaseBusy | DatabaseLocked | FileLockingProtocolFailed | OperationInterrupted)
    )
}
