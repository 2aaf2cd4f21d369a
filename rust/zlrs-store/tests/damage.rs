//! Files that are broken, foreign, newer, gone or full: nothing wrong is served and nothing is overwritten.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test stops at what is wrong")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::{NOW_MS, body, digest, entry, found, open};
use rusqlite::Connection;
use zlrs_graph::LookupFacts;
use zlrs_store::{Store, StoreError};

const WAIT: Duration = Duration::from_secs(20);

fn database(directory: &Path) -> std::path::PathBuf {
    directory.join("graph.sqlite3")
}

/// A closed store with entries 0 to 49.
fn filled(directory: &Path) {
    let (store, secrets, _) = open(directory).unwrap();
    for id in 0..50 {
        store.put(entry(id, &secrets), Duration::ZERO).unwrap();
    }
    store.flush().unwrap();
    store.close();
}

#[test]
fn a_changed_row_is_not_served() {
    let changes = [
        "UPDATE entries SET body = zeroblob(length(body)) WHERE key = ?1",
        "UPDATE entries SET body = substr(body, 2) WHERE key = ?1",
        "UPDATE entries SET body = zeroblob(0) WHERE key = ?1",
        "UPDATE entries SET answer_hash = zeroblob(32) WHERE key = ?1",
        "UPDATE entries SET answer_hash = zeroblob(31) WHERE key = ?1",
        "UPDATE entries SET signature = zeroblob(64) WHERE key = ?1",
        "UPDATE entries SET signature = zeroblob(63) WHERE key = ?1",
        "UPDATE entries SET scope = zeroblob(32) WHERE key = ?1",
        "UPDATE entries SET node = zeroblob(32) WHERE key = ?1",
        "UPDATE entries SET tenant = zeroblob(32) WHERE key = ?1",
        "UPDATE entries SET route = 7 WHERE key = ?1",
        "UPDATE entries SET versions = zeroblob(8) WHERE key = ?1",
        "UPDATE entries SET created_ms = created_ms + 1 WHERE key = ?1",
        "UPDATE entries SET created_ms = -1 WHERE key = ?1",
        "UPDATE entries SET expires_ms = expires_ms + 1 WHERE key = ?1",
        "UPDATE entries SET key_id = 'another' WHERE key = ?1",
    ];
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("graph");
    filled(&directory);
    let raw = Connection::open(database(&directory)).unwrap();
    for (id, change) in (0..).zip(changes) {
        assert_eq!(raw.execute(change, [digest("key", id).as_bytes()]).unwrap(), 1);
    }
    // A good row under another request's key: the oldest trick of a writable database.
    let swapped = "UPDATE entries SET key = ?1 WHERE key = ?2";
    raw.execute(swapped, [digest("key", 100).as_bytes(), digest("key", 30).as_bytes()]).unwrap();
    drop(raw);
    let (store, _, notices) = open(&directory).unwrap();
    for id in (0..changes.len() as u64).chain([100]) {
        let facts = store.get(&digest("key", id), NOW_MS).facts();
        assert_eq!(facts, LookupFacts::Corrupt, "{:?}", changes.get(usize::try_from(id).unwrap()));
    }
    assert_eq!(store.stats().corrupt, changes.len() as u64 + 1);
    assert_eq!(notices.take().len(), changes.len() + 1);
    assert!(found(&store.get(&digest("key", 40), NOW_MS)).is_some());
    assert_eq!(store.broken(), None);
}

#[test]
fn a_row_changed_under_a_running_store_is_not_served_again() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("graph");
    filled(&directory);
    let (store, secrets, _) = open(&directory).unwrap();
    assert_eq!(found(&store.get(&digest("key", 5), NOW_MS)), Some(body(5).as_slice()));
    store.put(entry(5, &secrets), WAIT).unwrap();
    let raw = Connection::open(database(&directory)).unwrap();
    raw.execute("UPDATE entries SET body = x'00' WHERE key = ?1", [digest("key", 5).as_bytes()]).unwrap();
    assert_eq!(store.get(&digest("key", 5), NOW_MS).facts(), LookupFacts::Corrupt);
}

#[test]
fn a_damaged_file_is_set_aside_and_said() {
    let folder = tempfile::tempdir().unwrap();
    for (name, damage) in [
        ("garbage", (|bytes| bytes.fill(0xA5)) as fn(&mut Vec<u8>)),
        ("header", |bytes| bytes[16..60].fill(0xFF)),
        ("page", |bytes| {
            let middle = bytes.len() / 2;
            bytes[middle..middle + 8192].fill(0x11);
        }),
        ("cut", |bytes| bytes.truncate(bytes.len() / 2)),
    ] {
        let directory = folder.path().join(name);
        filled(&directory);
        let mut bytes = fs::read(database(&directory)).unwrap();
        damage(&mut bytes);
        fs::write(database(&directory), &bytes).unwrap();
        let (store, secrets, notices) = open(&directory).unwrap();
        let said = notices.take().join("\n");
        assert!(said.contains("was damaged") && said.contains("was moved to"), "{name}: {said}");
        let aside = directory.join(format!("graph.sqlite3-damaged-{NOW_MS}"));
        assert_eq!(fs::read(aside).unwrap(), bytes, "{name}: the damaged file is kept as it was");
        assert_eq!(store.get(&digest("key", 1), NOW_MS).facts(), LookupFacts::Absent);
        store.put(entry(1, &secrets), WAIT).unwrap();
        assert!(found(&store.get(&digest("key", 1), NOW_MS)).is_some());
    }
}

