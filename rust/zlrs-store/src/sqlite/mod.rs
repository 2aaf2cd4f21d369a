//! The default store: one SQLite file in WAL mode, one writing and one reading thread.

mod bodies;
mod index;
mod reader;
mod rows;
mod schema;
mod shared;
mod writer;

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, TrySendError, bounded};
use zlrs_graph::{Digest, LookupFacts};

pub use index::Index;
pub(crate) use reader::entry_of;
pub use schema::{SCHEMA_VERSION, SetAside};

use crate::notices::Notices;
use crate::secrets::Secrets;
use crate::{Entry, Lookup, Purge, Stats, Store, StoreError, Written};
use reader::{Reader, Request};
use rows::Removal;
use shared::{Counters, Shared, add};
use writer::{Command, Put, Writer};

/// Entries that may wait for the writer.
const QUEUE_ENTRIES: usize = 1024;
/// Bytes of bodies that may wait for the writer.
const QUEUE_BYTES: u64 = 64 << 20;
/// Tombstones, purges and flushes that may wait; their callers wait with them.
const QUEUE_COMMANDS: usize = 64;
/// Lookups that may wait for the reader.
const QUEUE_LOOKUPS: usize = 256;
/// How long callers wait for a tombstone, purge or flush. Longer than the writer tries for the lock.
const COMMAND_WAIT: Duration = Duration::from_secs(30);

/// Sizes of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Entries kept; the oldest go first.
    pub max_entries: u64,
    /// Bytes kept, counted as [`Entry::stored_bytes`].
    pub max_bytes: u64,
    /// Bytes of bodies kept in memory.
    pub body_cache_bytes: u64,
    /// How long a lookup may take before it is a miss.
    pub read_deadline: Duration,
}

impl Default for Limits {
    /// A million entries, 1 GiB on disk, 32 MiB in memory, 5 ms.
    fn default() -> Self {
        Self {
            max_entries: 1_000_000,
            max_bytes: 1 << 30,
            body_cache_bytes: 24 << 20,
            read_deadline: Duration::from_millis(5),
        }
    }
}

/// A store in one SQLite file, shared by any number of processes of one machine.
pub struct SqliteStore {
    shared: Arc<Shared>,
    /// Taken out when the store closes.
    reader: Arc<Mutex<Option<Reader>>>,
    read_deadline: Duration,
    senders: Mutex<Option<Senders>>,
    threads: Mutex<Option<Threads>>,
    /// The process whose threads these are.
    process: u32,
}

struct Threads {
    reader: JoinHandle<()>,
    writer: JoinHandle<()>,
}

#[derive(Clone)]
struct Senders {
    entries: Sender<Put>,
    commands: Sender<Command>,
    lookups: Sender<Request>,
}

impl SqliteStore {
    /// Opens the file, makes it when it is not there, reads its index and starts the threads. A damaged file is
    /// renamed and said in `notices`; `now_ms` names the renamed file.
    ///
    /// # Errors
    /// When the file cannot be used; it is then left as it was.
    pub fn open(
        path: &Path,
        secrets: &Secrets,
        limits: Limits,
        notices: Notices,
        now_ms: u64,
    ) -> Result<Self, StoreError> {
        create_private(path)?;
        let verifier = secrets.verifier();
        let (connection, aside) = schema::open(path, &verifier.key_id(), now_ms)?;
        if let Some(aside) = aside {
            notices.push(format!(
                "{} was damaged ({}) and was moved to {}; a new, empty graph database was started",
                path.display(),
                aside.why,
                aside.moved_to.display()
            ));
        }
        let shared = Arc::new(Shared::new(path.to_owned(), notices)?);
        let (entries, entries_in) = bounded(QUEUE_ENTRIES);
        let (commands, commands_in) = bounded(QUEUE_COMMANDS);
        let (lookups, lookups_in) = bounded(QUEUE_LOOKUPS);
        let reader =
            Reader::new(schema::open_reader(path)?, Arc::clone(&shared), verifier, limits.body_cache_bytes)
                .map_err(StoreError::sqlite("reading the graph's index"))?;
        let writer = Writer::new(connection, Arc::clone(&shared), limits, entries_in, commands_in)?;
        let reader = Arc::new(Mutex::new(Some(reader)));
        let read_in = Arc::clone(&reader);
        let threads = Threads {
            reader: spawn("zlrs-store-read", move || reader::run(&read_in, &lookups_in))?,
            writer: spawn("zlrs-store-write", move || writer.run())?,
        };
        Ok(Self {
            shared,
            reader,
            read_deadline: limits.read_deadline,
            senders: Mutex::new(Some(Senders { entries, commands, lookups })),
            threads: Mutex::new(Some(threads)),
            process: std::process::id(),
        })
    }

