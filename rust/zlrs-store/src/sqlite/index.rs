//! Which keys exist and in which row: 26 bytes of facts per entry in a B-tree, about 40 with the tree's own cost.
//!
//! A B-tree and not a hash table: its memory grows evenly, where a table doubles, and at a million keys a lookup
//! still costs well under a microsecond. Keys are keyed hashes, so nobody outside can choose them to collide.

use std::collections::BTreeMap;

use zlrs_graph::Digest;

/// Row numbers fit 40 bits: a million writes a day for three thousand years.
const ROW_MAX: u64 = (1 << 40) - 1;

/// Where an entry is. Packed to bytes so that no padding is paid a million times over.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Slot {
    row: [u8; 5],
    expiry_s: [u8; 4],
    flags: u8,
}

impl Slot {
    fn row(&self) -> u64 {
        let mut row = [0; 8];
        row[..5].copy_from_slice(&self.row);
        u64::from_le_bytes(row)
    }

    fn expiry_ms(&self) -> u64 {
        u64::from(u32::from_le_bytes(self.expiry_s)) * 1000
    }
}

/// The signature of this row has been checked in this process.
const VERIFIED: u8 = 1;

/// In-memory index over the first 128 bits of each key.
#[derive(Default)]
pub struct Index {
    slots: BTreeMap<[u8; 16], Slot>,
}

/// What the index knows of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Row of the entries table.
    pub row: u64,
    /// Expiry, Unix milliseconds, rounded up to a second.
    pub expiry_ms: u64,
    /// Whether the row's signature was checked before.
    pub verified: bool,
}

impl Index {
    /// Number of keys.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The place of a key.
    pub fn get(&self, key: &Digest) -> Option<Place> {
        self.slots.get(&key.prefix()).map(|slot| Place {
            row: slot.row(),
            expiry_ms: slot.expiry_ms(),
            verified: slot.flags & VERIFIED != 0,
        })
    }

    /// Notes a row. A row past 2^40 is not indexed, which makes it a miss.
    pub fn insert(&mut self, key: &Digest, row: u64, expires_ms: u64) {
        if row > ROW_MAX {
            self.slots.remove(&key.prefix());
            return;
        }
        let mut packed = [0; 5];
        packed.copy_from_slice(&row.to_le_bytes()[..5]);
        let expiry_s = u32::try_from(expires_ms.div_ceil(1000)).unwrap_or(u32::MAX);
        self.slots.insert(key.prefix(), Slot { row: packed, expiry_s: expiry_s.to_le_bytes(), flags: 0 });
    }

    /// Notes that the signature of this key's row was checked.
    pub fn mark_verified(&mut self, key: &Digest) {
        if let Some(slot) = self.slots.get_mut(&key.prefix()) {
            slot.flags |= VERIFIED;
        }
    }

    /// Forgets a key.
    pub fn remove(&mut self, key: &Digest) {
        self.slots.remove(&key.prefix());
    }

    /// Keeps only rows from `lowest` on that expire after `now_ms`.
    pub fn retain(&mut self, lowest: u64, now_ms: u64) {
        self.slots.retain(|_, slot| slot.row() >= lowest && slot.expiry_ms() > now_ms);
    }

    /// Forgets every key.
    pub fn clear(&mut self) {
        self.slots.clear();
    }
}
