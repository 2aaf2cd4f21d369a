//! The fingerprint of one text.

/// Numbers in a fingerprint: one cache line.
pub const DIMENSIONS: usize = 64;

/// A direction in 64 dimensions, each −127 to 127.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [i8; DIMENSIONS]);

impl Fingerprint {
    /// The cosine of the angle between two fingerprints, −1 to 1; 0 where one of them is zero. The products are summed
    /// in integers, so the result is the same on every machine.
    pub fn cosine(&self, other: &Self) -> f64 {
        let lengths = f64::from(self.dot(self)).sqrt() * f64::from(other.dot(other)).sqrt();
        if lengths > 0.0 { f64::from(self.dot(other)) / lengths } else { 0.0 }
    }

    /// The sum of the products; at most 64 · 127².
    pub fn dot(&self, other: &Self) -> i32 {
        self.0.iter().zip(&other.0).map(|(left, right)| i32::from(*left) * i32::from(*right)).sum()
    }

    /// The nearest fingerprint to a direction; zero for one that is not finite.
    pub(crate) fn of_direction(direction: &[f32; DIMENSIONS]) -> Self {
        let longest = direction.iter().fold(0.0_f32, |longest, value| longest.max(value.abs()));
        if !longest.is_finite() || longest <= 0.0 {
            return Self([0; DIMENSIONS]);
        }
        Self(direction.map(|value| (value / longest * 127.0).round() as i8))
    }
}
