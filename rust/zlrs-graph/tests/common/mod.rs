//! Random numbers for simulations: SplitMix64, so that a run is the same everywhere.
#![allow(dead_code, reason = "every test file uses its own part")]

/// A generator; the seed is its whole state.
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// True with probability `p`.
    pub fn happens(&mut self, p: f64) -> bool {
        ((self.bits() >> 11) as f64) < p * (1_u64 << 53) as f64
    }
}
