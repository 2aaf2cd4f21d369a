//! A directory looked at and checked without opening the graph.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test stops at what is wrong")]

mod common;
#[path = "common/wire.rs"]
mod wire;

use std::fs;
use std::path::{Path, PathBuf};

use common::NOW_MS;
use rusqlite::Connection;
use wire::{Ask, answer_json, settings, teach};
use zlrs_store::{Graph, Offline, Purge};

/// A directory with twenty questions, each asked in three wordings.
fn filled(folder: &Path) -> PathBuf {
    let path = folder.join("graph");
    let graph = Graph::open(Some(&path), settings(), NOW_MS).unwrap();
    for number in 0..20 {
        let wordings = ["What is in order {}?", "what is in order {}", "Please, what is in order {}?"];
        for (at, wording) in (0..).zip(wordings) {
            let ask = Ask { text: wording.replace("{}", &number.to_string()), ..Ask::default() };
            teach(&graph, &ask, &answer_json("A book about rivers."), NOW_MS + 10 * number + 3 * at);
            graph.flush().unwrap();
        }
    }
    graph.close();
    path
}

#[test]
fn a_good_directory_is_good_in_every_part() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(folder.path());
    let report = Offline::open(&path).unwrap().verify().unwrap();
    assert_eq!((report.faults, report.chains, report.open_chains, report.pools), (0, 1, 0, 1), "{report:?}");
    assert_eq!(report.entries, 80, "an entry for each wording, and one for each question");
    assert!(report.records > 120);
}

#[test]
fn an_edited_byte_is_named_with_its_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(folder.path());
    let offline = Offline::open(&path).unwrap();
    let victim = offline.entries("", 1000).unwrap()[7].clone();
    assert!(victim.holds);
    Connection::open(path.join("graph.sqlite3"))
        .unwrap()
        .execute(
            "UPDATE entries SET body = CAST(replace(CAST(body AS TEXT), 'rivers', 'riders') AS BLOB) WHERE seq = ?1",
            [victim.row],
        )
        .unwrap();
    Connection::open(path.join("evidence.sqlite3"))
        .unwrap()
        .execute("UPDATE pools SET pool = replace(pool, '\"wrong\":0', '\"wrong\":1')", [])
        .unwrap();
    let chain = fs::read_dir(path.join("audit")).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&chain).unwrap();
    fs::write(&chain, text.replacen("\"outcome\":\"miss\"", "\"outcome\":\"hits\"", 1)).unwrap();
    let report = offline.verify().unwrap();
    assert_eq!((report.faults, report.pools, report.chains, report.entries), (3, 0, 0, 79), "{report:?}");
    assert!(report.named[0].contains(&victim.key), "{:?}", report.named);
    assert!(report.named[1].starts_with("pool ") && report.named[2].contains("aud_"), "{:?}", report.named);
    let shown = offline.entries(&victim.key[..16], 10).unwrap();
    assert!(shown.len() == 1 && !shown[0].holds);
}

#[test]
fn entries_are_found_by_any_name_and_purged_by_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(folder.path());
    let offline = Offline::open(&path).unwrap();
    let all = offline.entries("", 1000).unwrap();
    assert_eq!(all.len(), 80);
    assert_eq!(offline.entries(&all[0].tenant, 1000).unwrap().len(), 80);
    assert_eq!(offline.entries(&all[0].scope[..20], 5).unwrap().len(), 5);
    assert_eq!(offline.entries("zz", 5).unwrap().len(), 0);
    let canonical = all.iter().filter(|entry| entry.route == "canonical").count();
    assert_eq!(canonical, 20);
    assert_eq!(offline.pools().unwrap()[0].pool.trials, 20);

    let graph = Graph::open(Some(&path), settings(), NOW_MS).unwrap();
    let key = zlrs_graph::Digest::from_hex(&all[3].key).unwrap();
    assert_eq!(
        graph.purge(Purge::Entry(key), NOW_MS).unwrap(),
        2,
        "and what the canonical route keeps of it"
    );
    assert_eq!(graph.purge(Purge::WrittenBefore(NOW_MS + 40), NOW_MS).unwrap(), 14);
    assert!(offline.entries(&all[3].key, 5).unwrap().is_empty());
}

#[test]
fn records_of_a_decision_are_found_and_a_directory_without_a_graph_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(folder.path());
    let offline = Offline::open(&path).unwrap();
    let chain = fs::read_dir(path.join("audit")).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(chain).unwrap();
    let id = &text[text.find("aud_").unwrap()..][..40];
    let records = offline.records(id).unwrap();
    assert_eq!(records.len(), 2, "the decision and what became of it");
    assert!(offline.records("aud_none").unwrap().is_empty());
    let Err(error) = Offline::open(&folder.path().join("nothing")) else { panic!("there is no graph") };
    assert!(error.to_string().contains("graph.key"), "{error}");
    assert!(!folder.path().join("nothing").exists(), "looking makes nothing");
}