    fn senders(&self) -> Result<Senders, StoreError> {
        self.shared.check()?;
        self.senders.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or(StoreError::Closed)
    }

    /// Sends a command and waits for its answer. The queue is bounded by making the caller wait, never by dropping.
    fn command<T>(
        &self,
        make: impl FnOnce(Sender<Result<T, StoreError>>) -> Command,
    ) -> Result<T, StoreError> {
        let late = || StoreError::Timeout { limit_ms: COMMAND_WAIT.as_millis() as u64 };
        let (done, answer) = bounded(1);
        self.senders()?.commands.send_timeout(make(done), COMMAND_WAIT).map_err(|_| late())?;
        match answer.recv_timeout(COMMAND_WAIT) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => Err(late()),
            Err(RecvTimeoutError::Disconnected) => Err(StoreError::Closed),
        }
    }

    /// What memory answers, where nobody else is at it.
    fn remembered(&self, key: &Digest, now_ms: u64) -> Option<Lookup> {
        // A connection may not be used after a fork.
        if self.process != std::process::id() || self.shared.broken().is_some() {
            return None;
        }
        self.reader.try_lock().ok()?.as_mut()?.remembered_now(key, now_ms)
    }

    fn counters(&self) -> &Counters {
        &self.shared.counters
    }
}

impl Store for SqliteStore {
    fn get(&self, key: &Digest, now_ms: u64) -> Lookup {
        if let Some(lookup) = self.remembered(key, now_ms) {
            return lookup;
        }
        let Ok(senders) = self.senders() else { return Lookup::Nothing(LookupFacts::Unavailable) };
        ask(&senders.lookups, key, now_ms, self.read_deadline).unwrap_or_else(|facts| {
            if facts == LookupFacts::Slow {
                add(&self.counters().slow, 1);
            }
            Lookup::Nothing(facts)
        })
    }

    fn get_now(&self, key: &Digest, now_ms: u64) -> Option<Lookup> {
        self.remembered(key, now_ms)
    }

    fn put(&self, entry: Entry, wait: Duration) -> Result<Written, StoreError> {
        let senders = self.senders()?;
        let bytes = entry.body.len() as u64;
        let (done, answer) = bounded(1);
        let put = Put { entry, done: (!wait.is_zero()).then_some(done) };
        let queued = self.counters().queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        if queued + bytes > QUEUE_BYTES || senders.entries.try_send(put).is_err() {
            self.counters().queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            add(&self.counters().dropped, 1);
            return Err(StoreError::QueueFull);
        }
        if wait.is_zero() {
            return Ok(Written::Queued);
        }
        match answer.recv_timeout(wait) {
            Ok(written) => Ok(written),
            Err(RecvTimeoutError::Timeout) => Ok(Written::Queued),
            Err(RecvTimeoutError::Disconnected) => self.shared.check().and(Err(StoreError::QueueFull)),
        }
    }

    fn refuses(&self, entry: &Arc<Entry>) -> bool {
        let Ok(senders) = self.senders() else { return true };
        let (done, answer) = bounded(1);
        let request = Request::Refuses { entry: Arc::clone(entry), done };
        let is_asked = senders.lookups.try_send(request).is_ok();
        !is_asked || answer.recv_timeout(self.read_deadline).unwrap_or(true)
    }

    fn tombstone(&self, key: &Digest, at_ms: u64, reason: &str) -> Result<(), StoreError> {
        let result =
            self.command(|done| Command::Tombstone { key: *key, at_ms, reason: reason.to_owned(), done });
        if matches!(result, Err(StoreError::Timeout { .. })) {
            self.shared.fail(format!("a tombstone could not be written for {COMMAND_WAIT:?}"));
        }
        result
    }

    fn purge(&self, what: Purge, at_ms: u64) -> Result<u64, StoreError> {
        let removal = Removal { what, at_ms, is_bounded: false };
        self.command(|done| Command::Purge { removal, done })
    }

    fn purge_until(&self, what: Purge, at_ms: u64) -> Result<u64, StoreError> {
        let removal = Removal { what, at_ms, is_bounded: true };
        self.command(|done| Command::Purge { removal, done })
    }

