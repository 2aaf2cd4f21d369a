//! Every single bit of a store file may turn: what is read afterwards is what was written, or nothing.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test stops at what is wrong")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use common::{NOW_MS, body, digest, entry, found, open};
use zlrs_store::{Offline, Store};

const ENTRIES: u64 = 12;
/// Flips in the long run.
const ALL: u64 = 65_536;

/// What came of the flips.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    /// The file was refused or set aside, or an entry was not served.
    found: u64,
    /// Everything was served as it was written.
    harmless: u64,
}

/// A closed store's files.
fn written(directory: &Path) -> Vec<u8> {
    let (store, secrets, _) = open(directory).unwrap();
    for id in 0..ENTRIES {
        store.put(entry(id, &secrets), Duration::ZERO).unwrap();
    }
    store.tombstone(&digest("key", 0), NOW_MS, "test").unwrap();
    store.flush().unwrap();
    store.close();
    fs::read(directory.join("graph.sqlite3")).unwrap()
}

/// Turns every `step`th bit in turn, starting at `first`, and reads everything each time.
fn flip(first: u64, step: u64, count: u64) -> Seen {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("graph");
    let good = written(&directory);
    let key = fs::read(directory.join("graph.key")).unwrap();
    let bits = good.len() as u64 * 8;
    let mut seen = Seen::default();
    for turn in 0..count {
        let bit = usize::try_from((first + turn * step) % bits).unwrap();
        for left in fs::read_dir(&directory).unwrap() {
            fs::remove_file(left.unwrap().path()).unwrap();
        }
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        fs::write(directory.join("graph.sqlite3"), &bad).unwrap();
        fs::write(directory.join("graph.key"), &key).unwrap();
        for name in ["graph.sqlite3", "graph.key"] {
            fs::set_permissions(directory.join(name), fs::Permissions::from_mode(0o600)).unwrap();
        }
        let Ok((store, _, _)) = open(&directory) else {
            seen.found += 1;
            continue;
        };
        let mut served = 0;
        for id in 0..ENTRIES {
            let lookup = store.get(&digest("key", id), NOW_MS);
            if let Some(read) = found(&lookup) {
                assert_eq!(read, body(id), "bit {bit}: another answer under entry {id}");
                assert_ne!(id, 0, "bit {bit}: a withdrawn entry is back");
                served += 1;
            }
        }
        store.close();
        if served == ENTRIES - 1 {
            seen.harmless += 1;
        } else {
            seen.found += 1;
        }
    }
    assert_eq!(seen.found + seen.harmless, count);
    seen
}

#[test]
fn a_turned_bit_is_found_or_harmless() {
    // A prime step meets every page and every place within one.
    let seen = flip(7, 104_729, 600);
    assert!(seen.found > 0 && seen.harmless > 0, "{seen:?}");
}

#[test]
#[ignore = "long: run with `cargo test --release -p zlrs-store --test bit_flips -- --ignored`"]
fn sixty_five_thousand_turned_bits_are_found_or_harmless() {
    let seen: Vec<Seen> = std::thread::scope(|scope| {
        let parts: Vec<_> = (0..4).map(|part| scope.spawn(move || flip(part, 4 * 12_497, ALL / 4))).collect();
        parts.into_iter().map(|part| part.join().unwrap()).collect()
    });
    assert!(seen.iter().all(|part| part.found > 0), "{seen:?}");
    eprintln!("{seen:?}");
}

#[test]
fn verify_names_the_entry_of_a_turned_bit() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("graph");
    let good = written(&directory);
    let wanted = body(5);
    // Bodies over a page are spread over several; the first bytes lie together.
    let at = good.windows(16).position(|bytes| bytes == &wanted[..16]).unwrap();
    let mut bad = good;
    bad[at + 3] ^= 4;
    fs::write(directory.join("graph.sqlite3"), &bad).unwrap();
    let report = Offline::open(&directory).unwrap().verify().unwrap();
    assert_eq!((report.faults, report.entries), (1, ENTRIES - 2));
    assert!(report.named[0].contains(&digest("key", 5).to_hex()), "{:?}", report.named);
}
