//! Two processes on one directory: each sees what the other wrote and what it withdrew.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test stops at what is wrong")]

mod common;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::{NOW_MS, body, digest, entry, found, open};
use zlrs_graph::LookupFacts;
use zlrs_store::{Purge, Store};

const WAIT: Duration = Duration::from_secs(20);

/// Lets another process write entries `first..first + count` and end.
fn write_elsewhere(directory: &Path, first: u64, count: u64) {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().and_then(Path::parent).unwrap().join("examples/store_writer");
    let status = Command::new(program)
        .args([directory.as_os_str(), first.to_string().as_ref(), count.to_string().as_ref()])
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn entries_and_tombstones_of_another_process_are_seen_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("graph");
    let (store, secrets, _) = open(&directory).unwrap();
    store.put(entry(10, &secrets), WAIT).unwrap();
    assert!(found(&store.get(&digest("key", 10), NOW_MS)).is_some());
    assert_eq!(store.get(&digest("key", 11), NOW_MS).facts(), LookupFacts::Absent);
    // The other process writes 0..30 again and withdraws 0, 10 and 20.
    write_elsewhere(&directory, 0, 30);
    for id in 0..30 {
        let expected = body(id);
        let lookup = store.get(&digest("key", id), NOW_MS);
        assert_eq!(found(&lookup), (id % 10 != 0).then_some(expected.as_slice()), "entry {id}");
    }
}

#[test]
fn what_another_store_purges_is_not_served_from_memory() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("graph");
    let (ours, secrets, _) = open(&directory).unwrap();
    let (theirs, _, _) = open(&directory).unwrap();
    for id in 0..20 {
        ours.put(entry(id, &secrets), WAIT).unwrap();
        assert!(found(&ours.get(&digest("key", id), NOW_MS)).is_some());
        assert!(found(&theirs.get(&digest("key", id), NOW_MS)).is_some());
    }
    assert_eq!(theirs.purge(Purge::Tenant(digest("tenant", 1)), NOW_MS).unwrap(), 7);
    theirs.tombstone(&digest("key", 0), NOW_MS, "test").unwrap();
    for id in 0..20 {
        let expected = id % 3 != 1 && id != 0;
        assert_eq!(found(&ours.get(&digest("key", id), NOW_MS)).is_some(), expected, "entry {id}");
    }
}

#[test]
fn many_writers_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("graph");
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let directory = &directory;
            scope.spawn(move || write_elsewhere(directory, writer * 1000, 200));
        }
    });
    let (store, _, _) = open(&directory).unwrap();
    for writer in 0..4 {
        for id in (writer * 1000..writer * 1000 + 200).filter(|id| id % 10 != 0) {
            assert!(found(&store.get(&digest("key", id), NOW_MS)).is_some(), "entry {id}");
        }
    }
    assert_eq!(store.stats().entries, 4 * 180);
}

#[test]
fn processes_that_open_a_damaged_file_together_set_it_aside_once() {
    for round in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("graph");
        drop(open(&directory).unwrap());
        std::fs::write(directory.join("graph.sqlite3"), vec![round; 20_000]).unwrap();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let directory = &directory;
                scope.spawn(move || write_elsewhere(directory, writer * 1000, 20));
            }
        });
        let aside = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().contains("damaged");
        let files = std::fs::read_dir(&directory).unwrap().map(Result::unwrap).filter(aside).count();
        assert_eq!(files, 1);
        let (store, _, _) = open(&directory).unwrap();
        assert_eq!(store.stats().entries, 4 * 18);
    }
}
