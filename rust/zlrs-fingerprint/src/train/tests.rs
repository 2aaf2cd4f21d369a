//! The slopes, by differences.
#![allow(clippy::unwrap_used, reason = "a test stops at what is wrong")]

use super::float::{Layout, backward, forward, initial};
use super::numbers::{dot, exponential};
use super::random::Random;

#[test]
fn slopes_are_what_differences_say() {
    let mut random = Random::new(3);
    let weights = initial(&mut random);
    let text = b" where is order # now ";
    let slope: Vec<f32> = (0..crate::DIMENSIONS).map(|_| random.signed()).collect();
    let mut gradient = vec![0.0; Layout::COUNT];
    backward(&weights, &forward(&weights, text), &slope, &mut gradient);
    for layer in [
        Layout::EMBEDDING,
        Layout::FIRST,
        Layout::BIAS_1,
        Layout::SECOND,
        Layout::BIAS_2,
        Layout::PROJECTION,
        Layout::BIAS_3,
    ] {
        // Along the layer's own gradient, which is never zero there.
        let length: f32 =
            gradient[layer.0..layer.0 + layer.1].iter().map(|value| value * value).sum::<f32>().sqrt();
        assert!(length > 0.0);
        let step = 1e-3 / length;
        let value = |sign: f32| {
            let mut moved = weights.clone();
            for at in layer.0..layer.0 + layer.1 {
                moved[at] += sign * step * gradient[at];
            }
            f64::from(dot(&forward(&moved, text).direction, &slope))
        };
        let by_difference = (value(1.0) - value(-1.0)) / 2e-3;
        let expected = f64::from(length);
        assert!((by_difference - expected).abs() < 0.05 * expected, "{by_difference} {expected}");
    }
}

#[test]
fn the_exponential_is_close() {
    for tenth in -870..=0 {
        let x = tenth as f32 / 10.0;
        let exact = f64::from(x).exp();
        assert!((f64::from(exponential(x)) - exact).abs() <= 2e-5 * exact, "{x}");
    }
}
