//! Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw ("Parallel random numbers: as
//! easy as 1, 2, 3", SC 2011).
//!
//! A draw is a pure function of key and counter, so the token drawn at a position does not depend on how many
//! draws other requests made, nor on whether a draft was checked before it.

const MULTIPLIER_0: u32 = 0xD251_1F53;
const MULTIPLIER_1: u32 = 0xCD9E_8D57;
const WEYL_0: u32 = 0x9E37_79B9;
const WEYL_1: u32 = 0xBB67_AE85;
const ROUNDS: usize = 10;

/// The four words for `counter` under `key`.
pub fn philox4x32(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let mut words = counter;
    let mut key = key;
    for _ in 0..ROUNDS {
        let product_0 = u64::from(MULTIPLIER_0) * u64::from(words[0]);
        let product_1 = u64::from(MULTIPLIER_1) * u64::from(words[2]);
        words = [
            (product_1 >> 32) as u32 ^ words[1] ^ key[0],
            product_1 as u32,
            (product_0 >> 32) as u32 ^ words[3] ^ key[1],
            product_0 as u32,
        ];
        key = [key[0].wrapping_add(WEYL_0), key[1].wrapping_add(WEYL_1)];
    }
    words
}

/// The uniform draw of `seed` at `position`: a multiple of 2^-53 in `[0, 1)`, never 1.
pub fn uniform(seed: u64, position: u64) -> f64 {
    let words =
        philox4x32([position as u32, (position >> 32) as u32, 0, 0], [seed as u32, (seed >> 32) as u32]);
    let bits = (u64::from(words[1]) << 32 | u64::from(words[0])) >> 11;
    bits as f64 * (1.0 / (1_u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers published with the generator (Random123, `kat_vectors`).
    #[test]
    fn known_answers() {
        assert_eq!(philox4x32([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(
            philox4x32([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox4x32([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn uniform_stays_below_one() {
        let largest = (u64::MAX >> 11) as f64 * (1.0 / (1_u64 << 53) as f64);
        assert!(largest < 1.0);
        for position in 0..10_000 {
            let draw = uniform(7, position);
            assert!((0.0..1.0).contains(&draw));
        }
    }

    #[test]
    fn seed_and_position_both_matter() {
        assert_ne!(uniform(1, 5), uniform(2, 5));
        assert_ne!(uniform(1, 5), uniform(1, 6));
        assert_ne!(uniform(1, 5), uniform(1 | 1 << 40, 5));
        assert_eq!(uniform(9, 1 << 40), uniform(9, 1 << 40));
    }
}
