//! Rotary tables against closed forms, rotations against complex numbers in f64, AVX2 against the naive path.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use proptest::prelude::*;
use zlrs_kernels::{Isa, KernelError, RopeLayout, RopeParameters, RopeScaling, RopeTable, rope};

fn plain(dimensions: usize, base: f64) -> RopeParameters {
    RopeParameters { dimensions, base, scaling: RopeScaling::None, frequency_factors: None }
}

/// The angle per position of each pair, read back from position 1 of a table.
fn frequencies(parameters: &RopeParameters) -> Vec<f64> {
    let table = RopeTable::new(parameters, 2).unwrap();
    let (cos, sin) = table.at(1).unwrap();
    cos.iter().zip(sin).map(|(&cos, &sin)| f64::from(sin).atan2(f64::from(cos))).collect()
}

fn assert_close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (pair, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= 2.5e-7 * expected.abs(), "pair {pair}: {found} {expected}");
    }
}

#[test]
fn entries_are_the_rounded_sines_and_cosines() {
    let table = RopeTable::new(&plain(64, 1e6), 40_000).unwrap();
    assert_eq!((table.dimensions(), table.positions(), table.bytes()), (64, 40_000, 40_000 * 64 * 4));
    for position in [0_u32, 1, 2, 511, 512, 32_767, 39_999] {
        let (cos, sin) = table.at(position).unwrap();
        for pair in 0..32 {
            let angle = f64::from(position) * 1e6_f64.powf(-2.0 * pair as f64 / 64.0);
            assert_eq!(cos[pair].to_bits(), (angle.cos() as f32).to_bits(), "{position} {pair}");
            assert_eq!(sin[pair].to_bits(), (angle.sin() as f32).to_bits(), "{position} {pair}");
        }
    }
    assert!(table.at(40_000).is_none());
}

#[test]
fn linear_scaling_and_factors_divide_frequencies() {
    let base = frequencies(&plain(8, 10_000.0));
    let linear = RopeParameters { scaling: RopeScaling::Linear { factor: 4.0 }, ..plain(8, 10_000.0) };
    assert_close(&frequencies(&linear), &base.iter().map(|f| f / 4.0).collect::<Vec<_>>());
    let factors = RopeParameters { frequency_factors: Some(vec![1.0, 2.0, 8.0, 32.0]), ..plain(8, 10_000.0) };
    let expected: Vec<f64> = base.iter().zip([1.0, 2.0, 8.0, 32.0]).map(|(f, divisor)| f / divisor).collect();
    assert_close(&frequencies(&factors), &expected);
}

#[test]
fn ntk_scaling_keeps_the_shortest_wave_and_stretches_the_longest() {
    let base = frequencies(&plain(16, 10_000.0));
    let scaled = |factor| RopeParameters { scaling: RopeScaling::Ntk { factor }, ..plain(16, 10_000.0) };
    let found = frequencies(&scaled(4.0));
    assert_close(&[found[0], found[7]], &[base[0], base[7] / 4.0]);
    // The same as another base, by the published formula.
    let other = plain(16, 10_000.0 * 4_f64.powf(16.0 / 14.0));
    assert_close(&found, &frequencies(&other));
    assert!(RopeTable::new(&scaled(0.5), 2).is_err());
    let two = RopeParameters { scaling: RopeScaling::Ntk { factor: 2.0 }, ..plain(2, 10_000.0) };
    assert!(RopeTable::new(&two, 2).is_err());
}

#[test]
fn llama3_scaling_keeps_short_waves_and_stretches_long_ones() {
    // The published formula, by wavelengths.
    let parameters = RopeParameters {
        scaling: RopeScaling::Llama3 {
            factor: 8.0,
            low_frequency_factor: 1.0,
            high_frequency_factor: 4.0,
            original_context: 8192,
        },
        ..plain(128, 500_000.0)
    };
    let mut kinds = [0; 3];
    let expected: Vec<f64> = (0..64)
        .map(|pair| {
            let frequency = 500_000_f64.powf(-2.0 * f64::from(pair) / 128.0);
            let wavelength = std::f64::consts::TAU / frequency;
            if wavelength < 8192.0 / 4.0 {
                kinds[0] += 1;
                frequency
            } else if wavelength > 8192.0 / 1.0 {
                kinds[1] += 1;
                frequency / 8.0
            } else {
                kinds[2] += 1;
                let smooth = (8192.0 / wavelength - 1.0) / (4.0 - 1.0);
                (1.0 - smooth) * frequency / 8.0 + smooth * frequency
            }
        })
        .collect();
    assert!(kinds.iter().all(|&count| count > 0), "{kinds:?}");
    assert_close(&frequencies(&parameters), &expected);
}

