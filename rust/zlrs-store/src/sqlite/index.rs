//! Which keys exist and in which row: 26 bytes an entry, about 30 with what the tables themselves cost.
//!
//! A table of short sorted buckets that grows by one bucket at a time (linear hashing; Litwin, "Linear Hashing: A New
//! Tool for File and Table Addressing", 1980): its memory grows evenly, where one flat table doubles, and no insertion
//! waits for all keys to move. Keys are keyed hashes: their bits are spread evenly, and nobody outside can choose
//! them to collide.

use zlrs_graph::Digest;

/// Row numbers fit 40 bits: a million writes a day for three thousand years.
const ROW_MAX: u64 = (1 << 40) - 1;
/// Entries of a bucket, on average, before there is one more.
const BUCKET_ENTRIES: usize = 64;
/// Entries a full bucket gets room for. The less, the less lies idle.
const BUCKET_GROWTH: usize = 6;
/// Room left by entries that are gone before it is given back.
const BUCKET_IDLE: usize = 2 * BUCKET_GROWTH;

/// First half of a key, and where its entry is. Packed to bytes so that no padding is paid a million times over.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Slot {
    key: [u8; 16],
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

/// In-memory index over the first 128 bits of each key. Looking up and inserting cost O(1), a well filled bucket's
/// binary search and shift.
#[derive(Default)]
pub struct Index {
    /// Each in the order of keys.
    buckets: Vec<Vec<Slot>>,
    len: usize,
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
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The place of a key.
    pub fn get(&self, key: &Digest) -> Option<Place> {
        let slot = self.slot(&key.prefix())?;
        Some(Place { row: slot.row(), expiry_ms: slot.expiry_ms(), verified: slot.flags & VERIFIED != 0 })
    }

    fn slot(&self, key: &[u8; 16]) -> Option<&Slot> {
        let bucket = self.buckets.get(bucket_of(key, self.buckets.len()))?;
        bucket.binary_search_by(|slot| slot.key.cmp(key)).ok().map(|at| &bucket[at])
    }

    /// Notes a row. A row past 2^40 is not indexed, which makes it a miss.
    pub fn insert(&mut self, key: &Digest, row: u64, expires_ms: u64) {
        if row > ROW_MAX {
            self.remove(key);
            return;
        }
        let mut packed = [0; 5];
        packed.copy_from_slice(&row.to_le_bytes()[..5]);
        let expiry_s = u32::try_from(expires_ms.div_ceil(1000)).unwrap_or(u32::MAX);
        let key = key.prefix();
        let slot = Slot { key, row: packed, expiry_s: expiry_s.to_le_bytes(), flags: 0 };
        if self.len >= self.buckets.len() * BUCKET_ENTRIES {
            self.add_bucket();
        }
        let number = bucket_of(&key, self.buckets.len());
        let bucket = &mut self.buckets[number];
        match bucket.binary_search_by(|slot| slot.key.cmp(&key)) {
            Ok(at) => bucket[at] = slot,
            Err(at) => {
                if bucket.len() == bucket.capacity() {
                    bucket.reserve_exact(BUCKET_GROWTH);
                }
                bucket.insert(at, slot);
                self.len += 1;
            }
        }
    }

    /// One more bucket, with the keys of another that belong there now.
    fn add_bucket(&mut self) {
        let added = self.buckets.len();
        if added == 0 {
            self.buckets.push(Vec::new());
            return;
        }
        let from = added - (1 << added.ilog2());
        let belongs = |slot: &&Slot| bucket_of(&slot.key, added + 1) == added;
        // Both anew, so that neither keeps room for what the other has.
        let old = std::mem::take(&mut self.buckets[from]);
        let moving = old.iter().filter(belongs).count();
        let mut moved = Vec::with_capacity(moving);
        let mut left = Vec::with_capacity(old.len() - moving);
        for slot in &old {
            if belongs(&slot) { moved.push(*slot) } else { left.push(*slot) }
        }
        self.buckets[from] = left;
        self.buckets.push(moved);
    }

    /// Notes that the signature of this key's row was checked.
    pub fn mark_verified(&mut self, key: &Digest) {
        let key = key.prefix();
        let number = bucket_of(&key, self.buckets.len());
        let Some(bucket) = self.buckets.get_mut(number) else { return };
        if let Ok(at) = bucket.binary_search_by(|slot| slot.key.cmp(&key)) {
            bucket[at].flags |= VERIFIED;
        }
    }

    /// Forgets a key.
    pub fn remove(&mut self, key: &Digest) {
        let key = key.prefix();
        let number = bucket_of(&key, self.buckets.len());
        let Some(bucket) = self.buckets.get_mut(number) else { return };
        if let Ok(at) = bucket.binary_search_by(|slot| slot.key.cmp(&key)) {
            bucket.remove(at);
            self.len -= 1;
            give_back(bucket);
        }
    }

    /// Keeps only rows from `lowest` on that expire after `now_ms`.
    pub fn retain(&mut self, lowest: u64, now_ms: u64) {
        self.len = 0;
        for bucket in &mut self.buckets {
            bucket.retain(|slot| slot.row() >= lowest && slot.expiry_ms() > now_ms);
            give_back(bucket);
            self.len += bucket.len();
        }
    }

    /// Forgets every key.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Which of `count` buckets has a key: as many low bits as name them all, one less for buckets not yet there.
fn bucket_of(key: &[u8; 16], count: usize) -> usize {
    let [a, b, c, d, e, f, g, h, ..] = *key;
    let hash = u64::from_le_bytes([a, b, c, d, e, f, g, h]) as usize;
    let mask = count.next_power_of_two() - 1;
    let number = hash & mask;
    if number < count { number } else { number & (mask >> 1) }
}

fn give_back(bucket: &mut Vec<Slot>) {
    if bucket.capacity() > bucket.len() + BUCKET_IDLE {
        bucket.shrink_to(bucket.len() + BUCKET_GROWTH);
    }
}
