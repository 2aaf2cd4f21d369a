//! What choosing a token computes of every logit.
//!
//! The functions are one loop body each, inlined into the callers: the vector paths compile the same lines with more
//! features, and there is no operation in them whose result could depend on that.
#![allow(clippy::inline_always, reason = "each instruction set compiles the body with its own features")]

/// 1/k! for k = 0 … 13.
const TAYLOR: [f64; 14] = {
    let mut inverse_factorials = [1.0; 14];
    let mut factorial = 1.0;
    let mut degree = 1;
    while degree < 14 {
        factorial *= degree as f64;
        inverse_factorials[degree] = 1.0 / factorial;
        degree += 1;
    }
    inverse_factorials
};

/// 1.5 · 2^52: adding it rounds a small number to an integer, which is then in the lowest bits.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// Lanes of [`largest`].
const LANES: usize = 16;

/// e^x for x ≤ 0 with the same bits on every machine (the C library's own differs between versions): ranges
/// are reduced by ln 2, a Taylor polynomial of degree 13 stays within 2 units of the last place of f64, and
/// results below the smallest normal number are 0. It is computed for every token of the vocabulary, so it has
/// no division, no call and no branch.
#[inline(always)]
pub fn exponential(x: f64) -> f64 {
    const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    let shifted = x * std::f64::consts::LOG2_E + ROUNDER;
    let exponent = shifted - ROUNDER;
    let rest = (x - exponent * LN_2_HIGH) - exponent * LN_2_LOW;
    let mut sum = TAYLOR[13];
    for coefficient in TAYLOR[..13].iter().rev() {
        sum = sum * rest + coefficient;
    }
    let scale = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    if x < -708.0 { 0.0 } else { sum * scale }
}

/// As [`weights`](crate::weights).
#[inline(always)]
pub(crate) fn weights(logits: &[f32], largest: f32, temperature: f32, out: &mut [f64]) {
    let (largest, temperature) = (f64::from(largest), f64::from(temperature));
    for (out, &logit) in out.iter_mut().zip(logits) {
        *out = exponential((f64::from(logit) - largest) / temperature);
    }
}

/// As [`largest`](crate::largest).
#[inline(always)]
pub(crate) fn largest(logits: &[f32]) -> Option<f32> {
    let mut best = [f32::NEG_INFINITY; LANES];
    // Zero times a number is zero unless the number is not finite.
    let mut zeros = [0.0_f32; LANES];
    let (chunks, tail) = logits.as_chunks::<LANES>();
    for chunk in chunks {
        for ((best, zero), &logit) in best.iter_mut().zip(&mut zeros).zip(chunk) {
            *best = if logit > *best { logit } else { *best };
            *zero += logit * 0.0;
        }
    }
    for ((best, zero), &logit) in best.iter_mut().zip(&mut zeros).zip(tail) {
        *best = if logit > *best { logit } else { *best };
        *zero += logit * 0.0;
    }
    let is_finite = !logits.is_empty() && zeros.iter().all(|&zero| zero == 0.0);
    is_finite.then(|| best.iter().copied().fold(f32::NEG_INFINITY, f32::max))
}
