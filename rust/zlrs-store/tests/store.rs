//! What every store promises, against a naive model; then what only the one on disk does.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test stops at what is wrong")]

mod common;

use std::collections::HashMap;
use std::time::Duration;

use common::{NOW_MS, TTL_MS, body, digest, entry, entry_at, found, open, open_with};
use proptest::prelude::*;
use zlrs_graph::LookupFacts;
use zlrs_store::{Limits, MemoryStore, Purge, Secrets, Store, StoreError, Written};

const WAIT: Duration = Duration::from_secs(20);

/// What can be done to a store.
#[derive(Clone, Debug)]
enum Step {
    Put { id: u64, at: u64 },
    Tombstone { id: u64, at: u64 },
    Get { id: u64, at: u64 },
    Purge { what: Named, at: u64 },
    PurgeUntil { what: Named, at: u64 },
    PurgeExpired(u64),
}

/// What a purge names.
#[derive(Clone, Copy, Debug)]
enum Named {
    All,
    Tenant(u64),
    Scope(u64),
    Node(u64),
}

impl Named {
    fn purge(self) -> Purge {
        match self {
            Self::All => Purge::All,
            Self::Tenant(tenant) => Purge::Tenant(digest("tenant", tenant)),
            Self::Scope(scope) => Purge::Scope(digest("scope", scope)),
            Self::Node(node) => Purge::Node(digest("node", node)),
        }
    }

    fn holds(self, id: u64) -> bool {
        match self {
            Self::All => true,
            Self::Tenant(tenant) => id % 3 == tenant,
            Self::Scope(scope) => id % 7 == scope,
            Self::Node(node) => id == node,
        }
    }
}

