//! Rows of edges and of forms.
//!
//! A form's row holds no text. Its fingerprint and where it belongs are encrypted under the file's key, because near
//! fingerprints tell of near wordings.

use rusqlite::{Connection, OptionalExtension, params};
use zlrs_fingerprint::{DIMENSIONS, Fingerprint};
use zlrs_graph::{Digest, EdgeRecord};

use super::sealed::Sealer;
use super::{KeptForm, KnownForm};

/// What version 2 of the file has beside the tables of version 1.
pub const TABLES: &str = "
CREATE TABLE edges (name BLOB PRIMARY KEY, record TEXT NOT NULL, seal BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE forms (
    node BLOB PRIMARY KEY, network BLOB NOT NULL, body BLOB NOT NULL, at_ms INTEGER NOT NULL, seal BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX forms_by_age ON forms (at_ms);
";
/// Scope, template, fingerprint.
const BODY_BYTES: usize = 64 + DIMENSIONS;

impl Sealer {
    fn edge_seal(&self, name: &Digest, record: &str) -> Digest {
        Digest::keyed(&self.key, [b"edge".as_slice(), name.as_bytes(), record.as_bytes()])
    }

    fn form_seal(&self, node: &Digest, network: &Digest, body: &[u8]) -> Digest {
        Digest::keyed(&self.key, [b"form".as_slice(), node.as_bytes(), network.as_bytes(), body])
    }

    /// What an edge has shown; nothing where nothing is known. A row that is not believed is a closed edge.
    pub fn read_edge(&self, connection: &Connection, name: &Digest) -> rusqlite::Result<EdgeRecord> {
        let row: Option<(String, Vec<u8>)> = connection
            .prepare_cached("SELECT record, seal FROM edges WHERE name = ?1")?
            .query_row([name.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((record, seal)) = row else { return Ok(EdgeRecord::default()) };
        let believed = self.edge_seal(name, &record).as_bytes() == seal.as_slice();
        let read = believed.then(|| serde_json::from_str(&record).ok()).flatten();
        Ok(read.unwrap_or_else(|| {
            let mut closed = EdgeRecord::default();
            closed.observe(name, true);
            closed
        }))
    }

    /// Names of edges whose seal does not hold.
    pub fn unsealed_edges(&self, connection: &Connection) -> rusqlite::Result<Vec<String>> {
        let mut statement = connection.prepare_cached("SELECT name, record, seal FROM edges")?;
        let rows = statement.query_map([], |row| {
            let parts: (Vec<u8>, String, Vec<u8>) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(parts)
        })?;
        let mut names = Vec::new();
        for row in rows {
            let (name, record, seal) = row?;
            let known = Digest::from_slice(&name);
            if known.is_none_or(|name| self.edge_seal(&name, &record).as_bytes() != seal.as_slice()) {
                names.push(known.map_or_else(|| "?".to_owned(), |name| name.to_hex()));
            }
        }
        Ok(names)
    }

    pub fn write_edge(
        &self,
        connection: &Connection,
        name: &Digest,
        record: EdgeRecord,
    ) -> rusqlite::Result<()> {
        // Plain fields only: this cannot fail, and an empty text would not be believed when it is read.
        let record = serde_json::to_string(&record).unwrap_or_default();
        let seal = self.edge_seal(name, &record);
        connection
            .prepare_cached("INSERT OR REPLACE INTO edges (name, record, seal) VALUES (?1, ?2, ?3)")?
            .execute(params![name.as_bytes(), record, seal.as_bytes()])?;
        Ok(())
    }

    pub fn write_form(
        &self,
        connection: &Connection,
        network: &Digest,
        kept: &KeptForm,
        at_ms: u64,
        limit: usize,
    ) -> rusqlite::Result<()> {
        let mut body = Vec::with_capacity(BODY_BYTES);
        body.extend_from_slice(kept.scope.as_bytes());
        body.extend_from_slice(kept.form.template.as_bytes());
        body.extend(kept.fingerprint.0.iter().map(|value| value.cast_unsigned()));
        self.mask_form(&kept.form.node, network, &mut body);
        let seal = self.form_seal(&kept.form.node, network, &body);
        let at_ms = i64::try_from(at_ms).unwrap_or(i64::MAX);
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO forms (node, network, body, at_ms, seal) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![kept.form.node.as_bytes(), network.as_bytes(), body, at_ms, seal.as_bytes()])?;
        let count: i64 =
            connection.prepare_cached("SELECT count(*) FROM forms")?.query_row([], |row| row.get(0))?;
        let over = usize::try_from(count).unwrap_or(0).saturating_sub(limit);
        if over > 0 {
            connection
                .prepare_cached(
                    "DELETE FROM forms WHERE node IN (SELECT node FROM forms ORDER BY at_ms LIMIT ?1)",
                )?
                .execute([over as i64])?;
        }
        Ok(())
    }

    /// The forms of a network, oldest first; rows that are not believed are left out.
    pub fn read_forms(&self, connection: &Connection, network: &Digest) -> rusqlite::Result<Vec<KeptForm>> {
        let mut statement = connection
            .prepare_cached("SELECT node, body, seal FROM forms WHERE network = ?1 ORDER BY at_ms")?;
        let rows = statement.query_map([network.as_bytes()], |row| {
            let parts: (Vec<u8>, Vec<u8>, Vec<u8>) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(parts)
        })?;
        let mut forms = Vec::new();
        for row in rows {
            let (node, body, seal) = row?;
            forms.extend(self.believed_form(network, &node, body, &seal));
        }
        Ok(forms)
    }

    fn believed_form(
        &self,
        network: &Digest,
        node: &[u8],
        mut body: Vec<u8>,
        seal: &[u8],
    ) -> Option<KeptForm> {
        let node = Digest::from_slice(node)?;
        if body.len() != BODY_BYTES || self.form_seal(&node, network, &body).as_bytes() != seal {
            return None;
        }
        self.mask_form(&node, network, &mut body);
        let mut fingerprint = [0_i8; DIMENSIONS];
        fingerprint.iter_mut().zip(&body[64..]).for_each(|(value, byte)| *value = byte.cast_signed());
        Some(KeptForm {
            scope: Digest::from_slice(&body[..32])?,
            form: KnownForm { node, template: Digest::from_slice(&body[32..64])? },
            fingerprint: Fingerprint(fingerprint),
        })
    }

    /// One node has one body, so that its name is nonce enough.
    fn mask_form(&self, node: &Digest, network: &Digest, body: &mut [u8]) {
        let mut stream = vec![0; body.len()];
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(b"form body").update(node.as_bytes()).update(network.as_bytes());
        hasher.finalize_xof().fill(&mut stream);
        body.iter_mut().zip(stream).for_each(|(byte, mask)| *byte ^= mask);
    }
}
