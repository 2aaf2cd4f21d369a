//! What is written: the statements of one transaction each.

use rusqlite::{Transaction, params};
use zlrs_graph::{Digest, route_code};

use super::Limits;
use crate::{Entry, Purge, Written};

/// Expired rows removed beside each batch, so that no commit grows long.
const EXPIRED_PER_BATCH: u64 = 64;

/// Stores an entry, unless a tombstone or a newer entry stands under its key.
pub fn write_entry(transaction: &Transaction<'_>, entry: &Entry) -> rusqlite::Result<Written> {
    let created_ms = signed(entry.created_ms);
    transaction
        .prepare_cached("DELETE FROM entries WHERE key = ?1 AND created_ms <= ?2")?
        .execute(params![entry.key.as_bytes(), created_ms])?;
    let added = transaction
        .prepare_cached(
            "INSERT INTO entries (key, scope, node, tenant, route, versions, created_ms, expires_ms,
                                  stored_bytes, answer_hash, key_id, signature, body)
             SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13
             WHERE NOT EXISTS (SELECT 1 FROM tombstones WHERE key = ?1 AND at_ms >= ?7)
               AND NOT EXISTS (SELECT 1 FROM entries WHERE key = ?1)",
        )?
        .execute(params![
            entry.key.as_bytes(),
            entry.scope.as_bytes(),
            entry.node.as_bytes(),
            entry.tenant.as_bytes(),
            route_code(entry.route),
            entry.versions.to_bytes(),
            created_ms,
            signed(entry.expires_ms),
            signed(entry.stored_bytes()),
            entry.answer_hash.as_bytes(),
            entry.key_id,
            entry.signature,
            entry.body,
        ])?;
    if added != 1 {
        return Ok(Written::Superseded);
    }
    let row = transaction.last_insert_rowid();
    let mut statement = transaction.prepare_cached("INSERT OR IGNORE INTO tags VALUES (?1, ?2)")?;
    for tag in &entry.tags {
        statement.execute(params![row, tag.cast_signed()])?;
    }
    Ok(Written::Committed)
}

/// Withdraws what was written under a key until `at_ms`.
pub fn write_tombstone(
    transaction: &Transaction<'_>,
    key: &Digest,
    at_ms: u64,
    reason: &str,
) -> rusqlite::Result<()> {
    // A new row each time, because readers look past the last row they know; the later time wins.
    let earlier: Option<i64> = transaction
        .prepare_cached("SELECT max(at_ms) FROM tombstones WHERE key = ?1")?
        .query_row([key.as_bytes()], |row| row.get(0))?;
    let at_ms = signed(at_ms).max(earlier.unwrap_or(0));
    transaction.prepare_cached("DELETE FROM tombstones WHERE key = ?1")?.execute([key.as_bytes()])?;
    transaction
        .prepare_cached("INSERT INTO tombstones (key, at_ms, reason) VALUES (?1, ?2, ?3)")?
        .execute(params![key.as_bytes(), at_ms, reason])?;
    transaction
        .prepare_cached("DELETE FROM entries WHERE key = ?1 AND created_ms <= ?2")?
        .execute(params![key.as_bytes(), at_ms])?;
    Ok(())
}

/// Removes entries; returns how many.
pub fn write_purge(transaction: &Transaction<'_>, what: &Purge) -> rusqlite::Result<u64> {
    let removed = match what {
        // The condition keeps the delete triggers running, which SQLite's truncation would skip.
        Purge::All => transaction.execute("DELETE FROM entries WHERE seq > 0", [])?,
        Purge::Tenant(tenant) => {
            transaction.execute("DELETE FROM entries WHERE tenant = ?1", [tenant.as_bytes()])?
        }
        Purge::Scope(scope) => {
            transaction.execute("DELETE FROM entries WHERE scope = ?1", [scope.as_bytes()])?
        }
        Purge::Node(node) => transaction.execute("DELETE FROM entries WHERE node = ?1", [node.as_bytes()])?,
        Purge::Entry(key) => transaction.execute("DELETE FROM entries WHERE key = ?1", [key.as_bytes()])?,
        Purge::Tag(tag) => transaction.execute(
            "DELETE FROM entries WHERE seq IN (SELECT seq FROM tags WHERE tag = ?1)",
            [tag.cast_signed()],
        )?,
        Purge::WrittenBefore(ms) => {
            transaction.execute("DELETE FROM entries WHERE created_ms < ?1", [signed(*ms)])?
        }
        Purge::Expired(now_ms) => {
            transaction.execute("DELETE FROM entries WHERE expires_ms <= ?1", [signed(*now_ms)])?
        }
    };
    // Tells every reader that rows it knows, and bodies it holds, may be gone.
    transaction.execute("UPDATE meta SET value = value + 1 WHERE name = 'purge_epoch'", [])?;
    Ok(removed as u64)
}

/// Removes expired rows, then the oldest ones while the store is over its limits. A re-checked or replaced entry
/// is written anew, so age is the time since its last proof.
pub fn evict(transaction: &Transaction<'_>, limits: &Limits, now_ms: u64) -> rusqlite::Result<u64> {
    let mut removed = transaction
        .prepare_cached(
            "DELETE FROM entries WHERE seq IN (SELECT seq FROM entries WHERE expires_ms <= ?1 LIMIT ?2)",
        )?
        .execute(params![signed(now_ms), signed(EXPIRED_PER_BATCH)])? as u64;
    loop {
        let (entries, bytes): (i64, i64) = transaction
            .prepare_cached("SELECT entries, bytes FROM totals")?
            .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let over_entries = unsigned(entries).saturating_sub(limits.max_entries);
        let over_bytes = unsigned(bytes).saturating_sub(limits.max_bytes);
        if entries == 0 || (over_entries == 0 && over_bytes == 0) {
            return Ok(removed);
        }
        let average = (unsigned(bytes) / unsigned(entries).max(1)).max(1);
        let count = over_entries.max(over_bytes.div_ceil(average)).max(1);
        removed += transaction
            .prepare_cached(
                "DELETE FROM entries WHERE seq IN (SELECT seq FROM entries ORDER BY seq LIMIT ?1)",
            )?
            .execute([signed(count)])? as u64;
    }
}

/// A stored number that is never negative.
pub fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// SQLite's integers are signed; a time past 2^63 ms is as good as the largest.
pub fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
