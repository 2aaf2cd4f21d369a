//! Norms, activations and the exponential: accuracy of the specification, and AVX2 equal to it by bits.

use proptest::prelude::*;
use zlrs_kernels::naive::activation::{gelu, silu, softcap};
use zlrs_kernels::naive::exponential::{EXP_LOWER, EXP_UPPER, exp};
use zlrs_kernels::{Isa, rms_norm, rms_norm_in_place};

/// Distance in units in the last place of the f32 nearest to the truth.
fn ulps(result: f32, truth: f64) -> f64 {
    let nearest = truth as f32;
    let unit = f64::from(f32::from_bits(nearest.to_bits() + 1)) - f64::from(nearest);
    ((f64::from(result) - truth) / unit).abs()
}

fn next_up(x: f32, steps: i32) -> f32 {
    // For negative x a larger bit pattern is a smaller number.
    f32::from_bits(x.to_bits().wrapping_add_signed(if x < 0.0 { -steps } else { steps }))
}

/// Bits, with all NaNs alike.
fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }).collect()
}

#[test]
fn exp_is_within_one_ulp_over_its_whole_range() {
    let mut worst: f64 = 0.0;
    // Every 61st f32 of either sign, 36 million in all.
    for sign in [0, 0x8000_0000_u32] {
        let end = if sign == 0 { EXP_UPPER } else { EXP_LOWER }.to_bits() & 0x7fff_ffff;
        for magnitude in (0..=end).step_by(61) {
            let x = f32::from_bits(sign | magnitude);
            worst = worst.max(ulps(exp(x), f64::from(x).exp()));
        }
    }
    println!("largest error of exp: {worst:.4} ulp");
    assert!(worst < 1.0, "{worst}");
    assert!(worst > 0.5, "{worst} ulp is better than rounding allows: the measure is broken");
}

#[test]
fn exp_at_its_edges() {
    assert_eq!(exp(0.0).to_bits(), 1.0_f32.to_bits());
    assert_eq!(exp(-0.0).to_bits(), 1.0_f32.to_bits());
    assert_eq!(exp(f32::INFINITY), f32::INFINITY);
    assert_eq!(exp(f32::NEG_INFINITY).to_bits(), 0);
    for nan in [f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001), f32::from_bits(0xffff_ffff)] {
        assert_eq!(exp(nan).to_bits(), f32::NAN.to_bits());
    }
    // The last finite and the last normal result, and all neighbours.
    for steps in -2000..=0 {
        let (upper, lower) = (next_up(EXP_UPPER, steps), next_up(EXP_LOWER, -steps));
        assert!(exp(upper).is_finite() && ulps(exp(upper), f64::from(upper).exp()) < 1.0, "{upper}");
        assert!(exp(lower).is_normal() && ulps(exp(lower), f64::from(lower).exp()) < 1.0, "{lower}");
        assert_eq!(exp(next_up(EXP_UPPER, 1 - steps)), f32::INFINITY);
        assert_eq!(exp(next_up(EXP_LOWER, steps - 1)).to_bits(), 0);
    }
    assert!(f64::from(next_up(EXP_UPPER, 1)).exp() > f64::from(f32::MAX), "infinity is not given too early");
    assert!(f64::from(next_up(EXP_LOWER, -1)).exp() < f64::from(f32::MIN_POSITIVE), "nor is zero");
}

#[test]
fn exp_never_falls_where_its_argument_rises() {
    // Around each change of the exponent, where two pieces of the approximation meet.
    for n in -126..=127 {
        let border = ((f64::from(n) + 0.5) * std::f64::consts::LN_2) as f32;
        for steps in -200..200 {
            let (a, b) = (next_up(border, steps), next_up(border, steps + 1));
            assert!(exp(a) <= exp(b), "exp({a}) > exp({b})");
        }
    }
}

#[test]
fn activations_match_f64() {
    let mut worst = [0.0_f64; 3];
    for i in -200_000..=200_000 {
        let x = i as f32 * 1e-4;
        let wide = f64::from(x);
        let sigmoid = 1.0 / (1.0 + (-wide).exp());
        let inner = (2.0 / std::f64::consts::PI).sqrt() * (wide + 0.044_715 * wide.powi(3));
        let truths = [wide * sigmoid, 0.5 * wide * (1.0 + inner.tanh()), 30.0 * (wide / 30.0).tanh()];
        let results = [silu(x), gelu(x), softcap(x, 30.0)];
        // The exponent's own rounding shows in the far negative tail: relative to the result that tail grows,
        // relative to the argument it does not.
        let scales = [wide.abs().max(1e-30), wide.abs().max(1e-30), 30.0];
        for ((worst, (truth, result)), scale) in worst.iter_mut().zip(truths.iter().zip(results)).zip(scales)
        {
            *worst = worst.max((f64::from(result) - truth).abs() / scale);
        }
    }
    println!(
        "errors: silu {:.2e} of x, gelu {:.2e} of x, softcap {:.2e} of the cap",
        worst[0], worst[1], worst[2]
    );
    assert!(worst[0] < 2e-7 && worst[1] < 3e-7 && worst[2] < 3e-7, "{worst:?}");
}

#[test]
fn activations_reach_their_limits() {
    for activation in [silu, gelu] {
        assert_eq!(activation(0.0), 0.0);
        assert_eq!(activation(200.0), 200.0);
        assert_eq!(activation(1e30), 1e30);
        assert_eq!(activation(f32::INFINITY), f32::INFINITY);
        assert_eq!(activation(-200.0), 0.0);
        assert_eq!(activation(-1e30), 0.0);
        assert!(activation(f32::NAN).is_nan());
    }
    assert_eq!(softcap(1e30, 50.0), 50.0);
    assert_eq!(softcap(f32::NEG_INFINITY, 50.0), -50.0);
    assert_eq!(softcap(-0.0, 50.0).to_bits(), (-0.0_f32).to_bits());
}

