//! The store itself: an embedded tier, and a remote one behind it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crossbeam_channel::{Sender, bounded};
use zlrs_graph::{Digest, LookupFacts};
use zlrs_store::{Entry, Lookup, Purge, Stats, Store, StoreError, Verifier, Written};

use crate::breaker::{Breaker, BreakerRules};
use crate::link::{Link, RemoteError, RemoteSettings};
use crate::wire::News;
use crate::worker::{Call, Worker};

/// Calls that may wait for the thread.
const QUEUE: usize = 1024;
/// How long a withdrawal, a purge or a flush waits for the remote tier before it is left to the thread.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often closing tries to reach the thread.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// What the remote tier has done.
#[derive(Debug, Default)]
pub struct RemoteCounts {
    /// Lookups answered with an entry that holds.
    pub found: AtomicU64,
    /// Lookups answered with nothing.
    pub absent: AtomicU64,
    /// Lookups given up at the deadline, or left out by the breaker.
    pub left_out: AtomicU64,
    /// Values that are no entry of ours.
    pub corrupt: AtomicU64,
    /// Entries that were not written.
    pub dropped: AtomicU64,
    /// Withdrawals of other machines.
    pub heard: AtomicU64,
}

/// What the store and its thread share.
pub(crate) struct Shared {
    pub front: Arc<dyn Store>,
    pub counts: RemoteCounts,
    /// Names this process in the news, so that it does not hear itself.
    pub origin: String,
    breaker: Mutex<Breaker>,
    began: Instant,
    purges: Mutex<Vec<(Purge, u64)>>,
    is_overfull: AtomicBool,
    /// News of ours that is not written yet.
    untold: AtomicU64,
}

impl Shared {
    fn breaker(&self) -> std::sync::MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    pub fn is_closed(&self) -> bool {
        self.breaker().is_closed(self.now_ms())
    }

    pub fn answered(&self, took: Duration) {
        self.breaker().answered(took.as_secs_f64() * 1000.0, self.now_ms());
    }

    pub fn failed(&self) {
        self.breaker().failed(self.now_ms());
    }

    pub fn note_backlog(&self, waiting: usize, most: usize) {
        self.is_overfull.store(waiting > most, Ordering::Release);
    }

    pub fn note_told(&self) {
        self.untold.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn note_purge(&self, purge: Purge, at_ms: u64) {
        let mut purges = self.purges.lock().unwrap_or_else(PoisonError::into_inner);
        match purges.iter_mut().find(|(known, _)| *known == purge) {
            Some((_, until_ms)) => *until_ms = at_ms.max(*until_ms),
            None => purges.push((purge, at_ms)),
        }
    }

    fn is_purged(&self, entry: &Entry) -> bool {
        let purges = self.purges.lock().unwrap_or_else(PoisonError::into_inner);
        purges.iter().any(|(purge, at_ms)| entry.created_ms <= *at_ms && purge.names(entry))
    }
}

/// A remote store behind an embedded one.
pub struct RemoteStore {
    shared: Arc<Shared>,
    verifier: Verifier,
    deadline: Duration,
    calls: Sender<Call>,
    thread: Mutex<Option<JoinHandle<()>>>,
    latest_ms: AtomicU64,
}

impl RemoteStore {
    /// Puts `front` before the remote store. Dials nothing: a server that is not there is found out by the thread.
    /// Entries must carry the signature of `verifier`.
    ///
    /// # Errors
    /// When an address cannot be used, or the thread not started.
    pub fn new(
        front: Arc<dyn Store>,
        verifier: Verifier,
        settings: &RemoteSettings,
    ) -> Result<Self, RemoteError> {
        let link = Link::new(settings.clone())?;
        let began = Instant::now();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let shared = Arc::new(Shared {
            front,
            counts: RemoteCounts::default(),
            origin: format!("{}-{since}", std::process::id()),
            breaker: Mutex::new(Breaker::new(BreakerRules::of(settings.deadline))),
            began,
            purges: Mutex::default(),
            is_overfull: AtomicBool::new(false),
            untold: AtomicU64::new(0),
        });
        let (calls, calls_in) = bounded(QUEUE);
        let worker = Worker {
            link,
            // Graphs with another key file are other graphs, whatever the prefix.
            prefix: format!("{}:{}", settings.prefix, verifier.key_id()),
            deadline: settings.deadline,
            shared: Arc::clone(&shared),
            backlog: VecDeque::new(),
            last_news: "0".to_owned(),
            purges: 0,
        };
        let thread = std::thread::Builder::new()
            .name("zlrs-store-remote".to_owned())
            .spawn(move || worker.run(&calls_in))?;
        let latest_ms = AtomicU64::new(0);
        Ok(Self {
            shared,
            verifier,
            deadline: settings.deadline,
            calls,
            thread: Mutex::new(Some(thread)),
            latest_ms,
        })
    }

    /// What the remote tier has done.
    pub fn counts(&self) -> &RemoteCounts {
        &self.shared.counts
    }

    /// Whether the remote tier is asked now.
    pub fn is_asked(&self) -> bool {
        self.shared.is_closed()
    }