    fn tags_of(&self, what: Purge) -> Result<BTreeSet<u64>, StoreError> {
        self.command(|done| Command::TagsOf { what, done })
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.command(|done| Command::Flush { done })
    }

    fn stats(&self) -> Stats {
        let counters = self.counters();
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            entries: read(&counters.entries),
            bytes: read(&counters.bytes),
            cached_bodies: read(&counters.cached_bodies),
            cached_bytes: read(&counters.cached_bytes),
            found: read(&counters.found),
            absent: read(&counters.absent),
            slow: read(&counters.slow),
            behind: read(&counters.behind),
            corrupt: read(&counters.corrupt),
            committed: read(&counters.committed),
            dropped: read(&counters.dropped),
            evicted: read(&counters.evicted),
            tombstones: read(&counters.tombstones),
            untold: 0,
        }
    }

    fn broken(&self) -> Option<String> {
        self.shared.broken()
    }

    fn close(&self) {
        // After a fork the threads are the parent's: waiting for them would never end.
        if self.process != std::process::id() {
            return;
        }
        let senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner).take();
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (Some(Senders { entries, commands, lookups }), Some(threads)) = (senders, threads) else {
            return;
        };
        // The reader first: the connection that closes last moves the log into the database.
        drop(lookups);
        // A thread that panicked has nothing left to do; its panic was already reported.
        let _ = threads.reader.join();
        drop(self.reader.lock().unwrap_or_else(PoisonError::into_inner).take());
        // A full queue or a writer that is gone: dropping the senders ends it as well, after what waits.
        let _ = commands.send_timeout(Command::Close, COMMAND_WAIT);
        drop((entries, commands));
        let _ = threads.writer.join();
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.close();
    }
}

/// Asks the reader and waits at most `deadline`.
fn ask(
    reader: &Sender<Request>,
    key: &Digest,
    now_ms: u64,
    deadline: Duration,
) -> Result<Lookup, LookupFacts> {
    let (done, answer) = bounded(1);
    reader.try_send(Request::Lookup { key: *key, now_ms, done }).map_err(|error| match error {
        TrySendError::Full(_) => LookupFacts::Slow,
        TrySendError::Disconnected(_) => LookupFacts::Unavailable,
    })?;
    answer.recv_timeout(deadline).map_err(|error| match error {
        RecvTimeoutError::Timeout => LookupFacts::Slow,
        RecvTimeoutError::Disconnected => LookupFacts::Unavailable,
    })
}

/// Makes the file with mode 0600 before SQLite does with the umask's; its companions get the same mode.
fn create_private(path: &Path) -> Result<(), StoreError> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(source) => {
            Err(StoreError::File { action: "making the graph database", path: path.to_owned(), source })
        }
    }
}

fn spawn(name: &'static str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StoreError> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(|source| StoreError::Thread { name, source })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crossbeam_channel::bounded;
    use zlrs_graph::{Digest, LookupFacts};

    use super::ask;
    use crate::Lookup;

    const DEADLINE: Duration = Duration::from_millis(5);

    #[test]
    fn a_reader_that_never_answers_costs_the_deadline_and_no_more() {
        let (lookups, reader) = bounded(2);
        let key = Digest::of(b"key");
        for _ in 0..2 {
            assert_eq!(ask(&lookups, &key, 0, DEADLINE).unwrap_err(), LookupFacts::Slow);
        }
        // Its queue is full now: nobody waits for a place in it.
        assert_eq!(ask(&lookups, &key, 0, Duration::MAX).unwrap_err(), LookupFacts::Slow);
        drop(reader);
        assert_eq!(ask(&lookups, &key, 0, DEADLINE).unwrap_err(), LookupFacts::Unavailable);
    }

    #[test]
    fn a_reader_that_gives_up_or_answers_is_heard_at_once() {
        let (lookups, reader) = bounded(2);
        let key = Digest::of(b"key");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                drop(reader.recv().unwrap());
                let Ok(super::Request::Lookup { done, .. }) = reader.recv() else { return };
                done.send(Lookup::Nothing(LookupFacts::Absent)).unwrap();
            });
            assert_eq!(ask(&lookups, &key, 0, Duration::MAX).unwrap_err(), LookupFacts::Unavailable);
            assert_eq!(ask(&lookups, &key, 0, Duration::MAX).unwrap().facts(), LookupFacts::Absent);
        });
    }
}
