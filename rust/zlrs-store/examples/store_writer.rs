//! Writes entries into a graph directory until it is killed, and says what is safe.
//!
//! `store_writer DIRECTORY FIRST_ID` prints `ready`, then `e ID` for every entry once a flush after it has returned,
//! and `t ID` for every tenth entry once its tombstone has returned. Each entry is made from its number, so that a
//! reader can tell a lost entry from an invented one. With a third argument it writes that many and ends.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use zlrs_store::{Store, StoreError};

#[path = "../tests/common/mod.rs"]
mod common;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, directory, first, rest @ ..] = arguments.as_slice() else {
        return Err("usage: store_writer DIRECTORY FIRST_ID [COUNT]".into());
    };
    let first: u64 = first.parse()?;
    let end = match rest {
        [] => u64::MAX,
        [count, ..] => first + count.parse::<u64>()?,
    };
    let (store, secrets, _) = common::open(Path::new(directory))?;
    say("ready")?;
    let mut id = first;
    while id < end {
        // Batches of 1 to 16, so that kills meet commits of every size.
        let batch = id..(id + 1 + id % 16).min(end);
        for id in batch.clone() {
            match store.put(common::entry(id, &secrets), Duration::ZERO) {
                Ok(_) => {}
                Err(StoreError::QueueFull) => return Err("the queue was full".into()),
                Err(error) => return Err(error.into()),
            }
        }
        store.flush()?;
        for id in batch.clone() {
            say(&format!("e {id}"))?;
            if id % 10 == 0 {
                store.tombstone(&common::digest("key", id), common::NOW_MS, "test")?;
                say(&format!("t {id}"))?;
            }
        }
        id = batch.end;
    }
    store.close();
    Ok(())
}

/// One line, past every buffer of ours: what is in the pipe survives the kill.
fn say(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
