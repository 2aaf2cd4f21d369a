//! Entries between directories: a line of JSON each, with the signature of the graph that wrote it.
//!
//! An entry is taken in only where a trusted key has signed it, and is signed anew with the reader's own. Its names are
//! keyed hashes of the requests that it answers, so it is found again only by a graph with the same secret (a copy of
//! the key file): under another one nothing ever asks for it. Evidence is not taken along: it speaks for one tenant's
//! traffic and one upstream.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use zlrs_graph::{Digest, Versions, route_code, route_of_code};

use crate::graph::record;
use crate::offline::Offline;
use crate::secrets::Verifier;
use crate::{Draft, Entry, Graph, StoreError, Written};

/// How long an entry waits to be committed.
const COMMIT_WAIT: Duration = Duration::from_secs(10);

/// An entry with everything that its signature covers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    kind: String,
    key: Digest,
    scope: Digest,
    node: Digest,
    tenant: Digest,
    route: u8,
    versions: [u8; 8],
    created_ms: u64,
    expires_ms: u64,
    key_id: String,
    signature: String,
    /// Hexadecimal: bodies are no texts.
    body: String,
    tags: Vec<u64>,
}

/// What became of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imported {
    /// Kept.
    Stored,
    /// No trusted key has signed it, or something in it was changed.
    Untrusted,
    /// It is no entry.
    Malformed,
    /// It has passed its time, or is of the future.
    Expired,
    /// It was written under other rules.
    OtherRules,
    /// A newer entry or a tombstone stands under its key.
    Superseded,
}

impl Imported {
    /// For reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Untrusted => "untrusted",
            Self::Malformed => "malformed",
            Self::Expired => "expired",
            Self::OtherRules => "other_rules",
            Self::Superseded => "superseded",
        }
    }
}

impl Offline {
    /// Every entry as a line. Holds all of them in memory.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn export(&self) -> Result<Vec<String>, StoreError> {
        let failed = StoreError::sqlite("reading the graph database");
        let known = "SELECT count(*) FROM sqlite_schema WHERE name = 'tags'";
        let has_tags: i64 = self.connection.query_row(known, [], |row| row.get(0)).map_err(&failed)?;
        let mut lines = Vec::new();
        self.each_row(|row, entry| {
            if let Some(entry) = entry {
                lines.push((row, entry));
            }
            true
        })?;
        let tags_of = |row: i64| -> Result<Vec<u64>, StoreError> {
            if has_tags == 0 {
                return Ok(Vec::new());
            }
            let mut statement =
                self.connection.prepare_cached("SELECT tag FROM tags WHERE seq = ?1").map_err(&failed)?;
            let tags = statement.query_map([row], |row| Ok(row.get::<_, i64>(0)?.cast_unsigned()));
            tags.and_then(Iterator::collect).map_err(&failed)
        };
        lines.into_iter().map(|(row, entry)| Ok(line_of(&entry, tags_of(row)?))).collect()
    }
}

impl Entry {
    /// As a line of JSON, with everything that the signature covers, and its tags.
    pub fn to_line(&self) -> String {
        line_of(self, self.tags.clone())
    }

    /// Reads a line; none for what is no entry. Whether it holds is not checked here.
    pub fn of_line(line: &str) -> Option<Self> {
        serde_json::from_str::<Line>(line).ok().and_then(entry_of_line)
    }
}

fn line_of(entry: &Entry, tags: Vec<u64>) -> String {
    let line = Line {
        kind: "entry".to_owned(),
        key: entry.key,
        scope: entry.scope,
        node: entry.node,
        tenant: entry.tenant,
        route: route_code(entry.route),
        versions: entry.versions.to_bytes(),
        created_ms: entry.created_ms,
        expires_ms: entry.expires_ms,
        key_id: entry.key_id.clone(),
        signature: hex(&entry.signature),
        body: hex(&entry.body),
        tags,
    };
    // Plain fields only: this cannot fail, and an empty line is malformed.
    serde_json::to_string(&line).unwrap_or_default()
}

impl Graph {
    /// Takes in a line that `trusted` has signed; this graph's own key where none is named.
    ///
    /// # Errors
    /// When the store is out of service.
    pub fn import(
        &self,
        line: &str,
        trusted: Option<&Verifier>,
        now_ms: u64,
    ) -> Result<Imported, StoreError> {
        let Some(entry) = Entry::of_line(line) else {
            return Ok(Imported::Malformed);
        };
        let secrets = self.secrets();
        let own = secrets.verifier();
        if !entry.holds(trusted.unwrap_or(&own)) {
            return Ok(Imported::Untrusted);
        }
        if entry.expires_ms <= now_ms || entry.created_ms > now_ms {
            return Ok(Imported::Expired);
        }
        if entry.versions != Versions::CURRENT {
            return Ok(Imported::OtherRules);
        }
        let draft = Draft {
            key: entry.key,
            scope: entry.scope,
            node: entry.node,
            tenant: entry.tenant,
            route: entry.route,
            created_ms: entry.created_ms,
            expires_ms: entry.expires_ms,
            body: entry.body,
        };
        let sealed = Entry::seal(draft, secrets).with_tags(entry.tags);
        Ok(match self.serving()?.put(sealed, COMMIT_WAIT)? {
            Written::Committed | Written::Queued => {
                self.keep_record(&record::imported(&entry.key, &entry.key_id, now_ms));
                Imported::Stored
            }
            Written::Superseded => Imported::Superseded,
        })
    }
}

fn entry_of_line(line: Line) -> Option<Entry> {
    let body = bytes(&line.body)?;
    (line.kind == "entry").then_some(())?;
    Some(Entry {
        answer_hash: Digest::of(&body),
        key: line.key,
        scope: line.scope,
        node: line.node,
        tenant: line.tenant,
        route: route_of_code(line.route)?,
        versions: Versions::from_bytes(line.versions),
        created_ms: line.created_ms,
        expires_ms: line.expires_ms,
        body,
        key_id: line.key_id,
        signature: bytes(&line.signature)?.try_into().ok()?,
        tags: line.tags,
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    let digits = text.chars().map(|digit| digit.to_digit(16)).collect::<Option<Vec<_>>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| (high << 4 | low) as u8).collect())
}
