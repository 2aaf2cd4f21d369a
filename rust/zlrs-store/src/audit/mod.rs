//! The audit log: append only, hash chained, signed.
//!
//! Each process writes a chain of its own: one file of JSON lines,
//! `{"seq":N,"prev":"…","body":{…},"hash":"…"}`, where `hash` is BLAKE3 over every byte of the line before it, and
//! `prev` the hash of the line before. A `checkpoint` line's body carries an Ed25519 signature over the hash of the
//! line before it, so that a chain cannot be written anew without the key. Every 256 records, after a second and at
//! the end there is one. Nothing is ever changed or removed; a cut after the last checkpoint shows as an open end.

mod verify;
mod writer;

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Sender, TrySendError, bounded};
use serde_json::Value;
use zlrs_graph::Digest;

pub use verify::{AuditFault, AuditReport, VerifyError, verify_audit};

use crate::StoreError;
use crate::notices::Notices;
use crate::random::record_id;
use crate::secrets::Secrets;
use writer::{Message, Writer};

/// Version of the line format, in the first line.
const FORMAT: u64 = 1;
/// What every line ends with, around the hash.
const HASH_OPEN: &str = ",\"hash\":\"";
const HASH_CLOSE: &str = "\"}";
/// Records that may wait to be written; more are dropped and counted in the log itself. A hundred milliseconds at
/// eighty thousand records a second.
const QUEUE_RECORDS: usize = 8192;
/// How long a record that must not be lost waits for a place. The thread writes the whole queue in a fraction of it.
const KEEP_WAIT: Duration = Duration::from_secs(5);
/// How long a flush may take.
const FLUSH_WAIT: Duration = Duration::from_secs(30);

/// The hash of a line: over the bytes before its `,"hash":`.
fn line_hash(before: &[u8]) -> Digest {
    Digest(blake3::derive_key("zlrs audit 1 line", before))
}

/// What a checkpoint signs.
fn checkpoint_message(chain: &str, sequence: u64, previous: &Digest) -> Vec<u8> {
    format!("zlrs.audit.checkpoint.1\n{chain}\n{sequence}\n{previous}").into_bytes()
}

struct Shared {
    is_broken: AtomicBool,
    reason: Mutex<Option<String>>,
    written: AtomicU64,
    dropped: AtomicU64,
    notices: Notices,
}

impl Shared {
    fn fail(&self, reason: String) {
        self.notices.push(format!("audit log out of service: {reason}"));
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
        self.is_broken.store(true, Ordering::Release);
    }
}

/// An open chain with its writing thread.
pub struct Audit {
    path: PathBuf,
    shared: Arc<Shared>,
    sender: Mutex<Option<Sender<Message>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The process whose thread this is.
    process: u32,
}

impl Audit {
    /// Starts a new chain in `folder`, which is made with mode 0700 when it is not there.
    ///
    /// # Errors
    /// When folder or file cannot be made.
    pub fn open(
        folder: &Path,
        secrets: &Arc<Secrets>,
        notices: Notices,
        now_ms: u64,
    ) -> Result<Self, StoreError> {
        let chain = record_id("chain", now_ms)?;
        let path = folder.join(format!("{chain}.jsonl"));
        let failed = |source: io::Error| StoreError::File {
            action: "starting the audit log",
            path: path.clone(),
            source,
        };
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let file =
            OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
        let shared = Arc::new(Shared {
            is_broken: AtomicBool::new(false),
            reason: Mutex::new(None),
            written: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            notices,
        });
        let writer =
            Writer::new(file, chain, Arc::clone(secrets), Arc::clone(&shared), now_ms).map_err(failed)?;
        let (sender, messages) = bounded(QUEUE_RECORDS);
        let thread = std::thread::Builder::new()
            .name("zlrs-audit".to_owned())
            .spawn(move || writer.run(&messages))
            .map_err(|source| StoreError::Thread { name: "audit", source })?;
        Ok(Self {
            path,
            shared,
            sender: Mutex::new(Some(sender)),
            thread: Mutex::new(Some(thread)),
            process: std::process::id(),
        })
    }

    /// Adds a record; never blocks. It is written within milliseconds, together with others. A full queue drops it,
    /// and the log says how many were dropped.
    pub fn add(&self, body: &Value) {
        self.add_text(body.to_string());
    }

    /// [`Audit::add`] for a record that is text already: one JSON object, without line breaks.
    pub fn add_text(&self, body: String) {
        let Some(sender) = self.sender() else { return };
        if let Err(TrySendError::Full(_)) = sender.try_send(Message::Record(body)) {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// [`Audit::add`] for what must not be lost: evidence, withdrawals, purges. Waits for a place in a full queue; a log
    /// that has none for seconds is out of service, and with it the graph.
    pub fn keep(&self, body: &Value) {
        let Some(sender) = self.sender() else { return };
        if sender.send_timeout(Message::Record(body.to_string()), KEEP_WAIT).is_err() {
            self.shared.fail(format!("a record could not be written for {KEEP_WAIT:?}; restart"));
        }
    }

    /// Waits until everything added before is written, signed and on the disk.
    ///
    /// # Errors
    /// When it could not be.
    pub fn flush(&self) -> Result<(), StoreError> {
        let sender = self.sender().ok_or(StoreError::Closed)?;
        let late = || StoreError::Timeout { limit_ms: FLUSH_WAIT.as_millis() as u64 };
        let (done, answer) = bounded(1);
        sender.send_timeout(Message::Flush(done), FLUSH_WAIT).map_err(|_| late())?;
        answer.recv_timeout(FLUSH_WAIT).map_err(|_| late())?;
        self.broken().map_or(Ok(()), |reason| Err(StoreError::Broken(reason)))
    }

    /// Why nothing is written any more, if so.
    pub fn broken(&self) -> Option<String> {
        if !self.shared.is_broken.load(Ordering::Acquire) {
            return None;
        }
        self.shared.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records written, and dropped because the queue was full.
    pub fn counts(&self) -> (u64, u64) {
        (self.shared.written.load(Ordering::Relaxed), self.shared.dropped.load(Ordering::Relaxed))
    }

    /// The file of this chain.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes what waits, a last checkpoint and the end of the chain.
    pub fn close(&self) {
        // After a fork the thread is the parent's: waiting for it would never end.
        if self.process != std::process::id() {
            return;
        }
        // Dropping the sender ends the thread, after what waits.
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // A thread that panicked has written what it could; its panic was already reported.
            let _ = thread.join();
        }
    }

    fn sender(&self) -> Option<Sender<Message>> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.close();
    }
}