#[test]
fn rms_norm_matches_f64() {
    for len in [1, 2, 15, 16, 17, 64, 576, 896, 4096] {
        let x: Vec<f32> = (0..len).map(|i| ((i * 7919 % 1009) as f32 - 504.0) / 97.0).collect();
        let weight: Vec<f32> = (0..len).map(|i| 0.5 + (i % 13) as f32 / 7.0).collect();
        let mut out = vec![0.0; len];
        rms_norm(Isa::Naive, &x, &weight, 1e-5, &mut out);
        let mean = x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / len as f64;
        for i in 0..len {
            let truth = f64::from(x[i]) / (mean + 1e-5).sqrt() * f64::from(weight[i]);
            assert!((f64::from(out[i]) - truth).abs() <= 4e-7 * truth.abs(), "{len} {i}: {} {truth}", out[i]);
        }
    }
}

#[test]
#[should_panic(expected = "lengths of x and weight")]
fn unequal_lengths_are_a_programming_error() {
    rms_norm(Isa::detect(), &[1.0; 8], &[1.0; 9], 1e-5, &mut [0.0; 8]);
}

/// Floats of every kind: usual sizes, all bit patterns, and the values where special cases begin.
fn floats(len: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = Vec<f32>> {
    let special = [
        0.0,
        -0.0,
        1.0,
        EXP_UPPER,
        EXP_LOWER,
        -EXP_UPPER,
        -EXP_LOWER,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MAX,
        f32::MIN,
        f32::MIN_POSITIVE,
        1e-45,
        -1e-45,
    ];
    let any = prop_oneof![
        8 => -20.0_f32..20.0,
        2 => -110.0_f32..110.0,
        2 => any::<u32>().prop_map(f32::from_bits),
        1 => prop::sample::select(special.to_vec()),
    ];
    prop::collection::vec(any, len)
}

/// The instruction sets of this machine.
fn available() -> impl Iterator<Item = Isa> {
    Isa::ALL.into_iter().filter(|isa| isa.is_available())
}

type Binary = fn(Isa, &[f32], &[f32], &mut [f32]);
type InPlace = fn(Isa, &mut [f32]);

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_set_equals_the_specification(x in floats(0..70_usize), seed in any::<u64>()) {
        let mut y = x.clone();
        if !y.is_empty() {
            let middle = seed as usize % y.len();
            y.rotate_left(middle);
        }
        let binaries: [(&str, Binary); 4] = [
            ("silu", zlrs_kernels::silu_multiply),
            ("gelu", zlrs_kernels::gelu_multiply),
            ("rms_norm", |isa, x, weight, out| rms_norm(isa, x, weight, 1e-6, out)),
            ("add", |isa, x, y, out| {
                out.copy_from_slice(x);
                zlrs_kernels::add(isa, y, out);
            }),
        ];
        for (name, function) in binaries {
            let mut naive = vec![7.0; x.len()];
            function(Isa::Naive, &x, &y, &mut naive);
            for isa in available() {
                let mut fast = vec![9.0; x.len()];
                function(isa, &x, &y, &mut fast);
                prop_assert_eq!(bits(&naive), bits(&fast), "{} {:?}", name, isa);
            }
        }
        let in_places: [(&str, InPlace); 3] = [
            ("exp", zlrs_kernels::exp),
            ("scale", |isa, x| zlrs_kernels::scale(isa, 1.7, x)),
            ("softcap", |isa, x| zlrs_kernels::softcap(isa, 30.0, x)),
        ];
        for (name, function) in in_places {
            let mut naive = x.clone();
            function(Isa::Naive, &mut naive);
            for isa in available() {
                let mut fast = x.clone();
                function(isa, &mut fast);
                prop_assert_eq!(bits(&naive), bits(&fast), "{} {:?}", name, isa);
            }
        }
    }

    #[test]
    fn rms_norm_in_place_is_rms_norm(x in floats(0..70_usize), epsilon in 0.0_f32..1e-3) {
        let weight: Vec<f32> = x.iter().rev().copied().collect();
        for isa in [Isa::Naive, Isa::detect()] {
            let (mut out, mut in_place) = (vec![0.0; x.len()], x.clone());
            rms_norm(isa, &x, &weight, epsilon, &mut out);
            rms_norm_in_place(isa, &mut in_place, &weight, epsilon);
            prop_assert_eq!(bits(&out), bits(&in_place));
        }
    }
}

/// The vector exponential over a dense sweep, since attention and every activation rest on it.
#[test]
fn vector_exp_equals_the_specification_everywhere() {
    let all: Vec<f32> = (0..=u32::MAX).step_by(8191).map(f32::from_bits).collect();
    for base in [EXP_UPPER, EXP_LOWER, 0.5 * std::f32::consts::LN_2, 0.0] {
        let near: Vec<f32> = (-1000..1000).map(|steps| next_up(base, steps)).collect();
        for x in [&near, &all] {
            let mut naive = x.clone();
            zlrs_kernels::exp(Isa::Naive, &mut naive);
            for isa in available() {
                let mut fast = x.clone();
                zlrs_kernels::exp(isa, &mut fast);
                // Even the pattern of NaN is fixed for exp.
                assert!(naive.iter().zip(&fast).all(|(a, b)| a.to_bits() == b.to_bits()), "{isa:?}");
            }
        }
    }
}
