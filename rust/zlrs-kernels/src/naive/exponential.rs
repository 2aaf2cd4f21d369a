//! The exponential function of this crate, the same bits on every machine.
//!
//! `exp(x) = 2^n · e^r` with `n` the integer nearest to `x / ln 2` and `|r| <= ln 2 / 2`. `ln 2` is split into
//! its f32 value and a small rest; the first fused multiply-add of the reduction is exact (its result is a
//! multiple of 2^-24 below 1/2, or the operands lie within a factor of two of each other), the second rounds
//! once. The polynomial has degree 6 with the first two coefficients fixed at 1, so that `exp(0) = 1`; the
//! rest minimise the largest relative error over the interval (found by iteratively reweighted least squares
//! and rounded to f32 one after the other, refitting the remaining ones): 3.2e-9, a fortieth of a unit in the
//! last place.
//!
//! Over all arguments the result is within 1 unit in the last place of the true value.

/// Arguments above it give infinity; it is the largest whose exponential is finite.
pub const EXP_UPPER: f32 = f32::from_bits(0x42b1_7217);

/// Arguments below it give exactly 0: their exponentials would be subnormal.
pub const EXP_LOWER: f32 = f32::from_bits(0xc2ae_ac4f);

/// 1 / ln 2.
pub(crate) const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// ln 2 rounded to f32.
pub(crate) const LN_2_HIGH: f32 = std::f32::consts::LN_2;
/// ln 2 less [`LN_2_HIGH`].
pub(crate) const LN_2_LOW: f32 = f32::from_bits(0xb102_e308);
/// Coefficients of r^6 down to r^2; those of r and 1 are 1.
pub(crate) const COEFFICIENTS: [f32; 5] = [
    f32::from_bits(0x3ab5_2767), // 0.001_382_095
    f32::from_bits(0x3c09_1cce), // 0.008_368_684
    f32::from_bits(0x3d2a_ac58), // 0.041_668_27
    f32::from_bits(0x3e2a_aa49), // 0.166_665_2
    f32::from_bits(0x3eff_fffe), // 0.499_999_94
];

/// e to the power `x`: infinity above [`EXP_UPPER`], 0 below [`EXP_LOWER`], a quiet NaN of one fixed pattern
/// for every NaN.
pub fn exp(x: f32) -> f32 {
    if x.is_nan() {
        return f32::NAN;
    }
    if x > EXP_UPPER {
        return f32::INFINITY;
    }
    if x < EXP_LOWER {
        return 0.0;
    }
    let n = (x * LOG2_E).round_ties_even();
    let r = (-n).mul_add(LN_2_LOW, (-n).mul_add(LN_2_HIGH, x));
    let [c6, c5, c4, c3, c2] = COEFFICIENTS;
    let mut p = c6;
    for c in [c5, c4, c3, c2, 1.0, 1.0] {
        p = p.mul_add(r, c);
    }
    // p lies in (0.7, 1.42) and p · 2^n is normal or infinite, so adding n to the exponent field is exact.
    f32::from_bits(p.to_bits().wrapping_add((n as i32 as u32) << 23))
}

/// `x[i] = exp(x[i])`.
pub fn exp_all(x: &mut [f32]) {
    for x in x {
        *x = exp(*x);
    }
}
