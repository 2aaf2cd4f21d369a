//! The thread that writes a chain.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use serde_json::json;
use zlrs_graph::Digest;

use super::{FORMAT, HASH_CLOSE, HASH_OPEN, Shared, checkpoint_message, line_hash};
use crate::secrets::Secrets;

/// Records between two checkpoints.
const CHECKPOINT_RECORDS: u64 = 256;
/// Time between two checkpoints while there are records.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(1);

/// How long the first record of a batch waits for company. Waking the thread and writing the file for each one alone
/// costs more than the record itself.
const GATHER: Duration = Duration::from_millis(4);
/// Bytes of lines that are written at once.
const BATCH_BYTES: usize = 256 * 1024;

pub enum Message {
    /// A record's body, one JSON object.
    Record(String),
    /// Sign and sync, then answer.
    Flush(Sender<()>),
}

pub struct Writer {
    file: File,
    chain: String,
    secrets: Arc<Secrets>,
    shared: Arc<Shared>,
    sequence: u64,
    previous: Digest,
    /// Records since the last checkpoint.
    unsigned: u64,
    /// Drops that the log has said.
    said_dropped: u64,
    /// Lines that are not in the file yet.
    lines: String,
    /// Records among them.
    gathered: u64,
}

impl Writer {
    /// Writes the first line.
    pub fn new(
        file: File,
        chain: String,
        secrets: Arc<Secrets>,
        shared: Arc<Shared>,
        now_ms: u64,
    ) -> io::Result<Self> {
        let verifier = secrets.verifier();
        let first = json!({
            "kind": "start",
            "format": FORMAT,
            "chain": chain,
            "time_ms": now_ms,
            "process": std::process::id(),
            "version": env!("CARGO_PKG_VERSION"),
            "key_id": verifier.key_id(),
            "public_key": verifier.to_hex(),
        });
        let mut writer = Self {
            file,
            chain,
            secrets,
            shared,
            sequence: 0,
            previous: Digest::default(),
            unsigned: 0,
            said_dropped: 0,
            lines: String::new(),
            gathered: 0,
        };
        writer.line(&first.to_string())?;
        writer.write()?;
        Ok(writer)
    }

    /// Writes until every sender is gone.
    pub fn run(mut self, messages: &Receiver<Message>) {
        let mut due = Instant::now() + CHECKPOINT_EVERY;
        loop {
            // With nothing to sign there is nothing to wake for.
            let message = if self.unsigned == 0 {
                messages.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                messages.recv_deadline(due)
            };
            let result = match message {
                Ok(Message::Record(body)) => {
                    if self.unsigned == 0 {
                        due = Instant::now() + CHECKPOINT_EVERY;
                    }
                    if messages.is_empty() {
                        thread::sleep(GATHER);
                    }
                    self.batch(&body, messages)
                }
                Ok(Message::Flush(done)) => {
                    self.flush(&done);
                    continue;
                }
                Err(RecvTimeoutError::Timeout) => self.checkpoint(),
                Err(RecvTimeoutError::Disconnected) => break,
            };
            self.note(&result);
        }
        let result = self.end();
        self.note(&result);
    }

    /// A record and those that wait behind it, in as few writes as can be.
    fn batch(&mut self, first: &str, messages: &Receiver<Message>) -> io::Result<()> {
        self.record(first)?;
        while self.lines.len() < BATCH_BYTES {
            match messages.try_recv() {
                Ok(Message::Record(body)) => self.record(&body)?,
                Ok(Message::Flush(done)) => self.flush(&done),
                Err(_) => break,
            }
        }
        self.write()
    }

    fn flush(&mut self, done: &Sender<()>) {
        let result = self.checkpoint();
        // Said before the answer, so that whoever waits sees it.
        self.note(&result);
        let _ = done.send(());
    }

    /// An error takes the log out of service for good: a chain with a hole proves nothing.
    fn note(&self, result: &io::Result<()>) {
        if let Err(error) = result
            && !self.shared.is_broken.load(Ordering::Acquire)
        {
            self.shared.fail(format!("writing the audit log failed: {error}; free space and restart"));
        }
    }

    fn record(&mut self, body: &str) -> io::Result<()> {
        self.say_dropped()?;
        self.line(body)?;
        self.gathered += 1;
        self.unsigned += 1;
        if self.unsigned >= CHECKPOINT_RECORDS { self.checkpoint() } else { Ok(()) }
    }

    fn say_dropped(&mut self) -> io::Result<()> {
        let dropped = self.shared.dropped.load(Ordering::Relaxed);
        if dropped > self.said_dropped {
            let body = json!({"kind": "dropped", "records": dropped - self.said_dropped});
            self.said_dropped = dropped;
            self.line(&body.to_string())?;
            self.unsigned += 1;
        }
        Ok(())
    }

    fn checkpoint(&mut self) -> io::Result<()> {
        self.say_dropped()?;
        if self.unsigned > 0 { self.sign("checkpoint") } else { self.write() }
    }

    fn end(&mut self) -> io::Result<()> {
        self.say_dropped()?;
        self.sign("end")
    }

    fn sign(&mut self, kind: &str) -> io::Result<()> {
        let message = checkpoint_message(&self.chain, self.sequence, &self.previous);
        let signature = hex(&self.secrets.sign(&message));
        let body = json!({"kind": kind, "key_id": self.secrets.verifier().key_id(), "signature": signature});
        self.line(&body.to_string())?;
        self.write()?;
        self.unsigned = 0;
        self.file.sync_data()
    }

    /// Adds a line to what is written next.
    fn line(&mut self, body: &str) -> io::Result<()> {
        if self.shared.is_broken.load(Ordering::Acquire) {
            return Err(io::Error::other("an earlier line could not be written"));
        }
        let start = self.lines.len();
        // Writing to a string cannot fail.
        let _ =
            write!(self.lines, "{{\"seq\":{},\"prev\":\"{}\",\"body\":{body}", self.sequence, self.previous);
        let hash = line_hash(&self.lines.as_bytes()[start..]);
        let _ = writeln!(self.lines, "{HASH_OPEN}{hash}{HASH_CLOSE}");
        self.previous = hash;
        self.sequence += 1;
        Ok(())
    }

    /// Writes whole lines, so that a kill leaves at most one cut line at the end.
    fn write(&mut self) -> io::Result<()> {
        let lines = std::mem::take(&mut self.lines);
        let gathered = std::mem::take(&mut self.gathered);
        self.file.write_all(lines.as_bytes())?;
        self.shared.written.fetch_add(gathered, Ordering::Relaxed);
        self.lines = lines;
        self.lines.clear();
        Ok(())
    }
}

fn hex(signature: &[u8; 64]) -> String {
    let (first, second) = signature.split_at(32);
    [first, second].into_iter().filter_map(Digest::from_slice).map(|half| half.to_hex()).collect()
}
