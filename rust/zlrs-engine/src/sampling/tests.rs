use proptest::prelude::*;

use zlrs_kernels::naive::draw::exponential;

use super::{Sampler, Sampling, SamplingError, uniform};

/// The same processors written without any shortcut: full sorts, every rule on the whole list.
fn naive_choice(sampling: &Sampling, seed: u64, seen: &[u32], logits: &[f32], position: u64) -> u32 {
    let mut logits = logits.to_vec();
    for &(id, bias) in &sampling.logit_bias {
        logits[id as usize] += bias;
    }
    for (id, logit) in logits.iter_mut().enumerate() {
        if sampling.repetition_penalty != 1.0 && seen.contains(&(id as u32)) {
            *logit = if *logit > 0.0 {
                *logit / sampling.repetition_penalty
            } else {
                *logit * sampling.repetition_penalty
            };
        }
    }
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]).then(a.cmp(&b)));
    if sampling.is_greedy() {
        let best = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        return logits.iter().position(|&logit| logit == best).unwrap() as u32;
    }
    let largest = f64::from(logits[order[0]]);
    let weight = |id: usize| exponential((f64::from(logits[id]) - largest) / f64::from(sampling.temperature));
    if sampling.top_k > 0 {
        order.truncate(sampling.top_k as usize);
    }
    let in_id_order = |kept: &[usize]| {
        let mut kept = kept.to_vec();
        kept.sort_unstable();
        kept
    };
    if sampling.top_p < 1.0 {
        let total: f64 = in_id_order(&order).iter().map(|&id| weight(id)).sum();
        let mut kept = Vec::new();
        let mut sum = 0.0;
        for &id in &order {
            kept.push(id);
            sum += weight(id);
            if sum >= f64::from(sampling.top_p) * total {
                break;
            }
        }
        order = kept;
    }
    if sampling.min_p > 0.0 {
        order.retain(|&id| weight(id) >= f64::from(sampling.min_p));
    }
    let kept = in_id_order(&order);
    let total: f64 = kept.iter().map(|&id| weight(id)).sum();
    let mut sum = 0.0;
    let mut last = 0;
    for id in kept {
        if weight(id) > 0.0 {
            last = id as u32;
            sum += weight(id);
            if sum > uniform(seed, position) * total {
                break;
            }
        }
    }
    last
}

fn any_sampling(vocabulary: u32) -> impl Strategy<Value = Sampling> {
    (
        prop_oneof![Just(0.0_f32), Just(1.0), 0.001_f32..=2.0, Just(f32::MIN_POSITIVE)],
        prop_oneof![Just(1.0_f32), 0.01_f32..=1.0, Just(f32::MIN_POSITIVE)],
        prop_oneof![Just(0_u32), 1_u32..2000, Just(u32::MAX)],
        prop_oneof![Just(0.0_f32), 0.0_f32..0.999],
        prop_oneof![Just(1.0_f32), 0.1_f32..=10.0],
        proptest::collection::vec((0..vocabulary, -100.0_f32..=100.0), 0..4),
    )
        .prop_map(|(temperature, top_p, top_k, min_p, repetition_penalty, logit_bias)| Sampling {
            temperature,
            top_p,
            top_k,
            min_p,
            repetition_penalty,
            seed: None,
            logit_bias,
        })
}

