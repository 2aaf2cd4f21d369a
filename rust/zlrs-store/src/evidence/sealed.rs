//! Rows with a keyed hash over all that is in them, so that a changed row is not believed.

use rusqlite::{Connection, OptionalExtension, params};
use zlrs_graph::{Digest, Pool};

use super::{LabelledPool, PoolLabel};

/// Reads and writes rows of one file.
#[derive(Clone, Copy)]
pub struct Sealer {
    pub(super) key: [u8; 32],
}

impl Sealer {
    pub const fn new(key: [u8; 32]) -> Self {
        Self { key }
    }

    fn pool_seal(&self, name: &Digest, label: &str, pool: &str) -> Digest {
        Digest::keyed(&self.key, [b"pool".as_slice(), name.as_bytes(), label.as_bytes(), pool.as_bytes()])
    }

    fn doubt_seal(&self, node: &Digest, at_ms: i64) -> Digest {
        Digest::keyed(&self.key, [b"doubt".as_slice(), node.as_bytes(), &at_ms.to_le_bytes()])
    }

    /// A pool; none where there is none or its seal does not hold.
    pub fn read_pool(
        &self,
        connection: &Connection,
        name: &Digest,
    ) -> rusqlite::Result<Option<LabelledPool>> {
        let row: Option<(String, String, Vec<u8>)> = connection
            .prepare_cached("SELECT label, pool, seal FROM pools WHERE name = ?1")?
            .query_row([name.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .optional()?;
        Ok(row.and_then(|(label, pool, seal)| self.believed(name, &label, &pool, &seal)))
    }

    /// Every pool whose seal holds.
    pub fn read_pools(&self, connection: &Connection) -> rusqlite::Result<Vec<LabelledPool>> {
        let mut statement = connection.prepare_cached("SELECT name, label, pool, seal FROM pools")?;
        let rows = statement.query_map([], |row| {
            let parts: (Vec<u8>, String, String, Vec<u8>) =
                (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
            Ok(parts)
        })?;
        let mut pools = Vec::new();
        for row in rows {
            let (name, label, pool, seal) = row?;
            let named = Digest::from_slice(&name);
            pools.extend(named.and_then(|name| self.believed(&name, &label, &pool, &seal)));
        }
        Ok(pools)
    }

    fn believed(&self, name: &Digest, label: &str, pool: &str, seal: &[u8]) -> Option<LabelledPool> {
        if self.pool_seal(name, label, pool).as_bytes() != seal {
            return None;
        }
        let label: PoolLabel = serde_json::from_str(label).ok()?;
        let pool: Pool = serde_json::from_str(pool).ok()?;
        Some(LabelledPool { name: *name, label, pool })
    }

    pub fn write_pool(&self, connection: &Connection, labelled: &LabelledPool) -> rusqlite::Result<()> {
        // Plain fields only: neither can fail, and an empty text would not be believed when it is read.
        let label = serde_json::to_string(&labelled.label).unwrap_or_default();
        let pool = serde_json::to_string(&labelled.pool).unwrap_or_default();
        let seal = self.pool_seal(&labelled.name, &label, &pool);
        connection
            .prepare_cached("INSERT OR REPLACE INTO pools (name, label, pool, seal) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![labelled.name.as_bytes(), label, pool, seal.as_bytes()])?;
        Ok(())
    }

    /// When a node was put in doubt. A row that is not believed doubts for ever.
    pub fn read_doubt(&self, connection: &Connection, node: &Digest) -> rusqlite::Result<Option<u64>> {
        let row: Option<(i64, Vec<u8>)> = connection
            .prepare_cached("SELECT at_ms, seal FROM doubts WHERE node = ?1")?
            .query_row([node.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        Ok(row.map(|(at_ms, seal)| match u64::try_from(at_ms) {
            Ok(believed) if self.doubt_seal(node, at_ms).as_bytes() == seal.as_slice() => believed,
            _ => u64::MAX,
        }))
    }

    pub fn write_doubt(&self, connection: &Connection, node: &Digest, at_ms: u64) -> rusqlite::Result<()> {
        let earlier = self.read_doubt(connection, node)?.unwrap_or(0);
        let at_ms = i64::try_from(at_ms.max(earlier)).unwrap_or(i64::MAX);
        connection
            .prepare_cached("INSERT OR REPLACE INTO doubts (node, at_ms, seal) VALUES (?1, ?2, ?3)")?
            .execute(params![node.as_bytes(), at_ms, self.doubt_seal(node, at_ms).as_bytes()])?;
        Ok(())
    }
}
