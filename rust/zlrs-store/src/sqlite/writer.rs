//! The one thread that writes. Entries come through a bounded queue and are committed in batches; tombstones,
//! purges and flushes come through a queue of their own, are served first and answered when they are durable.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, select_biased};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use zlrs_graph::Digest;

use super::Limits;
use super::rows::{Removal, evict, tags_of, unsigned, write_entry, write_purge, write_tombstone};
use super::schema::is_locked;
use super::shared::{Shared, add};
use crate::{Entry, Purge, StoreError, Written};

/// Entries of one commit.
const BATCH_ENTRIES: usize = 256;
/// How long one attempt waits for another process's write lock.
const LOCK_WAIT: Duration = Duration::from_millis(50);
/// After this long without the lock, entries are dropped and a tombstone takes the store out of service.
const LOCK_GIVE_UP: Duration = Duration::from_secs(5);

/// An entry on its way, and whoever waits for it.
pub struct Put {
    pub entry: Entry,
    pub done: Option<Sender<Written>>,
}

/// Everything but entries.
pub enum Command {
    Tombstone { key: Digest, at_ms: u64, reason: String, done: Sender<Result<(), StoreError>> },
    Purge { removal: Removal, done: Sender<Result<u64, StoreError>> },
    TagsOf { what: Purge, done: Sender<Result<BTreeSet<u64>, StoreError>> },
    Flush { done: Sender<Result<(), StoreError>> },
    Close,
}

pub struct Writer {
    connection: Connection,
    shared: Arc<Shared>,
    limits: Limits,
    entries: Receiver<Put>,
    commands: Receiver<Command>,
    /// Dropped entries that no flush has reported yet.
    unreported_drops: u64,
}

impl Writer {
    pub fn new(
        connection: Connection,
        shared: Arc<Shared>,
        limits: Limits,
        entries: Receiver<Put>,
        commands: Receiver<Command>,
    ) -> Result<Self, StoreError> {
        connection.busy_timeout(LOCK_WAIT).map_err(StoreError::sqlite("preparing the writer"))?;
        let writer = Self { connection, shared, limits, entries, commands, unreported_drops: 0 };
        writer.note_size();
        Ok(writer)
    }

    /// Runs until a close command or until every sender is gone.
    pub fn run(mut self) {
        loop {
            select_biased! {
                recv(self.commands) -> command => match command {
                    Ok(Command::Close) | Err(_) => break,
                    Ok(command) => self.serve(command),
                },
                recv(self.entries) -> put => match put {
                    Ok(put) => {
                        self.write_batch(put);
                    }
                    Err(_) => break,
                },
            }
        }
        self.drain();
    }

    fn serve(&mut self, command: Command) {
        // A caller that stopped waiting is not an error of the store: its answer is thrown away.
        match command {
            Command::Tombstone { key, at_ms, reason, done } => {
                let written = self.durable("writing a tombstone", |transaction| {
                    write_tombstone(transaction, &key, at_ms, &reason)
                });
                if written.is_ok() {
                    add(&self.shared.counters.tombstones, 1);
                }
                let _ = done.send(written);
            }
            Command::Purge { removal, done } => {
                self.drain();
                let purged =
                    self.durable("removing entries", |transaction| write_purge(transaction, removal));
                let _ = done.send(purged);
            }
            Command::TagsOf { what, done } => {
                self.drain();
                let _ = done.send(self.transact("reading tags", |transaction| tags_of(transaction, what)));
            }
            Command::Flush { done } => {
                self.drain();
                let dropped = std::mem::take(&mut self.unreported_drops);
                let result = self.shared.check().and_then(|()| match dropped {
                    0 => Ok(()),
                    _ => Err(StoreError::QueueFull),
                });
                let _ = done.send(result);
            }
            Command::Close => {}
        }
    }

    /// Commits what is in the queue now; entries that come meanwhile wait for their own turn.
    fn drain(&mut self) {
        let mut waiting = self.entries.len();
        while waiting > 0 {
            let Ok(first) = self.entries.try_recv() else { return };
            waiting = waiting.saturating_sub(self.write_batch(first));
        }
    }

