//! Rotation of pairs of a head's values.
//!
//! A pair `(a, b)` becomes `(a cos - b sin, a sin + b cos)`, computed as `fma(a, cos, -(b · sin))` and
//! `fma(b, cos, a · sin)`. Values past the rotated dimensions stay as they are.

/// Rotates the pairs `(2i, 2i + 1)` by angle `i`. `head` holds at least `2 · cos.len()` values.
pub fn adjacent(cos: &[f32], sin: &[f32], head: &mut [f32]) {
    for ((pair, &cos), &sin) in head.chunks_exact_mut(2).zip(cos).zip(sin) {
        (pair[0], pair[1]) = rotate(pair[0], pair[1], cos, sin);
    }
}

/// Rotates the pairs `(i, i + half)` by angle `i`, where `half = cos.len()`. `head` holds at least `2 · half`
/// values.
pub fn halves(cos: &[f32], sin: &[f32], head: &mut [f32]) {
    let (first, second) = head.split_at_mut(cos.len());
    split_halves(cos, sin, first, second);
}

/// As [`halves`], the two halves in slices of their own.
pub fn split_halves(cos: &[f32], sin: &[f32], first: &mut [f32], second: &mut [f32]) {
    for (((a, b), &cos), &sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
        (*a, *b) = rotate(*a, *b, cos, sin);
    }
}

fn rotate(a: f32, b: f32, cos: f32, sin: f32) -> (f32, f32) {
    (a.mul_add(cos, -(b * sin)), b.mul_add(cos, a * sin))
}
