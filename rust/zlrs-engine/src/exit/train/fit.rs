//! Fitting one head by stochastic gradient descent (Adam, Kingma and Ba 2015). The same examples give the same bits.

use crate::exit::{FEATURES, Features, Head, UNITS};
use crate::sampling::uniform;

const EPOCHS: usize = 40;
const BATCH: usize = 64;
const RATE: f64 = 0.004;
/// Pulls weights to zero, so that a head of few examples stays simple.
const DECAY: f64 = 1e-4;
const SEED: u64 = 0x5eed;
/// Weights that are fitted: both layers and their biases.
const FITTED: usize = UNITS * FEATURES + UNITS + UNITS + 1;

/// What a probe saw of one row, and whether the model's first choice was another in the end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Example {
    pub features: Features,
    pub differs: bool,
}

/// How well a head does on the examples it was fitted to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// The layer it stands before.
    pub layer: usize,
    /// Examples.
    pub rows: usize,
    /// Share of them whose first choice was the model's own already.
    pub agreement: f64,
    /// Probability that of two examples the one that differs is predicted to contribute more.
    pub area_under_curve: f64,
}

/// Fits a head to tell rows whose first choice still changes. O(examples · epochs · weights).
pub(super) fn fit(layer: usize, examples: &[Example]) -> (Head, Fit) {
    let mut head = normalised(examples);
    let mut weights = [0.0_f64; FITTED];
    for (index, weight) in weights[..UNITS * FEATURES].iter_mut().enumerate() {
        *weight = (uniform(SEED, index as u64) * 2.0 - 1.0) * (1.0 / FEATURES as f64).sqrt();
    }
    for (index, weight) in weights[OUTPUT..OUTPUT + UNITS].iter_mut().enumerate() {
        *weight = (uniform(SEED + 1, index as u64) * 2.0 - 1.0) * (1.0 / UNITS as f64).sqrt();
    }
    let normal: Vec<Features> = examples.iter().map(|example| head.normal(&example.features)).collect();
    let mut order: Vec<usize> = (0..examples.len()).collect();
    let (mut first, mut second, mut steps) = ([0.0; FITTED], [0.0; FITTED], 0_i32);
    for epoch in 0..EPOCHS {
        for index in (1..order.len()).rev() {
            let draw = uniform(SEED + 2 + epoch as u64, index as u64);
            order.swap(index, ((draw * (index + 1) as f64) as usize).min(index));
        }
        for batch in order.chunks(BATCH) {
            let mut gradient = [0.0; FITTED];
            for &index in batch {
                add_gradient(&weights, &normal[index], examples[index].differs, &mut gradient);
            }
            steps += 1;
            for index in 0..FITTED {
                let slope = gradient[index] / batch.len() as f64 + DECAY * weights[index];
                first[index] = 0.9 * first[index] + 0.1 * slope;
                second[index] = 0.999 * second[index] + 0.001 * slope * slope;
                let (mean, spread) = (
                    first[index] / (1.0 - 0.9_f64.powi(steps)),
                    second[index] / (1.0 - 0.999_f64.powi(steps)),
                );
                weights[index] -= RATE * mean / (spread.sqrt() + 1e-8);
            }
        }
    }
    put(&weights, &mut head);
    let differing = examples.iter().filter(|example| example.differs).count();
    let fit = Fit {
        layer,
        rows: examples.len(),
        agreement: 1.0 - differing as f64 / examples.len().max(1) as f64,
        area_under_curve: area_under_curve(&head, examples),
    };
    (head, fit)
}

/// Places in the fitted weights.
const HIDDEN_BIAS: usize = UNITS * FEATURES;
const OUTPUT: usize = HIDDEN_BIAS + UNITS;
const OUTPUT_BIAS: usize = OUTPUT + UNITS;

fn put(weights: &[f64; FITTED], head: &mut Head) {
    for unit in 0..UNITS {
        for feature in 0..FEATURES {
            head.hidden[unit][feature] = weights[unit * FEATURES + feature] as f32;
        }
        head.hidden_bias[unit] = weights[HIDDEN_BIAS + unit] as f32;
        head.output[unit] = weights[OUTPUT + unit] as f32;
    }
    head.output_bias = weights[OUTPUT_BIAS] as f32;
}