    /// Commits one entry and those behind it. Returns how many were taken from the queue.
    fn write_batch(&mut self, first: Put) -> usize {
        let mut batch = Vec::with_capacity(16);
        batch.push(first);
        batch.extend(self.entries.try_iter().take(BATCH_ENTRIES - 1));
        let bytes: u64 = batch.iter().map(|put| put.entry.body.len() as u64).sum();
        self.shared.counters.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
        match self.commit_entries(&batch) {
            Ok(outcomes) => {
                let committed = outcomes.iter().filter(|&&outcome| outcome == Written::Committed).count();
                add(&self.shared.counters.committed, committed as u64);
                for (put, outcome) in batch.iter().zip(outcomes) {
                    if let Some(done) = &put.done {
                        let _ = done.send(outcome);
                    }
                }
            }
            Err(error) => {
                // The senders of `done` drop here, which tells whoever waits.
                add(&self.shared.counters.dropped, batch.len() as u64);
                self.unreported_drops += batch.len() as u64;
                if !matches!(error, StoreError::Broken(_)) {
                    self.shared.notices.push(format!("{} graph entries dropped: {error}", batch.len()));
                }
            }
        }
        self.note_size();
        batch.len()
    }

    fn commit_entries(&mut self, batch: &[Put]) -> Result<Vec<Written>, StoreError> {
        let limits = self.limits;
        let now_ms = batch.iter().map(|put| put.entry.created_ms).max().unwrap_or(0);
        let (outcomes, evicted) = self.transact("storing entries", |transaction| {
            let outcomes = batch
                .iter()
                .map(|put| write_entry(transaction, &put.entry))
                .collect::<Result<Vec<_>, _>>()?;
            let evicted = evict(transaction, &limits, now_ms)?;
            Ok((outcomes, evicted))
        })?;
        add(&self.shared.counters.evicted, evicted);
        Ok(outcomes)
    }

    /// A transaction that is on the disk, not only in the operating system, when this returns. Not being able to
    /// write one takes the store out of service.
    fn durable<T>(
        &mut self,
        action: &'static str,
        work: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let result = self
            .set_synchronous("FULL")
            .and_then(|()| self.transact(action, work))
            .and_then(|value| self.set_synchronous("NORMAL").map(|()| value));
        if let Err(error) = &result {
            self.shared.fail(format!("{error}"));
        }
        self.note_size();
        result
    }

    fn set_synchronous(&self, level: &str) -> Result<(), StoreError> {
        self.connection
            .execute_batch(&format!("PRAGMA synchronous = {level}"))
            .map_err(StoreError::sqlite("changing the writer's durability"))
    }

    /// Runs a transaction, waiting a bounded time for other processes' locks. An error that is not a lock takes the
    /// store out of service.
    fn transact<T>(
        &mut self,
        action: &'static str,
        work: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.shared.check()?;
        self.shared.check_file()?;
        let give_up = Instant::now() + LOCK_GIVE_UP;
        loop {
            let attempt = self.connection.transaction_with_behavior(TransactionBehavior::Immediate).and_then(
                |transaction| {
                    let value = work(&transaction)?;
                    transaction.commit()?;
                    Ok(value)
                },
            );
            match attempt {
                Ok(value) => return Ok(value),
                Err(error) if is_locked(&error) && Instant::now() < give_up => {}
                Err(source) => {
                    if !is_locked(&source) {
                        self.shared.fail_on(action, &source);
                    }
                    return Err(StoreError::Sqlite { action, source });
                }
            }
        }
    }

    fn note_size(&self) {
        let size = self
            .connection
            .prepare_cached("SELECT entries, bytes FROM totals")
            .and_then(|mut statement| statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?))));
        // A figure for the status page only: an error here shows in the next write.
        if let Ok((entries, bytes)) = size {
            self.shared.counters.entries.store(unsigned(entries), Ordering::Relaxed);
            self.shared.counters.bytes.store(unsigned(bytes), Ordering::Relaxed);
        }
    }
}
