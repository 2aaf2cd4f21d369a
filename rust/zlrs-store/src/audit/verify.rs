//! Checks a chain and names the first thing that is wrong with it.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use zlrs_graph::Digest;

use super::{FORMAT, HASH_CLOSE, HASH_OPEN, checkpoint_message, line_hash};
use crate::StoreError;
use crate::secrets::Verifier;

/// No line of ours comes near; a longer one is not read into memory.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// What a good chain holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// Records that are not of the chain's own making.
    pub records: u64,
    /// Records that a signature covers.
    pub signed_records: u64,
    /// Records that were dropped because they came too fast.
    pub dropped_records: u64,
    /// Whether the chain was ended; otherwise its process was killed, still writes, or the end was cut off.
    pub ended: bool,
    /// Whether the file ends in a part of a line, as a kill leaves it.
    pub cut_line: bool,
}

/// The first thing wrong with a chain.
#[derive(Debug, thiserror::Error)]
#[error("line {line}, record {id}: {what}")]
pub struct AuditFault {
    /// Line in the file, from 1.
    pub line: u64,
    /// The record's id, or its kind where it has none, or `?`.
    pub id: String,
    /// What is wrong.
    pub what: String,
}

/// Why a chain was not found good.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The file cannot be read.
    #[error(transparent)]
    Unreadable(#[from] StoreError),
    /// It was read and is not what was written.
    #[error(transparent)]
    Fault(#[from] AuditFault),
}

/// Checks every line of a chain: numbers, links, hashes, signatures. `expected` is the key it must be signed with;
/// without it the key in the first line is believed, which shows damage but not a chain made by somebody else.
///
/// # Errors
/// [`VerifyError::Fault`] names the first bad record.
pub fn verify_audit(path: &Path, expected: Option<&Verifier>) -> Result<AuditReport, VerifyError> {
    let unreadable =
        |source| StoreError::File { action: "reading the audit log", path: path.to_owned(), source };
    let mut reader = BufReader::new(File::open(path).map_err(unreadable)?);
    let mut chain = Chain { expected: expected.copied(), ..Chain::default() };
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(unreadable)?;
        if read == 0 {
            return Ok(chain.report);
        }
        if line.pop_if(|byte| *byte == b'\n').is_none() && (read as u64) < LINE_BYTES_MAX {
            chain.report.cut_line = true;
            return Ok(chain.report);
        }
        chain.line += 1;
        chain.check(&line).map_err(|what| chain.fault(&line, what))?;
    }
}

/// A line, as far as a check looks into it. Nothing is copied that is not escaped.
#[derive(Deserialize)]
struct Line<'l> {
    seq: u64,
    #[serde(borrow)]
    prev: Cow<'l, str>,
    #[serde(borrow)]
    body: Body<'l>,
}

/// The parts of a body that the chain itself writes.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Body<'l> {
    #[serde(borrow)]
    kind: Option<Cow<'l, str>>,
    format: Option<u64>,
    #[serde(borrow)]
    chain: Option<Cow<'l, str>>,
    #[serde(borrow)]
    public_key: Option<Cow<'l, str>>,
    #[serde(borrow)]
    signature: Option<Cow<'l, str>>,
    records: Option<u64>,
}

#[derive(Default)]
struct Chain {
    line: u64,
    name: String,
    previous: Digest,
    expected: Option<Verifier>,
    report: AuditReport,
}

impl Chain {
    fn check(&mut self, line: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(line).map_err(|_| "it is not text")?;
        let suffix = HASH_OPEN.len() + 64 + HASH_CLOSE.len();
        let at = text
            .len()
            .checked_sub(suffix)
            .filter(|&at| text.is_char_boundary(at))
            .ok_or("it is too short")?;
        let (before, after) = text.split_at(at);
        let stated = after
            .strip_prefix(HASH_OPEN)
            .and_then(|rest| rest.strip_suffix(HASH_CLOSE))
            .and_then(Digest::from_hex)
            .ok_or("it does not end in a hash")?;
        if line_hash(before.as_bytes()) != stated {
            return Err("its hash does not fit its content".to_owned());
        }
        let parsed: Line<'_> =
            serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
        if parsed.seq != self.line - 1 {
            return Err(format!("its number is {}, expected {}", parsed.seq, self.line - 1));
        }
        if Digest::from_hex(&parsed.prev) != Some(self.previous) {
            return Err("it does not follow the record before it".to_owned());
        }
        if self.report.ended {
            return Err("it follows the end of the chain".to_owned());
        }
        self.read(&parsed.body)?;
        self.previous = stated;
        Ok(())
    }

    fn read(&mut self, body: &Body<'_>) -> Result<(), String> {
        match (self.line, body.kind.as_deref()) {
            (1, Some("start")) => self.start(body),
            (1, _) => Err("the first record is not the start of a chain".to_owned()),
            (_, Some("start")) => Err("a second start".to_owned()),
            (_, Some("checkpoint")) => self.signature(body),
            (_, Some("end")) => {
                self.report.ended = true;
                self.signature(body)
            }
            (_, Some("dropped")) => {
                self.report.dropped_records += body.records.unwrap_or(0);
                Ok(())
            }
            _ => {
                self.report.records += 1;
                Ok(())
            }
        }
    }

    fn start(&mut self, body: &Body<'_>) -> Result<(), String> {
        if body.format != Some(FORMAT) {
            let given = body.format.map_or_else(|| "absent".to_owned(), |format| format.to_string());
            return Err(format!("its format is {given}, this zlrs reads {FORMAT}"));
        }
        body.chain.as_deref().ok_or("it names no chain")?.clone_into(&mut self.name);
        let key = body.public_key.as_deref().and_then(Verifier::from_hex).ok_or("it names no key")?;
        match self.expected {
            Some(expected) if expected != key => {
                Err(format!("it is signed with key {}, expected {}", key.key_id(), expected.key_id()))
            }
            _ => {
                self.expected = Some(key);
                Ok(())
            }
        }
    }

    fn signature(&mut self, body: &Body<'_>) -> Result<(), String> {
        let message = checkpoint_message(&self.name, self.line - 1, &self.previous);
        let text = body.signature.as_deref().unwrap_or("");
        let halves = (text.get(..64).and_then(Digest::from_hex), text.get(64..).and_then(Digest::from_hex));
        let (Some(first), Some(second)) = halves else { return Err("its signature is not one".to_owned()) };
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(first.as_bytes());
        signature[32..].copy_from_slice(second.as_bytes());
        let holds = self.expected.is_some_and(|verifier| verifier.holds(&message, &signature));
        if !holds {
            return Err("its signature does not hold".to_owned());
        }
        self.report.signed_records = self.report.records;
        Ok(())
    }

    fn fault(&self, line: &[u8], what: String) -> AuditFault {
        let value: Value = serde_json::from_slice(line).unwrap_or_default();
        let name = |field: &str| value["body"][field].as_str().map(str::to_owned);
        let id = name("id").or_else(|| name("kind")).unwrap_or_else(|| "?".to_owned());
        AuditFault { line: self.line, id, what }
    }
}
