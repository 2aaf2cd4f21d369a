//! Thresholds, and upper bounds of what was counted.

use super::fit::Example;
use crate::exit::Head;

/// The highest threshold under which at most a share of `rate` of the examples differ; `None` if fewer than `least`
/// examples are under any such. O(n log n).
pub(super) fn threshold(head: &Head, examples: &[Example], rate: f64, least: usize) -> Option<f32> {
    let mut scored: Vec<(f32, bool)> =
        examples.iter().map(|example| (head.predict(&example.features), example.differs)).collect();
    scored.sort_by(|left, right| left.0.total_cmp(&right.0));
    let (mut differing, mut found) = (0, None);
    for (index, &(_, differs)) in scored.iter().enumerate() {
        differing += usize::from(differs);
        let count = index + 1;
        // A threshold lies between two different predictions.
        let Some(&(next, _)) = scored.get(count) else { break };
        let separates = next > scored[index].0;
        if separates && count >= least && differing as f64 <= rate * count as f64 {
            found = Some(next).filter(|next| next.is_finite());
        }
    }
    found
}

/// The exact one-sided upper bound of a proportion (Clopper and Pearson 1934): `events` of `trials`. O(trials).
pub fn proportion_upper(events: usize, trials: usize, confidence: f64) -> f64 {
    if trials == 0 || events >= trials {
        return 1.0;
    }
    // Logarithms of the binomial coefficients, one from the other.
    let mut coefficients = vec![0.0_f64];
    for k in 0..events {
        let next = coefficients[k] + ((trials - k) as f64).ln() - ((k + 1) as f64).ln();
        coefficients.push(next);
    }
    let at_most = |p: f64| -> f64 {
        let (success, failure) = (p.ln(), (-p).ln_1p());
        let term = |(k, coefficient): (usize, &f64)| {
            (coefficient + k as f64 * success + (trials - k) as f64 * failure).exp()
        };
        coefficients.iter().enumerate().map(term).sum()
    };
    let (mut low, mut high) = (events as f64 / trials as f64, 1.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if middle > 0.0 && at_most(middle) <= 1.0 - confidence { high = middle } else { low = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::FEATURES;

    #[test]
    fn bounds_of_known_proportions() {
        // 1 − 0.05^(1/n) without events; the others from tables of the distribution.
        assert!((proportion_upper(0, 100, 0.95) - 0.029_513).abs() < 1e-5);
        assert!((proportion_upper(3, 1000, 0.95) - 0.007_737).abs() < 1e-4);
        assert!((proportion_upper(50, 100, 0.95) - 0.586_4).abs() < 1e-3);
        assert_eq!(proportion_upper(5, 5, 0.95), 1.0);
        assert_eq!(proportion_upper(0, 0, 0.95), 1.0);
    }

    #[test]
    fn the_highest_threshold_that_keeps_the_rate() {
        let mut head = Head::ZERO;
        (head.scale[0], head.hidden[0][0], head.output[0]) = (1.0, 1.0, 1.0);
        let example = |value: f32, differs: bool| {
            let mut features = [0.0; FEATURES];
            features[0] = value;
            Example { features, differs }
        };
        let examples: Vec<Example> =
            [(1.0, false), (2.0, false), (3.0, true), (4.0, false), (5.0, true), (6.0, true)]
                .map(|(value, differs)| example(value, differs))
                .to_vec();
        assert_eq!(threshold(&head, &examples, 0.0, 1), Some(3.0));
        assert_eq!(threshold(&head, &examples, 0.25, 1), Some(5.0));
        assert_eq!(threshold(&head, &examples, 0.0, 3), None);
        assert_eq!(threshold(&head, &[], 0.5, 1), None);
    }
}
