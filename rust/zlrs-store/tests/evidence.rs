//! The evidence file: durable, shared, sealed.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test stops at what is wrong")]

use std::path::Path;

use rusqlite::Connection;
use zlrs_fingerprint::Fingerprint;
use zlrs_graph::{Digest, EdgeRecord, Pool};
use zlrs_store::{Evidence, KnownForm, Notices, PoolLabel};

const KEY: [u8; 32] = [5; 32];

fn open(path: &Path) -> Evidence {
    Evidence::open(path, KEY, Notices::default(), 1).unwrap()
}

fn label() -> PoolLabel {
    PoolLabel {
        route: "canonical".into(),
        kind: "prose".into(),
        language: "english".into(),
        tenant: "0123456789abcdef".into(),
        upstream: "http://upstream.example".into(),
        model: "m".into(),
    }
}

fn name(id: u8) -> Digest {
    Digest::of(&[id])
}

fn add(evidence: &Evidence, id: u8) -> Pool {
    evidence.change(&name(id), &label(), || Pool::new(Digest::default(), 7), |pool| pool.trials += 1).unwrap()
}

#[test]
fn processes_count_in_one_pool_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("evidence.sqlite3");
    let evidences: Vec<Evidence> = (0..4).map(|_| open(&path)).collect();
    std::thread::scope(|scope| {
        for evidence in &evidences {
            scope.spawn(move || {
                for _ in 0..50 {
                    add(evidence, 1);
                }
            });
        }
    });
    for evidence in &evidences {
        assert_eq!(evidence.pool(&name(1)).unwrap().trials, 200);
        assert!(evidence.broken().is_none());
    }
    drop(evidences);
    assert_eq!(open(&path).pools().len(), 1);
    assert_eq!(open(&path).pools()[0].label, label());
}

#[test]
fn the_latest_doubt_stands() {
    let folder = tempfile::tempdir().unwrap();
    for evidence in [Evidence::memory(), open(&folder.path().join("evidence.sqlite3"))] {
        assert_eq!(evidence.doubted_ms(&name(1)).unwrap(), None);
        for (at_ms, stands_ms) in [(100, 100), (50, 100), (200, 200)] {
            evidence.doubt(&name(1), at_ms).unwrap();
            assert_eq!(evidence.doubted_ms(&name(1)).unwrap(), Some(stands_ms));
        }
        assert_eq!(evidence.doubted_ms(&name(2)).unwrap(), None);
    }
}

#[test]
fn a_row_that_was_changed_or_moved_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("evidence.sqlite3");
    let evidence = open(&path);
    for id in [1, 2, 3] {
        add(&evidence, id);
        evidence.doubt(&name(id), 100).unwrap();
    }
    let connection = Connection::open(&path).unwrap();
    connection
        .execute(
            "UPDATE pools SET pool = replace(pool, '\"trials\":1,', '\"trials\":9000,') WHERE name = ?1",
            [name(1).as_bytes()],
        )
        .unwrap();
    connection
        .execute(
            "UPDATE pools SET pool = (SELECT pool FROM pools WHERE name = ?1),
                              seal = (SELECT seal FROM pools WHERE name = ?1) WHERE name = ?2",
            [name(3).as_bytes(), name(2).as_bytes()],
        )
        .unwrap();
    connection.execute("UPDATE doubts SET at_ms = 1 WHERE node = ?1", [name(1).as_bytes()]).unwrap();
    assert_eq!(evidence.pool(&name(1)), None);
    assert_eq!(evidence.pool(&name(2)), None, "a good row under another name");
    assert_eq!(evidence.pool(&name(3)).unwrap().trials, 1);
    assert_eq!(evidence.pools().len(), 1);
    assert_eq!(evidence.doubted_ms(&name(1)).unwrap(), Some(u64::MAX), "in doubt for ever");
    let other = Evidence::open(&path, [6; 32], Notices::default(), 1).unwrap();
    assert_eq!(other.pool(&name(3)), None, "another key");
}