fn named() -> impl Strategy<Value = Named> {
    prop_oneof![
        Just(Named::All),
        (0..3_u64).prop_map(Named::Tenant),
        (0..7_u64).prop_map(Named::Scope),
        (0..12_u64).prop_map(Named::Node),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let id = 0..12_u64;
    let at = 0..6_u64;
    prop_oneof![
        6 => (id.clone(), at.clone()).prop_map(|(id, at)| Step::Put { id, at }),
        2 => (id.clone(), at.clone()).prop_map(|(id, at)| Step::Tombstone { id, at }),
        8 => (id.clone(), at.clone()).prop_map(|(id, at)| Step::Get { id, at }),
        2 => (named(), at.clone()).prop_map(|(what, at)| Step::Purge { what, at }),
        2 => (named(), at.clone()).prop_map(|(what, at)| Step::PurgeUntil { what, at }),
        1 => at.prop_map(Step::PurgeExpired),
    ]
}

/// Times are whole lives apart, so that steps meet expired entries as well as live ones.
fn time_ms(at: u64) -> u64 {
    NOW_MS + at * TTL_MS / 2
}

/// An entry of the model. A store may remove what had expired by the time of a later write, or leave it.
#[derive(Clone, Copy)]
struct Known {
    created_ms: u64,
    certain: bool,
}

/// Runs steps on a store and on two hash maps, comparing every answer.
fn agrees_with_a_map(store: &dyn Store, secrets: &Secrets, steps: &[Step]) {
    let mut written: HashMap<u64, Known> = HashMap::new();
    let mut buried: HashMap<u64, u64> = HashMap::new();
    let mut purged: Vec<(Named, u64)> = Vec::new();
    for step in steps {
        match *step {
            Step::Put { id, at } => {
                let created_ms = time_ms(at);
                for known in written.values_mut() {
                    known.certain &= known.created_ms + TTL_MS > created_ms;
                }
                let newer = written.get(&id).filter(|known| known.created_ms > created_ms);
                let buried = buried.get(&id).is_some_and(|&at_ms| at_ms >= created_ms)
                    || purged.iter().any(|&(what, at_ms)| at_ms >= created_ms && what.holds(id));
                match store.put(entry_at(id, created_ms, secrets), WAIT).unwrap() {
                    Written::Committed => {
                        assert!(!buried && !newer.is_some_and(|known| known.certain));
                        written.insert(id, Known { created_ms, certain: true });
                    }
                    Written::Superseded => assert!(buried || newer.is_some()),
                    Written::Queued => panic!("not committed in {WAIT:?}"),
                }
            }
            Step::Tombstone { id, at } => {
                let at_ms = buried.get(&id).map_or(time_ms(at), |&earlier| earlier.max(time_ms(at)));
                store.tombstone(&digest("key", id), time_ms(at), "test").unwrap();
                buried.insert(id, at_ms);
                written.retain(|&other, known| other != id || known.created_ms > at_ms);
            }
            Step::Get { id, at } => {
                let lookup = store.get(&digest("key", id), time_ms(at));
                match (written.get(&id), lookup.facts()) {
                    (None, LookupFacts::Absent) => {}
                    (Some(known), LookupFacts::Absent) => assert!(!known.certain, "entry {id} is lost"),
                    (Some(known), LookupFacts::Expired) => assert!(known.created_ms + TTL_MS <= time_ms(at)),
                    (Some(known), LookupFacts::Found(facts)) => {
                        assert!(
                            known.created_ms + TTL_MS > time_ms(at),
                            "entry {id} is served past its time"
                        );
                        assert_eq!(facts.created_ms, known.created_ms);
                        assert_eq!(found(&lookup), Some(body(id).as_slice()));
                    }
                    (known, facts) => panic!("{facts:?} for {:?}", known.map(|known| known.created_ms)),
                }
            }
            Step::Purge { what, at } => {
                store.purge(what.purge(), time_ms(at)).unwrap();
                written.retain(|&id, _| !what.holds(id));
                purged.push((what, time_ms(at)));
            }
            Step::PurgeUntil { what, at } => {
                store.purge_until(what.purge(), time_ms(at)).unwrap();
                written.retain(|&id, known| !what.holds(id) || known.created_ms > time_ms(at));
                purged.push((what, time_ms(at)));
            }
            Step::PurgeExpired(at) => {
                store.purge(Purge::Expired(time_ms(at)), time_ms(at)).unwrap();
                written.retain(|_, known| known.created_ms + TTL_MS > time_ms(at));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_store_on_disk_agrees_with_a_map(steps in prop::collection::vec(step(), 1..60)) {
        let folder = tempfile::tempdir().unwrap();
        let (store, secrets, _) = open(&folder.path().join("graph")).unwrap();
        agrees_with_a_map(&store, &secrets, &steps);
    }

    #[test]
    fn the_store_in_memory_agrees_with_a_map(steps in prop::collection::vec(step(), 1..60)) {
        let secrets = Secrets::ephemeral().unwrap();
        agrees_with_a_map(&MemoryStore::new(1000, 1 << 30), &secrets, &steps);
    }
}

#[test]
fn what_was_flushed_is_there_after_opening_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("graph");
    let (store, secrets, _) = open(&path).unwrap();
    for id in 0..500 {
        store.put(entry(id, &secrets), Duration::ZERO).unwrap();
    }
    store.flush().unwrap();
    store.tombstone(&digest("key", 3), NOW_MS, "test").unwrap();
    store.close();
    assert!(matches!(store.put(entry(1, &secrets), Duration::ZERO), Err(StoreError::Closed)));
    let (store, _, notices) = open(&path).unwrap();
    for id in 0..500 {
        let expected = body(id);
        let lookup = store.get(&digest("key", id), NOW_MS);
        assert_eq!(found(&lookup), (id != 3).then_some(expected.as_slice()), "entry {id}");
    }
    assert_eq!(store.stats().entries, 499);
    assert_eq!(notices.take(), Vec::<String>::new());
}

#[test]
fn limits_remove_the_oldest_entries() {
    let secrets = Secrets::ephemeral().unwrap();
    let memory = MemoryStore::new(10, 1 << 30);
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { max_entries: 10, read_deadline: WAIT, ..Limits::default() };
    let (disk, disk_secrets, _) = open_with(&folder.path().join("graph"), limits).unwrap();
    for (store, secrets) in [(&memory as &dyn Store, &secrets), (&disk, &disk_secrets)] {
        for id in 0..50 {
            store.put(entry(id, secrets), WAIT).unwrap();
        }
        for id in 0..50 {
            assert_eq!(found(&store.get(&digest("key", id), NOW_MS)).is_some(), id >= 40, "entry {id}");
        }
        assert_eq!(store.stats().entries, 10);
        assert_eq!(store.stats().evicted, 40);
    }
}

#[test]
fn the_byte_limit_holds() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { max_bytes: 40_000, read_deadline: WAIT, ..Limits::default() };
    let (store, secrets, _) = open_with(&folder.path().join("graph"), limits).unwrap();
    for id in 0..100 {
        store.put(entry(id, &secrets), WAIT).unwrap();
        assert!(store.stats().bytes <= 40_000);
    }
    assert!(found(&store.get(&digest("key", 99), NOW_MS)).is_some());
    assert!(found(&store.get(&digest("key", 0), NOW_MS)).is_none());
}

#[test]
fn bodies_in_memory_stay_under_their_limit_and_the_rest_comes_from_the_row() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { body_cache_bytes: 30_000, read_deadline: WAIT, ..Limits::default() };
    let (store, secrets, _) = open_with(&folder.path().join("graph"), limits).unwrap();
    for id in 0..100 {
        store.put(entry(id, &secrets), Duration::ZERO).unwrap();
    }
    store.flush().unwrap();
    for round in 0..2 {
        for id in 0..100 {
            assert!(found(&store.get(&digest("key", id), NOW_MS)).is_some(), "round {round}, entry {id}");
            assert!(store.stats().cached_bytes <= 30_000);
        }
    }
    assert!(store.stats().cached_bodies > 0);
}

#[test]
fn an_answer_of_another_row_with_the_same_first_half_is_not_given() {
    let folder = tempfile::tempdir().unwrap();
    let (store, secrets, _) = open(&folder.path().join("graph")).unwrap();
    store.put(entry(1, &secrets), WAIT).unwrap();
    let mut other = digest("key", 1);
    other.0[31] ^= 1;
    assert_eq!(store.get(&other, NOW_MS).facts(), LookupFacts::Absent);
    assert!(found(&store.get(&digest("key", 1), NOW_MS)).is_some());
}

/// Another process writes more rows than can be read in the time a lookup has for news.
fn flood(directory: &std::path::Path) {
    let raw = rusqlite::Connection::open(directory.join("graph.sqlite3")).unwrap();
    raw.execute_batch(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
         INSERT INTO entries (key, scope, node, tenant, route, versions, created_ms, expires_ms, stored_bytes,
                              answer_hash, key_id, signature, body)
         SELECT randomblob(32), x'', x'', x'', 1, x'', 1, 9000000000000, 1, x'', '', x'', x'' FROM n",
    )
    .unwrap();
}

#[test]
fn a_lookup_that_is_behind_is_a_miss_until_the_news_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("graph");
    let (store, secrets, _) = open(&path).unwrap();
    store.put(entry(1, &secrets), WAIT).unwrap();
    assert!(found(&store.get(&digest("key", 1), NOW_MS)).is_some());
    flood(&path);
    assert_eq!(store.get(&digest("key", 1), NOW_MS).facts(), LookupFacts::Behind);
    let mut lookups = 1;
    while store.get(&digest("key", 1), NOW_MS).facts() == LookupFacts::Behind {
        lookups += 1;
    }
    assert!(found(&store.get(&digest("key", 1), NOW_MS)).is_some());
    assert_eq!(store.stats().behind, lookups);
}

#[test]
fn files_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("graph");
    let (store, secrets, _) = open(&path).unwrap();
    store.put(entry(1, &secrets), WAIT).unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    let mut files = 0;
    for file in std::fs::read_dir(&path).unwrap() {
        let file = file.unwrap().path();
        assert_eq!(mode(&file), 0o600, "{}", file.display());
        files += 1;
    }
    assert!(files >= 3, "database, log, key");
}
