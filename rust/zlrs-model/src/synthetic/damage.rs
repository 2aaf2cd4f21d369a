//! Damages files the way disks, networks and attackers do, repeatably.

use super::random::Random;

/// Values that break careless readers when they stand for a count, a length, an offset or a type.
const HOSTILE: [u64; 12] = [
    0,
    1,
    u64::MAX,
    u64::MAX - 31,
    i64::MAX as u64,
    1 << 63,
    1 << 32,
    u32::MAX as u64,
    1 << 31,
    1 << 24,
    65_536,
    (1 << 61) + 1,
];

/// A damaged copy of `bytes`. Of the changes, those of single places happen within the first `header_bytes`.
/// The same seed gives the same damage.
#[must_use]
pub fn damage(bytes: &[u8], header_bytes: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut damaged = bytes.to_vec();
    let header = header_bytes.min(bytes.len()).max(1);
    let mut below = |limit: usize| (random.u64() % limit.max(1) as u64) as usize;
    for _ in 0..=below(3) {
        let place = below(header);
        match below(8) {
            // Flipped bits.
            0 | 1 => damaged.iter_mut().skip(place).take(1).for_each(|byte| *byte ^= 1 << below(8)),
            // Random bytes.
            2 => damaged.iter_mut().skip(place).take(1 + below(8)).for_each(|byte| *byte = below(256) as u8),
            // A number in the place of another, 4 or 8 bytes wide.
            3 | 4 => {
                let value = HOSTILE[below(HOSTILE.len())].to_le_bytes();
                let width = if below(2) == 0 { 4 } else { 8 };
                damaged.iter_mut().skip(place).zip(&value[..width]).for_each(|(byte, &new)| *byte = new);
            }
            // Cut short.
            5 => {
                let length = below(damaged.len() + 1);
                damaged.truncate(length);
            }
            // A stretch missing.
            6 => {
                let end = (place + 1 + below(64)).min(damaged.len());
                damaged.drain(place.min(end)..end);
            }
            // A stretch twice.
            _ => {
                let end = (place + 1 + below(64)).min(damaged.len());
                let stretch = damaged[place.min(end)..end].to_vec();
                let at = place.min(damaged.len());
                damaged.splice(at..at, stretch);
            }
        }
    }
    damaged
}