#[test]
fn files_that_are_not_ours_are_refused_and_left() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("foreign");
    filled(&directory);
    fs::remove_file(database(&directory)).unwrap();
    let raw = Connection::open(database(&directory)).unwrap();
    raw.execute_batch("CREATE TABLE theirs (x)").unwrap();
    drop(raw);
    let before = fs::read(database(&directory)).unwrap();
    assert!(matches!(open(&directory), Err(StoreError::ForeignDatabase { .. })));
    assert_eq!(fs::read(database(&directory)).unwrap(), before);

    let directory = folder.path().join("newer");
    filled(&directory);
    Connection::open(database(&directory)).unwrap().execute_batch("PRAGMA user_version = 2").unwrap();
    assert!(matches!(open(&directory), Err(StoreError::SchemaTooNew { found: 2, known: 1, .. })));

    let directory = folder.path().join("other-key");
    filled(&directory);
    fs::remove_file(directory.join("graph.key")).unwrap();
    assert!(matches!(open(&directory), Err(StoreError::KeyMismatch { .. })));
}

#[test]
fn key_files_that_cannot_be_trusted_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("graph");
    filled(&directory);
    let key = directory.join("graph.key");
    let good = fs::read(&key).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
    assert!(matches!(open(&directory), Err(StoreError::KeyFile { .. })));
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    for length in 0..good.len() - 1 {
        fs::write(&key, &good[..length]).unwrap();
        assert!(matches!(open(&directory), Err(StoreError::KeyFile { .. })), "cut to {length}");
    }
    let mut flipped = good.clone();
    flipped[40] ^= 1;
    fs::write(&key, &flipped).unwrap();
    assert!(matches!(open(&directory), Err(StoreError::KeyFile { .. })));
    fs::write(&key, &good).unwrap();
    assert!(open(&directory).is_ok());
}

#[test]
fn a_directory_that_cannot_be_used_is_an_error_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, b"").unwrap();
    let Err(error) = open(&file.join("graph")) else { panic!("opened below a file") };
    assert!(error.to_string().contains("file/graph"), "{error}");
    let shared = folder.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(open(&shared), Err(StoreError::DirectoryOpen { mode: 0o777, .. })));
}

#[test]
fn a_deleted_or_replaced_file_takes_the_store_out_of_service() {
    let folder = tempfile::tempdir().unwrap();
    for replace in [false, true] {
        let directory = folder.path().join(format!("graph-{replace}"));
        filled(&directory);
        let (store, secrets, notices) = open(&directory).unwrap();
        assert!(found(&store.get(&digest("key", 1), NOW_MS)).is_some());
        fs::remove_file(database(&directory)).unwrap();
        if replace {
            fs::write(database(&directory), b"").unwrap();
        }
        // Reads look at the file once a millisecond.
        std::thread::sleep(std::time::Duration::from_millis(3));
        assert_eq!(store.get(&digest("key", 1), NOW_MS).facts(), LookupFacts::Unavailable);
        assert!(store.broken().unwrap().contains("deleted or replaced"));
        assert!(matches!(store.put(entry(90, &secrets), WAIT), Err(StoreError::Broken(_))));
        assert!(matches!(store.tombstone(&digest("key", 1), NOW_MS, "test"), Err(StoreError::Broken(_))));
        assert!(matches!(store.flush(), Err(StoreError::Broken(_))));
        assert_eq!(notices.take().len(), 1, "said once");
    }
}

#[test]
fn damage_met_while_running_stops_the_store_and_is_checked_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("graph");
    filled(&directory);
    let (store, secrets, _) = open(&directory).unwrap();
    // Every page after the first two, while the file is open: rows cannot be read any more.
    let bytes = fs::read(database(&directory)).unwrap();
    let file = fs::OpenOptions::new().write(true).open(database(&directory)).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &vec![0x55; bytes.len() - 4096], 4096).unwrap();
    // A commit makes the reader forget the pages it has in memory. It may itself meet the damage.
    let _ = store.put(entry(60, &secrets), WAIT);
    for id in 0..50 {
        if let Some(bytes) = found(&store.get(&digest("key", id), NOW_MS)) {
            assert_eq!(bytes, body(id));
        }
    }
    assert!(store.broken().is_some());
    store.close();
    assert!(directory.join("graph.sqlite3-suspect").exists());
    let (_, _, notices) = open(&directory).unwrap();
    assert!(notices.take().join("\n").contains("was moved to"));
    assert!(!directory.join("graph.sqlite3-suspect").exists());
}

#[test]
fn a_full_disk_ends_in_an_error_not_a_crash_and_loses_nothing_committed() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("graph");
    let test = std::env::current_exe().unwrap();
    let program = test.parent().and_then(Path::parent).unwrap().join("examples/store_writer");
    // A limit on the size of files stands for the full disk: writing past it fails with an error.
    let script = "trap '' XFSZ; ulimit -f 4000; exec \"$0\" \"$1\" 0";
    let output = Command::new("sh").args(["-c", script]).arg(program).arg(&directory).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    let acknowledged: Vec<u64> =
        said.lines().filter_map(|line| line.strip_prefix("e ")).map(|id| id.parse().unwrap()).collect();
    assert!(acknowledged.len() > 10, "{said}");
    let (store, _, _) = open(&directory).unwrap();
    for id in acknowledged.into_iter().filter(|id| id % 10 != 0) {
        assert_eq!(found(&store.get(&digest("key", id), NOW_MS)), Some(body(id).as_slice()), "entry {id}");
    }
}
