//! A writer is killed at random moments; nothing it called safe may be missing and nothing may be made up.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test stops at what is wrong")]

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{NOW_MS, body, digest, found, open};
use zlrs_graph::{Digest, LookupFacts};
use zlrs_store::Store;

/// Where cargo puts the example beside this test.
fn writer_program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().and_then(Path::parent).unwrap().join("examples/store_writer");
    assert!(
        program.exists(),
        "{} is missing: `cargo build --release -p zlrs-store --examples`",
        program.display()
    );
    program
}

fn start(directory: &Path, first: u64) -> Child {
    Command::new(writer_program())
        .args([directory.as_os_str(), first.to_string().as_ref()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Reads what the writer said until it is killed, and what was still in the pipe. The moment counts from the start
/// of the process, or from when its store was open.
fn kill_after(mut child: Child, moment: Duration, from_ready: bool) -> Vec<String> {
    let mut output = BufReader::new(child.stdout.take().unwrap());
    if from_ready {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
    }
    let listener = std::thread::spawn(move || output.lines().map_while(Result::ok).collect::<Vec<_>>());
    std::thread::sleep(moment);
    child.kill().unwrap();
    child.wait().unwrap();
    listener.join().unwrap()
}

/// Kills a writer `kills` times over one directory, checking everything after each kill.
fn nothing_is_lost_or_invented(kills: u64) {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("graph");
    let mut stored: BTreeSet<u64> = BTreeSet::new();
    let mut buried: BTreeSet<u64> = BTreeSet::new();
    let mut first = 0;
    for kill in 0..kills {
        // Moments from before the first file exists to long into the writing, never the same.
        let random = digest("moment", kill).0;
        let moment = Duration::from_micros(u64::from(u16::from_le_bytes([random[0], random[1]])) % 40_000);
        let lines = kill_after(start(&directory, first), moment, kill % 2 == 1);
        for line in &lines {
            let Some((kind, id)) = line.split_once(' ') else { continue };
            // A line is written in one piece, so that a kill leaves it whole or not at all.
            let id: u64 = id.parse().unwrap();
            match kind {
                "e" => stored.insert(id),
                "t" => buried.insert(id),
                other => panic!("{other}"),
            };
        }
        // The next writer begins past everything this one may have begun.
        first = stored.last().map_or(first, |&last| last.max(first)) + 64;

        let (store, _, notices) = open(&directory).unwrap();
        assert_eq!(notices.take(), Vec::<String>::new(), "kill {kill}");
        for &id in &stored {
            let lookup = store.get(&digest("key", id), NOW_MS);
            if buried.contains(&id) {
                assert_eq!(lookup.facts(), LookupFacts::Absent, "entry {id} came back after kill {kill}");
            } else if id % 10 != 0 {
                assert_eq!(found(&lookup), Some(body(id).as_slice()), "entry {id} lost by kill {kill}");
            }
        }
        every_row_is_one_that_was_written(&directory, &store, first);
        assert_eq!(store.stats().corrupt, 0);
        store.close();
    }
    assert!(
        stored.len() as u64 > 10 * kills,
        "the writer hardly wrote: {} entries in {kills} kills",
        stored.len()
    );
    eprintln!("{kills} kills, {} entries and {} tombstones acknowledged", stored.len(), buried.len());
}

/// Goes over the raw rows: each must be the entry of some number below `end`, and pass the store's own checks.
fn every_row_is_one_that_was_written(directory: &Path, store: &dyn Store, end: u64) {
    let raw = rusqlite::Connection::open(directory.join("graph.sqlite3")).unwrap();
    let mut statement = raw.prepare("SELECT key FROM entries").unwrap();
    let keys: BTreeSet<Digest> =
        statement.query_map([], |row| Ok(Digest(row.get(0)?))).unwrap().map(Result::unwrap).collect();
    let mut known = 0;
    for id in 0..end {
        let key = digest("key", id);
        if keys.contains(&key) {
            known += 1;
            assert_eq!(found(&store.get(&key, NOW_MS)), Some(body(id).as_slice()), "entry {id}");
        }
    }
    assert_eq!(known, keys.len(), "a row that nobody wrote");
}

#[test]
fn thirty_kills() {
    nothing_is_lost_or_invented(30);
}

#[test]
#[ignore = "long: run with `cargo test --release -p zlrs-store --test kill -- --ignored`"]
fn two_hundred_kills() {
    nothing_is_lost_or_invented(200);
}
