//! Sums over a row and the root-mean-square norm.
//!
//! A row is summed in 16 virtual lanes: element `i` goes to lane `i mod 16`, in ascending order; a row whose
//! length is no multiple of 16 leaves the last lanes one element shorter. The lanes are then folded in halves,
//! lane `j` taking lane `j + 8`, then `j + 4`, `j + 2`, `j + 1`.

/// Number of virtual lanes of a sum.
pub const LANES: usize = 16;

/// Folds the lanes in halves to one sum.
pub fn fold(mut lanes: [f32; LANES]) -> f32 {
    for width in [8, 4, 2, 1] {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
    }
    lanes[0]
}

/// The sum of `x`.
pub fn sum(x: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    for (i, &x) in x.iter().enumerate() {
        lanes[i % LANES] += x;
    }
    fold(lanes)
}

/// The sum of the squares of `x`, each added by a fused multiply-add.
pub fn sum_of_squares(x: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    for (i, &x) in x.iter().enumerate() {
        lanes[i % LANES] = x.mul_add(x, lanes[i % LANES]);
    }
    fold(lanes)
}

/// `1 / sqrt(mean of squares + epsilon)`, each operation correctly rounded.
pub fn inverse_rms(sum_of_squares: f32, len: usize, epsilon: f32) -> f32 {
    1.0 / (sum_of_squares / len as f32 + epsilon).sqrt()
}

/// `out[i] = (x[i] · inverse_rms(x)) · weight[i]`.
pub fn rms_norm(x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
    let factor = inverse_rms(sum_of_squares(x), x.len(), epsilon);
    for ((out, &x), &weight) in out.iter_mut().zip(x).zip(weight) {
        *out = (x * factor) * weight;
    }
}

/// As [`rms_norm`], in place.
pub fn rms_norm_in_place(x: &mut [f32], weight: &[f32], epsilon: f32) {
    let factor = inverse_rms(sum_of_squares(x), x.len(), epsilon);
    for (x, &weight) in x.iter_mut().zip(weight) {
        *x = (*x * factor) * weight;
    }
}
