//! Quantised activations: the written rule at chosen values, and its meaning at random ones.

use proptest::prelude::*;
use zlrs_kernels::naive::quantise::quantise_block;

fn quantise(x: &[f32]) -> (f32, Vec<i8>) {
    let mut q = vec![99; x.len()];
    let d = quantise_block(x, &mut q);
    (d, q)
}

#[test]
fn ties_go_to_even_and_the_largest_becomes_127() {
    let (d, q) = quantise(&[127.0, -127.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.499, -0.0]);
    assert_eq!(d, 1.0);
    assert_eq!(q, [127, -127, 0, 2, 2, 0, -2, -2, 0, 0]);
}

#[test]
fn the_scale_is_the_rounded_quotient() {
    // 1 / 127 and 127 / 3 are not exact; the rule divides once for each.
    let (d, q) = quantise(&[3.0, 1.0]);
    assert_eq!(d.to_bits(), (3.0_f32 / 127.0).to_bits());
    assert_eq!(q, [127, (1.0 * (127.0 / 3.0_f32)).round_ties_even() as i8]);
}

#[test]
fn below_the_smallest_normal_number_all_is_zero() {
    for amax in [0.0, -0.0, 1e-45, f32::MIN_POSITIVE * 0.99] {
        assert_eq!(quantise(&[amax, -amax / 2.0]), (0.0, vec![0, 0]), "{amax:e}");
    }
    let (d, q) = quantise(&[f32::MIN_POSITIVE, -f32::MIN_POSITIVE / 2.0, 0.0]);
    assert_eq!((d, q), (f32::MIN_POSITIVE / 127.0, vec![127, -64, 0]));
}

#[test]
fn no_number_gives_no_number() {
    for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let (d, q) = quantise(&[1.0, bad, f32::MAX]);
        assert!(d.is_nan(), "{bad}");
        assert_eq!(q, [0, 0, 0]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Every value lies within half a step of what its byte stands for, up to the rounding of the rule itself.
    #[test]
    fn bytes_stand_for_their_values(
        x in prop::collection::vec(-1.0_f32..1.0, 32),
        exponent in -126_i32..120,
    ) {
        let x: Vec<f32> = x.iter().map(|v| v * 2.0_f32.powi(exponent)).collect();
        let amax = x.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
        prop_assume!(amax >= f32::MIN_POSITIVE);
        let (_, q) = quantise(&x);
        prop_assert!(q.iter().any(|q| q.abs() == 127));
        for (x, q) in x.iter().zip(&q) {
            let steps = f64::from(*x) * 127.0 / f64::from(amax);
            prop_assert!((steps - f64::from(*q)).abs() <= 0.5 + 127.0 * 2.0 * f64::from(f32::EPSILON));
        }
    }
}
