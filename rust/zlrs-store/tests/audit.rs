//! Audit chains: what is written can be verified, and whoever changes it is found out.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test stops at what is wrong")]

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;
use zlrs_store::{Audit, AuditFault, Notices, Secrets, Verifier, VerifyError, verify_audit};

const NOW_MS: u64 = 1_800_000_000_000;

/// A closed chain of `records` records, its file and its key.
fn chain(records: u64) -> (TempDir, PathBuf, Arc<Secrets>) {
    let folder = tempfile::tempdir().unwrap();
    let secrets = Arc::new(Secrets::ephemeral().unwrap());
    let audit = Audit::open(&folder.path().join("audit"), &secrets, Notices::default(), NOW_MS).unwrap();
    for number in 0..records {
        audit.add(&json!({"kind": "decision", "id": format!("aud_{number}"), "text": "\"}, é"}));
        if number % 1000 == 999 {
            audit.flush().unwrap();
        }
    }
    audit.flush().unwrap();
    let path = audit.path().to_owned();
    audit.close();
    (folder, path, secrets)
}

#[test]
fn what_must_not_be_lost_waits_for_a_place_in_a_full_queue() {
    let folder = tempfile::tempdir().unwrap();
    let secrets = Arc::new(Secrets::ephemeral().unwrap());
    let audit = Audit::open(&folder.path().join("audit"), &secrets, Notices::default(), NOW_MS).unwrap();
    let kept: u64 = 20;
    for number in 0..kept {
        // Faster than they are written, until one finds no place; the queue is full at that moment.
        let dropped = audit.counts().1;
        while audit.counts().1 == dropped {
            audit.add_text("{\"kind\":\"decision\"}".to_owned());
        }
        audit.keep(&json!({"kind": "trial", "number": number}));
    }
    audit.flush().unwrap();
    assert_eq!(audit.broken(), None);
    let path = audit.path().to_owned();
    audit.close();
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.matches("\"kind\":\"trial\"").count() as u64, kept);
    let report = verify_audit(&path, Some(&secrets.verifier())).unwrap();
    assert!(report.dropped_records >= kept);
}

fn newlines(bytes: &[u8]) -> usize {
    bytes.split(|byte| *byte == b'\n').count() - 1
}

fn fault(result: Result<zlrs_store::AuditReport, VerifyError>) -> AuditFault {
    match result {
        Err(VerifyError::Fault(fault)) => fault,
        other => panic!("found good: {other:?}"),
    }
}

#[test]
fn a_chain_verifies_with_its_key_and_is_signed_to_the_end() {
    let (_folder, path, secrets) = chain(600);
    let report = verify_audit(&path, Some(&secrets.verifier())).unwrap();
    assert_eq!((report.records, report.signed_records, report.dropped_records), (600, 600, 0));
    assert!(report.ended && !report.cut_line);
    // One at every 256 records, one at the flush, one at the end.
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.matches("\"kind\":\"checkpoint\"").count(), 3);
    assert_eq!(text.matches("\"kind\":\"end\"").count(), 1);
}

#[test]
fn a_chain_of_another_key_is_named() {
    let (_folder, path, _) = chain(3);
    let other = Secrets::ephemeral().unwrap();
    let fault = fault(verify_audit(&path, Some(&other.verifier())));
    assert_eq!((fault.line, fault.id.as_str()), (1, "start"));
}

#[test]
fn removed_moved_and_doubled_records_are_named() {
    let (_folder, path, _) = chain(20);
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let rewritten = |lines: Vec<&str>| {
        fs::write(&path, lines.join("\n") + "\n").unwrap();
        fault(verify_audit(&path, None))
    };
    let mut removed = lines.clone();
    removed.remove(8);
    assert_eq!(rewritten(removed).id, "aud_8");
    let mut moved = lines.clone();
    moved.swap(8, 9);
    assert_eq!(rewritten(moved).id, "aud_8");
    let mut doubled = lines.clone();
    doubled.insert(8, lines[7]);
    assert_eq!(rewritten(doubled).id, "aud_6");
    let mut longer = lines.clone();
    longer.push(lines[lines.len() - 1]);
    assert_eq!(rewritten(longer).id, "end");
    assert_eq!(rewritten(lines[1..].to_vec()).line, 1);
}

#[test]
fn a_chain_written_anew_without_the_key_fails_at_its_first_signature() {
    let (_folder, path, secrets) = chain(20);
    // Somebody who knows the format makes a whole chain with a changed record, and claims our key.
    let (_other, forged, _) = chain(20);
    let key = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        first["body"]["public_key"].as_str().unwrap().to_owned()
    };
    let (ours, theirs) = (key(&path), key(&forged));
    let mut previous = "0".repeat(64);
    let mut lines = Vec::new();
    for line in fs::read_to_string(&forged).unwrap().lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        let body = value["body"].to_string().replace(&theirs, &ours).replace("aud_3", "aud_x");
        let before = format!("{{\"seq\":{},\"prev\":\"{previous}\",\"body\":{body}", value["seq"]);
        previous = blake3::Hash::from_bytes(blake3::derive_key("zlrs audit 1 line", before.as_bytes()))
            .to_hex()
            .to_string();
        lines.push(format!("{before},\"hash\":\"{previous}\"}}\n"));
    }
    fs::write(&path, lines.concat()).unwrap();
    let fault = fault(verify_audit(&path, Some(&secrets.verifier())));
    assert_eq!((fault.id.as_str(), fault.what.as_str()), ("checkpoint", "its signature does not hold"));
}

#[test]
fn a_killed_chain_ends_open_and_what_is_whole_is_good() {
    let (_folder, path, _) = chain(20);
    let bytes = fs::read(&path).unwrap();
    let lines = newlines(&bytes);
    for keep in (bytes.len() / 2)..bytes.len() {
        fs::write(&path, &bytes[..keep]).unwrap();
        let report = verify_audit(&path, None).unwrap();
        assert!(!report.ended);
        assert_eq!(report.cut_line, bytes[keep - 1] != b'\n');
        let whole = newlines(&bytes[..keep]);
        assert!(whole < lines && report.records <= whole as u64);
    }
}

#[test]
fn a_log_that_cannot_be_made_is_an_error_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, b"").unwrap();
    let secrets = Arc::new(Secrets::ephemeral().unwrap());
    let Err(error) = Audit::open(&file, &secrets, Notices::default(), NOW_MS) else { panic!("opened") };
    assert!(error.to_string().contains("audit log"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any changed byte is found, in the very line it is in or the one after it.
    #[test]
    fn any_changed_byte_is_found(place in any::<prop::sample::Index>(), change in 1..=255_u8) {
        static CHAIN: LazyLock<(Vec<u8>, Verifier)> = LazyLock::new(|| {
            let (_folder, path, secrets) = chain(12);
            (fs::read(path).unwrap(), secrets.verifier())
        });
        let (bytes, verifier) = &*CHAIN;
        let mut bytes = bytes.clone();
        let at = place.index(bytes.len());
        let line = newlines(&bytes[..at]) as u64 + 1;
        bytes[at] ^= change;
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), &bytes).unwrap();
        match verify_audit(file.path(), Some(verifier)) {
            Err(VerifyError::Fault(fault)) => prop_assert!(fault.line == line || fault.line == line + 1),
            // The last newline is no record: without it the last line counts as cut.
            Ok(report) => prop_assert!(report.cut_line && !report.ended && at == bytes.len() - 1),
            Err(error) => prop_assert!(false, "{error}"),
        }
    }
}