#[test]
fn yarn_ramps_between_its_two_bounds_and_lengthens_the_vectors() {
    let (factor, context): (f64, usize) = (4.0, 32_768);
    let parameters = RopeParameters {
        scaling: RopeScaling::Yarn {
            factor,
            original_context: context,
            beta_fast: 32.0,
            beta_slow: 1.0,
            attention_factor: 1.0,
        },
        ..plain(128, 1e6)
    };
    let correction =
        |turns: f64| 128.0 * (context as f64 / (turns * std::f64::consts::TAU)).ln() / (2.0 * 1e6_f64.ln());
    let (low, high) = (correction(32.0).floor(), correction(1.0).ceil());
    assert!(0.0 < low && low < high && high < 64.0);
    let expected: Vec<f64> = (0..64)
        .map(|pair| {
            let frequency = 1e6_f64.powf(-2.0 * f64::from(pair) / 128.0);
            let ramp = ((f64::from(pair) - low) / (high - low)).clamp(0.0, 1.0);
            frequency / factor * ramp + frequency * (1.0 - ramp)
        })
        .collect();
    assert_close(&frequencies(&parameters), &expected);
    let table = RopeTable::new(&parameters, 1).unwrap();
    let magnitude = (1.0 + 0.1 * factor.ln()) as f32;
    assert!(table.at(0).unwrap().0.iter().all(|&cos| cos == magnitude));
}

#[test]
fn parameters_outside_their_ranges_are_refused() {
    let scaled = |scaling| RopeParameters { scaling, ..plain(64, 1e4) };
    let yarn = |factor, original_context, beta_fast| {
        scaled(RopeScaling::Yarn {
            factor,
            original_context,
            beta_fast,
            beta_slow: 1.0,
            attention_factor: 1.0,
        })
    };
    let llama = |low_frequency_factor, high_frequency_factor| {
        let (factor, original_context) = (8.0, 8192);
        scaled(RopeScaling::Llama3 { factor, low_frequency_factor, high_frequency_factor, original_context })
    };
    let refused = [
        plain(0, 1e4),
        plain(7, 1e4),
        plain(64, 1.0),
        plain(64, f64::NAN),
        plain(64, f64::INFINITY),
        scaled(RopeScaling::Linear { factor: 0.0 }),
        scaled(RopeScaling::Linear { factor: -1.0 }),
        llama(0.0, 4.0),
        llama(4.0, 4.0),
        yarn(0.5, 4096, 32.0),
        yarn(4.0, 0, 32.0),
        yarn(4.0, 4096, f64::NAN),
        RopeParameters { frequency_factors: Some(vec![0.0; 32]), ..plain(64, 1e4) },
    ];
    for parameters in refused {
        let error = RopeTable::new(&parameters, 8).unwrap_err();
        assert!(matches!(error, KernelError::RopeParameter { .. }), "{parameters:?}: {error}");
    }
    let short = RopeParameters { frequency_factors: Some(vec![1.0; 31]), ..plain(64, 1e4) };
    assert!(matches!(RopeTable::new(&short, 8), Err(KernelError::Length { expected: 32, given: 31, .. })));
    assert!(matches!(RopeTable::new(&plain(64, 1e4), usize::MAX), Err(KernelError::OutOfMemory { .. })));
}

#[test]
fn rotation_is_multiplication_of_complex_numbers() {
    let table = RopeTable::new(&plain(12, 100.0), 50).unwrap();
    for (layout, partner) in [(RopeLayout::Adjacent, 1), (RopeLayout::Halves, 6)] {
        for isa in [Isa::Naive, Isa::detect()] {
            // Partial rotary: 12 of 20 values turn.
            let before: Vec<f32> = (0..20).map(|i| (i as f32 * 1.7).sin() * 3.0).collect();
            let mut after = before.clone();
            rope(isa, layout, &table, 37, &mut after);
            assert_eq!(before[12..], after[12..]);
            for pair in 0..6 {
                let first = if partner == 1 { 2 * pair } else { pair };
                let angle = 37.0 * 100_f64.powf(-2.0 * pair as f64 / 12.0);
                let (a, b) = (f64::from(before[first]), f64::from(before[first + partner]));
                let (real, imaginary) =
                    (a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos());
                assert!((f64::from(after[first]) - real).abs() < 1e-6);
                assert!((f64::from(after[first + partner]) - imaginary).abs() < 1e-6);
            }
        }
    }
}

#[test]
#[should_panic(expected = "position 4 in a table of 4")]
fn a_position_past_the_table_is_a_programming_error() {
    let table = RopeTable::new(&plain(4, 100.0), 4).unwrap();
    rope(Isa::detect(), RopeLayout::Halves, &table, 4, &mut [0.0; 4]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn avx2_equals_the_specification(
        half in 1..40_usize,
        rest in 0..9_usize,
        position in 0..600_u32,
        values in prop::collection::vec(prop_oneof![-1e3_f32..1e3, any::<f32>()], 90),
    ) {
        prop_assume!(Isa::Avx2.is_available());
        let table = RopeTable::new(&plain(2 * half, 10_000.0), 600).unwrap();
        for layout in [RopeLayout::Adjacent, RopeLayout::Halves] {
            let [naive, avx2] = [Isa::Naive, Isa::Avx2].map(|isa| {
                let mut head = values[..2 * half + rest].to_vec();
                rope(isa, layout, &table, position, &mut head);
                head.iter().map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }).collect::<Vec<_>>()
            });
            prop_assert_eq!(naive, avx2);
        }
    }
}