/// Adds the gradient of the logistic loss of one example.
fn add_gradient(weights: &[f64; FITTED], normal: &Features, differs: bool, gradient: &mut [f64; FITTED]) {
    let mut units = [0.0; UNITS];
    let mut result = weights[OUTPUT_BIAS];
    for unit in 0..UNITS {
        let own = &weights[unit * FEATURES..][..FEATURES];
        let sum: f64 = own.iter().zip(normal).map(|(weight, &value)| weight * f64::from(value)).sum();
        units[unit] = (sum + weights[HIDDEN_BIAS + unit]).max(0.0);
        result += weights[OUTPUT + unit] * units[unit];
    }
    let slope = 1.0 / (1.0 + (-result).exp()) - f64::from(u8::from(differs));
    gradient[OUTPUT_BIAS] += slope;
    for unit in 0..UNITS {
        gradient[OUTPUT + unit] += slope * units[unit];
        if units[unit] > 0.0 {
            let inner = slope * weights[OUTPUT + unit];
            gradient[HIDDEN_BIAS + unit] += inner;
            for (gradient, &value) in gradient[unit * FEATURES..][..FEATURES].iter_mut().zip(normal) {
                *gradient += inner * f64::from(value);
            }
        }
    }
}

/// A head that knows the features' means and spreads, and nothing else.
fn normalised(examples: &[Example]) -> Head {
    let mut head = Head::ZERO;
    let count = examples.len().max(1) as f64;
    for index in 0..FEATURES {
        let values = || examples.iter().map(|example| f64::from(example.features[index]));
        let mean = values().sum::<f64>() / count;
        let spread = (values().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
        head.shift[index] = -mean as f32;
        head.scale[index] = if spread > 1e-6 { (1.0 / spread) as f32 } else { 0.0 };
    }
    head
}

/// By ranks; half where all are of one kind.
fn area_under_curve(head: &Head, examples: &[Example]) -> f64 {
    let mut scored: Vec<(f32, bool)> =
        examples.iter().map(|example| (head.predict(&example.features), example.differs)).collect();
    scored.sort_by(|left, right| left.0.total_cmp(&right.0));
    let positives = scored.iter().filter(|(_, differs)| *differs).count();
    let negatives = scored.len() - positives;
    if positives == 0 || negatives == 0 {
        return 0.5;
    }
    let mut sum = 0.0;
    let mut start = 0;
    while start < scored.len() {
        let end = start + scored[start..].iter().take_while(|(score, _)| *score == scored[start].0).count();
        // Equals share their mean rank.
        let rank = (start + end + 1) as f64 / 2.0;
        sum += rank * scored[start..end].iter().filter(|(_, differs)| *differs).count() as f64;
        start = end;
    }
    (sum - (positives * (positives + 1)) as f64 / 2.0) / (positives * negatives) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples(count: usize, differs: impl Fn(&Features) -> bool) -> Vec<Example> {
        let of = |row: usize| {
            let features: Features =
                std::array::from_fn(|index| uniform(9, (row * FEATURES + index) as u64) as f32 * 4.0 - 2.0);
            Example { features, differs: differs(&features) }
        };
        (0..count).map(of).collect()
    }

    #[test]
    fn a_rule_that_is_no_line_is_learnt() {
        let (head, fit) = fit(3, &examples(2000, |features| features[0].abs() > 1.0 && features[5] > 0.0));
        assert!(fit.area_under_curve > 0.95, "{fit:?}");
        let mut features = [0.0; FEATURES];
        (features[0], features[5]) = (0.0, -1.5);
        let low = head.predict(&features);
        (features[0], features[5]) = (-1.8, 1.5);
        assert!(head.predict(&features) > low);
    }

    #[test]
    fn the_same_examples_give_the_same_bits_and_few_give_something_finite() {
        let some = examples(300, |features| features[1] > 0.3);
        assert_eq!(fit(1, &some).0.weights(), fit(1, &some).0.weights());
        for some in [examples(0, |_| true), examples(1, |_| true), examples(50, |_| false)] {
            let (head, fit) = fit(1, &some);
            assert!(head.weights().iter().all(|weight| weight.is_finite()));
            assert_eq!(fit.area_under_curve, 0.5);
        }
    }
}