    fn ask(&self, key: &Digest, now_ms: u64) -> Option<Arc<Entry>> {
        let counts = &self.shared.counts;
        let count = |counter: &AtomicU64| {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        if !self.shared.is_closed() {
            count(&counts.left_out);
            return None;
        }
        let (done, answer) = bounded(1);
        let sent = self.calls.try_send(Call::Get { key: *key, asked: Instant::now(), done });
        let Some(found) = sent.ok().and_then(|()| answer.recv_timeout(self.deadline).ok()) else {
            count(&counts.left_out);
            return None;
        };
        let (line, withdrawn_ms) = match found {
            Some((Some(line), withdrawn_ms)) => (line, withdrawn_ms),
            Some((None, _)) => {
                count(&counts.absent);
                return None;
            }
            None => {
                count(&counts.corrupt);
                return None;
            }
        };
        let entry = std::str::from_utf8(&line).ok().and_then(Entry::of_line);
        let Some(entry) = entry.filter(|entry| entry.key == *key && entry.holds(&self.verifier)) else {
            count(&counts.corrupt);
            return None;
        };
        let is_withdrawn = withdrawn_ms.is_some_and(|at_ms| entry.created_ms <= at_ms);
        if is_withdrawn || entry.expires_ms <= now_ms || self.shared.is_purged(&entry) {
            count(&counts.absent);
            return None;
        }
        let entry = Arc::new(entry);
        // The embedded tier may know better: a withdrawal or a purge of its own, or a newer answer.
        if self.shared.front.refuses(&entry) {
            count(&counts.absent);
            return None;
        }
        // Nobody waits for it to be kept; what is not costs another look there.
        let _: Result<Written, _> = self.shared.front.put((*entry).clone(), Duration::ZERO);
        count(&counts.found);
        Some(entry)
    }

    /// Tells everybody; waits a little for it to be written.
    fn tell(&self, news: News) -> Result<(), StoreError> {
        let (done, answer) = bounded(1);
        self.shared.untold.fetch_add(1, Ordering::Relaxed);
        if self.calls.send_timeout(Call::Tell { news, done }, PATIENCE).is_err() {
            self.shared.note_told();
            return Err(StoreError::QueueFull);
        }
        // Past it the thread goes on trying.
        let _ = answer.recv_timeout(PATIENCE);
        Ok(())
    }

    fn latest_ms(&self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        self.latest_ms.load(Ordering::Relaxed).max(now as u64)
    }
}

impl Store for RemoteStore {
    fn get(&self, key: &Digest, now_ms: u64) -> Lookup {
        if self.broken().is_some() {
            return Lookup::Nothing(LookupFacts::Unavailable);
        }
        match self.shared.front.get(key, now_ms) {
            Lookup::Nothing(facts @ (LookupFacts::Absent | LookupFacts::Expired)) => {
                self.ask(key, now_ms).map_or(Lookup::Nothing(facts), Lookup::Found)
            }
            found_or_out_of_service => found_or_out_of_service,
        }
    }

    fn get_now(&self, key: &Digest, now_ms: u64) -> Option<Lookup> {
        let found = self.shared.front.get_now(key, now_ms)?;
        let is_missing = matches!(found, Lookup::Nothing(LookupFacts::Absent | LookupFacts::Expired));
        // What is not here may be there, and that takes a wait.
        (self.broken().is_none() && !(is_missing && self.shared.is_closed())).then_some(found)
    }

    fn put(&self, entry: Entry, wait: Duration) -> Result<Written, StoreError> {
        self.latest_ms.fetch_max(entry.created_ms, Ordering::Relaxed);
        let life_ms = entry.expires_ms.saturating_sub(entry.created_ms);
        let call = Call::Put { key: entry.key, line: entry.to_line(), life_ms };
        let written = self.shared.front.put(entry, wait)?;
        if written != Written::Superseded && (!self.shared.is_closed() || self.calls.try_send(call).is_err())
        {
            self.shared.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(written)
    }

    fn refuses(&self, entry: &Arc<Entry>) -> bool {
        self.shared.is_purged(entry) || self.shared.front.refuses(entry)
    }

    fn tombstone(&self, key: &Digest, at_ms: u64, reason: &str) -> Result<(), StoreError> {
        self.shared.front.tombstone(key, at_ms, reason)?;
        self.tell(News::Withdrawn(*key, at_ms))
    }

    fn purge(&self, what: Purge, at_ms: u64) -> Result<u64, StoreError> {
        let at_ms = at_ms.max(self.latest_ms());
        self.shared.note_purge(what, at_ms);
        let removed = self.shared.front.purge(what, at_ms)?;
        self.tell(News::Purged(what, at_ms))?;
        Ok(removed)
    }

    fn purge_until(&self, what: Purge, at_ms: u64) -> Result<u64, StoreError> {
        self.shared.note_purge(what, at_ms);
        let removed = self.shared.front.purge_until(what, at_ms)?;
        self.tell(News::Purged(what, at_ms))?;
        Ok(removed)
    }

    fn tags_of(&self, what: Purge) -> Result<BTreeSet<u64>, StoreError> {
        self.shared.front.tags_of(what)
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.shared.front.flush()?;
        let (done, answer) = bounded(1);
        if self.calls.send_timeout(Call::Flush { done }, PATIENCE).is_ok() {
            // What the remote tier does not take in time is counted as dropped there.
            let _ = answer.recv_timeout(PATIENCE);
        }
        Ok(())
    }

    fn stats(&self) -> Stats {
        Stats { untold: self.shared.untold.load(Ordering::Relaxed), ..self.shared.front.stats() }
    }

    fn broken(&self) -> Option<String> {
        let overfull = self.shared.is_overfull.load(Ordering::Acquire);
        let why = || "too many withdrawals wait for the remote store".to_owned();
        self.shared.front.broken().or_else(|| overfull.then(why))
    }

    fn close(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && self.calls.send_timeout(Call::Close, CLOSE_WAIT).is_ok()
        {
            // A thread that panicked has nothing left to do; its panic was already reported.
            let _ = thread.join();
        }
        self.shared.front.close();
    }
}

impl Drop for RemoteStore {
    fn drop(&mut self) {
        self.close();
    }
}