#[test]
fn a_damaged_file_is_set_aside_and_a_foreign_one_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("evidence.sqlite3");
    std::fs::write(&path, b"no database at all, but long enough to be looked at as one".repeat(40)).unwrap();
    let notices = Notices::default();
    let evidence = Evidence::open(&path, KEY, notices.clone(), 77).unwrap();
    assert!(notices.take()[0].contains("was damaged"));
    assert!(folder.path().join("evidence.sqlite3-damaged-77").exists());
    assert_eq!(add(&evidence, 1).trials, 1);

    let foreign = folder.path().join("foreign.sqlite3");
    Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
    assert!(Evidence::open(&foreign, KEY, Notices::default(), 1).is_err());
}

#[test]
fn what_cannot_be_written_takes_only_the_routes_that_need_it_out_of_service() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("evidence.sqlite3");
    let evidence = open(&path);
    add(&evidence, 1);
    std::fs::remove_file(&path).unwrap();
    let lost =
        evidence.change(&name(1), &label(), || Pool::new(Digest::default(), 7), |pool| pool.trials += 1);
    assert!(lost.is_err());
    assert!(evidence.broken().unwrap().contains("deleted"));
}

#[test]
fn a_file_of_the_first_version_keeps_its_pools_and_learns_of_edges() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("evidence.sqlite3");
    let evidence = open(&path);
    add(&evidence, 1);
    drop(evidence);
    let first = Connection::open(&path).unwrap();
    first.execute_batch("DROP TABLE edges; DROP TABLE forms; PRAGMA user_version = 1").unwrap();
    drop(first);
    let evidence = open(&path);
    assert_eq!(evidence.pool(&name(1)).unwrap().trials, 1);
    assert_eq!(evidence.edge(&name(2)).unwrap(), EdgeRecord::default());
    evidence.change_edge(&name(2), |record| record.observe(&name(3), false)).unwrap();
    drop(evidence);
    assert_eq!(open(&path).edge(&name(2)).unwrap().counts(), (1, 0));
}

#[test]
fn edges_and_forms_are_kept_sealed_and_tell_no_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("evidence.sqlite3");
    let evidence = open(&path);
    let (network, scope) = (name(8), name(9));
    let fingerprint = Fingerprint(std::array::from_fn(|at| at as i8));
    let form = |id: u8| KnownForm { node: name(id), template: name(id + 100) };
    for id in 1..=3 {
        evidence.keep_form(&network, &scope, &form(id), &fingerprint, u64::from(id)).unwrap();
        for entry in 0..5 {
            evidence.change_edge(&name(id), |record| record.observe(&name(entry), false)).unwrap();
        }
        assert!(evidence.edge(&name(id)).unwrap().is_open());
    }
    assert!(evidence.unsealed_edges().unwrap().is_empty());
    let kept: Vec<KnownForm> = evidence.forms(&network).iter().map(|kept| kept.form).collect();
    assert_eq!(kept, [form(1), form(2), form(3)], "oldest first");
    let first = evidence.forms(&network)[0];
    assert_eq!((first.scope, first.fingerprint), (scope, fingerprint));
    assert!(evidence.forms(&name(7)).is_empty(), "of another network");
    drop(evidence);

    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let file = std::fs::read(&path).unwrap();
    assert!(
        !file.windows(8).any(|bytes| bytes == [1_u8, 2, 3, 4, 5, 6, 7, 8]),
        "the fingerprint is not in the clear"
    );
    // One row of each kind is changed, one is put in another's place.
    connection
        .execute_batch(
            "UPDATE edges SET record = replace(record, '\"wrong\":0', '\"wrong\": 0');
             UPDATE forms SET body = (SELECT body FROM forms AS other ORDER BY at_ms LIMIT 1) WHERE at_ms = 2;
             UPDATE forms SET body = zeroblob(128) WHERE at_ms = 3",
        )
        .unwrap();
    drop(connection);
    let evidence = open(&path);
    assert_eq!(evidence.unsealed_edges().unwrap().len(), 3);
    assert!(evidence.edge(&name(1)).unwrap().is_closed(), "an edge that is not believed serves nothing");
    assert_eq!(evidence.forms(&network).len(), 1);
}
