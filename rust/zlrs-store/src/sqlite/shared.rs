//! What writer, reader and callers share: health, counters, notices.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use rusqlite::ErrorCode;

use super::schema;
use crate::StoreError;
use crate::notices::Notices;

/// Counters since opening. Relaxed: each is a figure of its own, nothing is ordered by them.
#[derive(Default)]
pub struct Counters {
    pub entries: AtomicU64,
    pub bytes: AtomicU64,
    pub cached_bodies: AtomicU64,
    pub cached_bytes: AtomicU64,
    pub found: AtomicU64,
    pub absent: AtomicU64,
    pub slow: AtomicU64,
    pub behind: AtomicU64,
    pub corrupt: AtomicU64,
    pub committed: AtomicU64,
    pub dropped: AtomicU64,
    pub evicted: AtomicU64,
    pub tombstones: AtomicU64,
    /// Bytes of bodies waiting in the writer's queue.
    pub queued_bytes: AtomicU64,
}

/// Adds to a counter.
pub fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

/// State of one open database.
pub struct Shared {
    pub path: PathBuf,
    inode: (u64, u64),
    pub counters: Counters,
    pub notices: Notices,
    is_broken: AtomicBool,
    reason: Mutex<Option<String>>,
    opened: Instant,
    /// When the file was last looked at, milliseconds after opening and one more; 0 for never.
    looked_ms: AtomicU64,
}

impl Shared {
    /// For the file that is open now.
    pub fn new(path: PathBuf, notices: Notices) -> Result<Self, StoreError> {
        let metadata = fs::metadata(&path).map_err(|source| StoreError::File {
            action: "reading the graph database's place",
            path: path.clone(),
            source,
        })?;
        Ok(Self {
            inode: (metadata.dev(), metadata.ino()),
            path,
            counters: Counters::default(),
            notices,
            is_broken: AtomicBool::new(false),
            reason: Mutex::new(None),
            opened: Instant::now(),
            looked_ms: AtomicU64::new(0),
        })
    }

    /// Takes the store out of service; the first reason stays.
    pub fn fail(&self, reason: String) {
        let mut held = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_none() {
            self.notices.push(format!("graph store out of service: {reason}"));
            *held = Some(reason);
        }
        self.is_broken.store(true, Ordering::Release);
    }

    /// Takes the store out of service for an error of SQLite, and marks a damaged file for the next start.
    pub fn fail_on(&self, action: &str, error: &rusqlite::Error) {
        if schema::is_corrupt(error) {
            schema::suspect(&self.path);
        }
        let advice = match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                "; the file is checked and set aside at the next start"
            }
            Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure) => "; free space and restart",
            _ => "",
        };
        self.fail(format!("{action} failed: {error}{advice}"));
    }

    /// Why the store is out of service.
    pub fn broken(&self) -> Option<String> {
        if !self.is_broken.load(Ordering::Acquire) {
            return None;
        }
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// [`StoreError::Broken`] when out of service.
    pub fn check(&self) -> Result<(), StoreError> {
        self.broken().map_or(Ok(()), |reason| Err(StoreError::Broken(reason)))
    }

    /// Notices a database that was deleted or replaced under us: what we would write then is lost, and what others
    /// write is not seen. One `stat`.
    pub fn check_file(&self) -> Result<(), StoreError> {
        let same =
            fs::metadata(&self.path).is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.inode);
        if !same {
            self.fail(format!("{} was deleted or replaced", self.path.display()));
        }
        self.check()
    }

    /// [`Shared::check_file`], looking at most once a millisecond: reads of one millisecond cost one `stat`.
    pub fn check_file_lately(&self) -> Result<(), StoreError> {
        let now_ms = self.opened.elapsed().as_millis() as u64 + 1;
        if self.looked_ms.swap(now_ms, Ordering::Relaxed) == now_ms {
            return self.check();
        }
        self.check_file()
    }
}
