//! What is written: the statements of one transaction each.

use std::collections::BTreeSet;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use zlrs_graph::{Digest, route_code};

use super::Limits;
use crate::{Entry, Purge, Written};

/// Expired rows removed beside each batch, so that no commit grows long.
const EXPIRED_PER_BATCH: u64 = 64;

/// Purges remembered; past it the oldest go. What they refused has long been answered or given up by then.
const PURGES_MAX: i64 = 65_536;

/// A purge as it is carried out.
#[derive(Clone, Copy)]
pub struct Removal {
    pub what: Purge,
    /// Answers that were asked for until then are refused.
    pub at_ms: u64,
    /// Whether only those are removed; then nothing is done a second time.
    pub is_bounded: bool,
}

/// Stores an entry, unless a withdrawal, a purge or a newer entry stands against it.
pub fn write_entry(transaction: &Transaction<'_>, entry: &Entry) -> rusqlite::Result<Written> {
    if is_refused(transaction, entry)? {
        return Ok(Written::Superseded);
    }
    let created_ms = signed(entry.created_ms);
    transaction.prepare_cached("DELETE FROM entries WHERE key = ?1")?.execute([entry.key.as_bytes()])?;
    transaction
        .prepare_cached(
            "INSERT INTO entries (key, scope, node, tenant, route, versions, created_ms, expires_ms,
                                  stored_bytes, answer_hash, key_id, signature, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
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
    let row = transaction.last_insert_rowid();
    let mut statement = transaction.prepare_cached("INSERT OR IGNORE INTO tags VALUES (?1, ?2)")?;
    for tag in &entry.tags {
        statement.execute(params![row, tag.cast_signed()])?;
    }
    Ok(Written::Committed)
}

/// Whether a withdrawal or a purge came after an entry was asked for, or a newer one is there.
pub fn is_refused(connection: &Connection, entry: &Entry) -> rusqlite::Result<bool> {
    let created_ms = signed(entry.created_ms);
    let is_older: bool = connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM tombstones WHERE key = ?1 AND at_ms >= ?2)
                 OR EXISTS (SELECT 1 FROM entries WHERE key = ?1 AND created_ms > ?2)",
        )?
        .query_row(params![entry.key.as_bytes(), created_ms], |row| row.get(0))?;
    if is_older {
        return Ok(true);
    }
    // Nearly always none: what was just asked for is younger than the last purge.
    let mut statement = connection.prepare_cached("SELECT what FROM purges WHERE at_ms >= ?1")?;
    let mut rows = statement.query([created_ms])?;
    while let Some(row) = rows.next()? {
        let text: String = row.get(0)?;
        let (kind, which) = text.split_once(' ').unwrap_or((&text, ""));
        if Purge::of_parts(kind, which).is_some_and(|what| what.names(entry)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Withdraws what was asked for under a key until `at_ms`.
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
pub fn write_purge(transaction: &Transaction<'_>, removal: Removal) -> rusqlite::Result<u64> {
    let Removal { what, at_ms, is_bounded } = removal;
    let (kind, which) = what.parts();
    let text = format!("{kind} {which}");
    let marked_ms: Option<i64> = transaction
        .prepare_cached("SELECT at_ms FROM purges WHERE what = ?1")?
        .query_row([&text], |row| row.get(0))
        .optional()?;
    if is_bounded && marked_ms.is_some_and(|marked_ms| marked_ms >= signed(at_ms)) {
        return Ok(0);
    }
    if what.leaves_mark() {
        write_mark(transaction, what, &text, signed(at_ms).max(marked_ms.unwrap_or(0)))?;
    }
    let newest_ms = if is_bounded { signed(at_ms) } else { i64::MAX };
    let (condition, value) = chosen(what);
    let removed = transaction.execute(
        &format!("DELETE FROM entries WHERE {condition} AND created_ms <= ?2"),
        params![value, newest_ms],
    )?;
    // Tells every reader that rows it knows, and bodies it holds, may be gone.
    transaction.execute("UPDATE meta SET value = value + 1 WHERE name = 'purge_epoch'", [])?;
    Ok(removed as u64)
}

/// The condition that chooses entries, over one parameter.
fn chosen(what: Purge) -> (&'static str, Value) {
    let name = |name: Digest| Value::Blob(name.0.to_vec());
    match what {
        // A condition at all keeps the delete triggers running, which SQLite's truncation would skip.
        Purge::All => ("?1 IS NULL", Value::Null),
        Purge::Tenant(tenant) => ("tenant = ?1", name(tenant)),
        Purge::Scope(scope) => ("scope = ?1", name(scope)),
        Purge::Node(node) => ("node = ?1", name(node)),
        Purge::Entry(key) => ("key = ?1", name(key)),
        Purge::Tag(tag) => {
            ("seq IN (SELECT seq FROM tags WHERE tag = ?1)", Value::Integer(tag.cast_signed()))
        }
        Purge::WrittenBefore(ms) => ("created_ms < ?1", Value::Integer(signed(ms))),
        Purge::Expired(now_ms) => ("expires_ms <= ?1", Value::Integer(signed(now_ms))),
    }
}

/// The tags of the entries that a purge names.
pub fn tags_of(connection: &Connection, what: Purge) -> rusqlite::Result<BTreeSet<u64>> {
    let (condition, value) = chosen(what);
    let query =
        format!("SELECT DISTINCT tag FROM tags WHERE seq IN (SELECT seq FROM entries WHERE {condition})");
    let mut statement = connection.prepare(&query)?;
    statement.query_map([value], |row| Ok(row.get::<_, i64>(0)?.cast_unsigned()))?.collect()
}

/// Notes what is refused from now on.
fn write_mark(transaction: &Transaction<'_>, what: Purge, text: &str, at_ms: i64) -> rusqlite::Result<()> {
    if what == Purge::All {
        // It says what each of them says.
        transaction.execute("DELETE FROM purges WHERE at_ms <= ?1", [at_ms])?;
    }
    transaction.execute("DELETE FROM purges WHERE what = ?1", [text])?;
    transaction.execute("INSERT INTO purges (what, at_ms) VALUES (?1, ?2)", params![text, at_ms])?;
    let last = transaction.last_insert_rowid();
    transaction.execute("DELETE FROM purges WHERE seq <= ?1", [last - PURGES_MAX])?;
    Ok(())
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
