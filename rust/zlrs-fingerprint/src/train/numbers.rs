//! Sums in a fixed order, and the exponential function: what a mathematics library computes differs between systems.

/// Σ left·right in eight lanes, which are then added in order.
#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled into each of its callers' instruction sets")]
pub fn dot(left: &[f32], right: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; 8];
    let (mut lefts, mut rights) = (left.chunks_exact(8), right.chunks_exact(8));
    for (left, right) in (&mut lefts).zip(&mut rights) {
        for lane in 0..8 {
            lanes[lane] += left[lane] * right[lane];
        }
    }
    let rest: f32 = lefts.remainder().iter().zip(rights.remainder()).map(|(left, right)| left * right).sum();
    lanes.iter().sum::<f32>() + rest
}

/// `out += factor · list`.
#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled into each of its callers' instruction sets")]
pub fn add_scaled(out: &mut [f32], factor: f32, list: &[f32]) {
    out.iter_mut().zip(list).for_each(|(out, value)| *out += factor * value);
}

/// eˣ for −87 ≤ x ≤ 0, with a relative error below 2·10⁻⁵; smaller arguments count as −87.
pub fn exponential(x: f32) -> f32 {
    let x = x.clamp(-87.0, 0.0);
    let scaled = x * std::f32::consts::LOG2_E;
    let whole = scaled.floor();
    let rest = (scaled - whole) * std::f32::consts::LN_2;
    let mut power = 1.0;
    for divisor in [8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0_f32] {
        power = 1.0 + rest / divisor * power;
    }
    power * f32::from_bits(((whole as i32 + 127) as u32) << 23)
}