proptest! {
    #[test]
    fn equals_the_naive_sampler(
        sampling in any_sampling(700),
        seed: u64,
        position in 0_u64..100_000,
        seen in proptest::collection::vec(0_u32..700, 0..20),
        // Few distinct values, so that ties are everywhere.
        logits in proptest::collection::vec(prop_oneof![(-8_i8..8).prop_map(f32::from), -30.0_f32..30.0], 700),
    ) {
        let mut sampler = Sampler::new(Sampling { seed: Some(seed), ..sampling.clone() }, 700).unwrap();
        sampler.observe(&seen);
        let expected = naive_choice(&sampling, seed, &seen, &logits, position);
        prop_assert_eq!(sampler.choose(&logits, position).unwrap(), expected);
        // Buffers are reused: a second call says the same.
        prop_assert_eq!(sampler.choose(&logits, position).unwrap(), expected);
    }

    #[test]
    fn extremes_choose_some_token(
        sampling in any_sampling(64),
        seed: u64,
        logits in proptest::collection::vec(
            prop_oneof![Just(f32::MAX), Just(f32::MIN), Just(0.0), Just(-0.0), Just(1e-45_f32)], 64),
    ) {
        let mut sampler = Sampler::new(Sampling { seed: Some(seed), ..sampling }, 64).unwrap();
        sampler.observe(&(0..64).collect::<Vec<_>>());
        prop_assert!(sampler.choose(&logits, 3).unwrap() < 64);
    }

    #[test]
    fn a_logit_that_is_not_finite_is_named(
        sampling in any_sampling(64), index in 0_usize..64,
        value in prop_oneof![Just(f32::NAN), Just(f32::INFINITY), Just(f32::NEG_INFINITY)],
    ) {
        let mut logits = vec![1.0; 64];
        logits[index] = value;
        let mut sampler = Sampler::new(sampling, 64).unwrap();
        match sampler.choose(&logits, 12) {
            Err(SamplingError::NotFinite { id, position: 12, .. }) => prop_assert_eq!(id, index as u32),
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn exponential_agrees_with_the_library(x in -707.0_f64..=0.0) {
        let (ours, library) = (exponential(x), x.exp());
        prop_assert!((ours - library).abs() <= 4.0 * f64::EPSILON * library, "{} {}", ours, library);
    }
}

#[test]
fn exponential_at_the_ends() {
    assert_eq!(exponential(0.0), 1.0);
    assert_eq!(exponential(-0.0), 1.0);
    assert_eq!(exponential(f64::NEG_INFINITY), 0.0);
    assert_eq!(exponential(-1e300), 0.0);
    assert!(exponential(-708.0) > 0.0);
}

#[test]
fn ranges_are_checked() {
    let wrong = [
        Sampling { temperature: f32::NAN, ..Sampling::default() },
        Sampling { temperature: -0.1, ..Sampling::default() },
        Sampling { temperature: 1e6, ..Sampling::default() },
        Sampling { top_p: 0.0, ..Sampling::default() },
        Sampling { top_p: -1.0, ..Sampling::default() },
        Sampling { top_p: 1.1, ..Sampling::default() },
        Sampling { top_p: f32::NAN, ..Sampling::default() },
        Sampling { min_p: 1.0, ..Sampling::default() },
        Sampling { min_p: -0.1, ..Sampling::default() },
        Sampling { repetition_penalty: 0.0, ..Sampling::default() },
        Sampling { repetition_penalty: f32::INFINITY, ..Sampling::default() },
        Sampling { logit_bias: vec![(3, 101.0)], ..Sampling::default() },
        Sampling { logit_bias: vec![(3, f32::NAN)], ..Sampling::default() },
        Sampling { logit_bias: vec![(1, 0.0); 1025], ..Sampling::default() },
    ];
    for sampling in wrong {
        let error = sampling.validate(10).unwrap_err();
        assert!(matches!(error, SamplingError::Parameter { .. }), "{sampling:?}");
    }
    let unknown = Sampling { logit_bias: vec![(10, 1.0)], ..Sampling::default() };
    assert_eq!(
        unknown.validate(10).unwrap_err().to_string(),
        "logit_bias names token 10, but the model has tokens 0 to 9"
    );
}

#[test]
fn bias_forbids_and_forces() {
    let logits = [1.0, 5.0, 2.0, 5.0];
    let choose = |logit_bias| {
        let sampling = Sampling { logit_bias, ..Sampling::default() };
        Sampler::new(sampling, 4).unwrap().choose(&logits, 0).unwrap()
    };
    assert_eq!(choose(vec![]), 1);
    assert_eq!(choose(vec![(1, -100.0)]), 3);
    assert_eq!(choose(vec![(0, 100.0)]), 0);
}

#[test]
fn a_missing_seed_is_drawn_and_reported() {
    let sampling = Sampling { temperature: 1.0, ..Sampling::default() };
    let logits: Vec<f32> = (0..1000).map(|id| (id % 7) as f32 * 0.1).collect();
    let mut first = Sampler::new(sampling.clone(), 1000).unwrap();
    let mut other = Sampler::new(sampling.clone(), 1000).unwrap();
    assert_ne!(first.seed(), other.seed());
    let mut again = Sampler::new(Sampling { seed: Some(first.seed()), ..sampling }, 1000).unwrap();
    let draws = |sampler: &mut Sampler| -> Vec<u32> {
        (0..20).map(|position| sampler.choose(&logits, position).unwrap()).collect()
    };
    let text = draws(&mut first);
    assert_eq!(draws(&mut again), text);
    assert_ne!(draws(&mut other), text);
}

/// Pearson's test over many positions with fixed seeds: 15 degrees of freedom, so a correct sampler exceeds
/// 44.3 in one of ten thousand seeds.
#[test]
fn draws_follow_the_distribution() {
    const DRAWS: u64 = 40_000;
    let logits: Vec<f32> = (0..16).map(|id| ((id * 7) % 16) as f32 * 0.2).collect();
    for (seed, temperature) in [(1, 1.0_f32), (2, 0.5), (3, 2.0)] {
        let sampling = Sampling { temperature, seed: Some(seed), ..Sampling::default() };
        let mut sampler = Sampler::new(sampling, 16).unwrap();
        let mut counts = [0_u64; 16];
        for position in 0..DRAWS {
            counts[sampler.choose(&logits, position).unwrap() as usize] += 1;
        }
        let weights: Vec<f64> =
            logits.iter().map(|&logit| (f64::from(logit) / f64::from(temperature)).exp()).collect();
        let total: f64 = weights.iter().sum();
        let statistic: f64 = counts
            .iter()
            .zip(&weights)
            .map(|(&count, weight)| {
                let expected = weight / total * DRAWS as f64;
                (count as f64 - expected).powi(2) / expected
            })
            .sum();
        assert!(statistic < 44.3, "seed {seed}: {statistic}");
    }
}
