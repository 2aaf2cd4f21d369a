//! Whether guessing with the model's own shallow steps pays.
//!
//! Such a guess costs a step of its own, so the question comes before it is made: a step of the model without some
//! parts takes c, a full step of n rows C(n), both measured, and a guess is right with a probability that is
//! measured by how clearly its logit stands out. Where tokens per second do not rise nothing is guessed but a
//! rare probe, so that a text that suits it better is noticed.

use super::StepCosts;

/// Most guesses of one sequence before a step.
pub const SHALLOW_GUESSES: usize = 6;
/// Guesses of a probe.
const PROBE_GUESSES: usize = 2;
/// Steps without a guess after which one is tried.
const PROBE_STEPS: usize = 256;
/// Gain below which nothing is guessed.
const LEAST_GAIN: f64 = 1.03;
/// Distances in nats from the guessed token's logit to the next one, between classes.
const MARGINS: [f32; 5] = [0.3, 0.8, 1.5, 2.5, 4.0];
const CLASSES: usize = MARGINS.len() + 1;
/// Share of right guesses expected of each class before anything is known.
const PRIOR: [f64; CLASSES] = [0.3, 0.4, 0.5, 0.6, 0.75, 0.85];
/// Share expected of all together.
const PRIOR_MEAN: f64 = 0.6;
/// As how many observations an expectation counts.
const PRIOR_WEIGHT: f64 = 6.0;
/// Old observations lose weight by this with each new one.
const MEMORY: f64 = 0.98;

/// Right guesses among tries, with decaying memory.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    right: f64,
    tried: f64,
}

impl Share {
    fn observe(&mut self, right: bool) {
        self.right = self.right * MEMORY + f64::from(u8::from(right));
        self.tried = self.tried * MEMORY + 1.0;
    }

    fn value(self, expected: f64) -> f64 {
        (self.right + PRIOR_WEIGHT * expected) / (self.tried + PRIOR_WEIGHT)
    }
}

/// The class of a guess whose logit is so far above all others; 0 or less where it is not the largest.
pub fn class_of(margin: f32) -> usize {
    MARGINS.iter().filter(|&&bound| margin > bound).count()
}

/// Decides for one engine.
#[derive(Debug, Clone, Default)]
pub struct ShallowPayoff {
    /// What shallow steps cost.
    pub costs: StepCosts,
    by_class: [Share; CLASSES],
    all: Share,
    /// Steps since something was guessed.
    idle_steps: usize,
}

impl ShallowPayoff {
    /// Of a chain of guesses of these classes the first `right` were right.
    pub fn observe(&mut self, classes: &[usize], right: usize) {
        for (index, &class) in classes.iter().enumerate().take(right + 1) {
            self.by_class[class.min(CLASSES - 1)].observe(index < right);
            self.all.observe(index < right);
        }
    }

    /// The probability that a guess of the class is right.
    pub fn chance(&self, class: usize) -> f64 {
        let class = class.min(CLASSES - 1);
        self.by_class[class].value(PRIOR[class])
    }

    /// Whether to guess for `sequences` of the `rows` sequences of a step, with `full` the costs of full steps, and
    /// how many tokens at most: 0 where it does not pay.
    pub fn guesses(&mut self, full: &StepCosts, rows: usize, sequences: usize) -> usize {
        let base_seconds = full.seconds(rows);
        if sequences == 0 || base_seconds <= 0.0 {
            return 0;
        }
        let shallow_seconds = self.costs.seconds(sequences);
        let mean = self.all.value(PRIOR_MEAN);
        let base = rows as f64 / base_seconds;
        let (mut tokens, mut chance, mut pays) = (rows as f64, 1.0, shallow_seconds <= 0.0);
        for guesses in 1..=SHALLOW_GUESSES {
            chance *= mean;
            tokens += sequences as f64 * chance;
            let full_seconds = full.seconds(rows + sequences * guesses).max(base_seconds);
            let seconds = guesses as f64 * shallow_seconds + full_seconds;
            pays |= tokens / seconds > base * LEAST_GAIN;
        }
        self.idle_steps += 1;
        if pays && shallow_seconds > 0.0 {
            self.idle_steps = 0;
            return SHALLOW_GUESSES;
        }
        // Nothing is known yet, or not for long.
        if pays || self.idle_steps >= PROBE_STEPS {
            self.idle_steps = 0;
            return PROBE_GUESSES;
        }
        0
    }

    /// Whether one guess more is worth its time behind a chain that is right with probability `chance`.
    pub fn goes_on(&self, full: &StepCosts, rows: usize, chance: f64) -> bool {
        let row_seconds = (full.seconds(rows + 1) - full.seconds(rows)).max(0.0);
        chance * self.all.value(PRIOR_MEAN) * full.seconds(1) > self.costs.seconds(1) + row_seconds
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Full steps of 10 ms and a little more for each row, shallow ones of `shallow_ms`.
    fn payoff(shallow_ms: u64) -> (StepCosts, ShallowPayoff) {
        let (mut full, mut payoff) = (StepCosts::default(), ShallowPayoff::default());
        for rows in 1..=16 {
            full.measured(rows, Duration::from_micros(10_000 + 400 * rows as u64));
            payoff.costs.measured(rows, Duration::from_millis(shallow_ms));
        }
        (full, payoff)
    }

    #[test]
    fn cheap_and_right_guesses_pay_and_others_do_not() {
        let (full, mut cheap) = payoff(3);
        assert_eq!(cheap.guesses(&full, 1, 1), SHALLOW_GUESSES);
        let (full, mut dear) = payoff(9);
        assert_eq!(dear.guesses(&full, 1, 1), 0);
        (0..50).for_each(|_| dear.observe(&[5, 5, 5], 3));
        assert_eq!(dear.guesses(&full, 1, 1), 0);
        (0..50).for_each(|_| cheap.observe(&[5, 5, 5], 0));
        assert_eq!(cheap.guesses(&full, 1, 1), 0);
        assert_eq!(cheap.guesses(&full, 1, 0), 0);
    }

    #[test]
    fn what_does_not_pay_is_tried_now_and_then() {
        let (full, mut payoff) = payoff(9);
        let guesses: Vec<usize> = (0..2 * PROBE_STEPS).map(|_| payoff.guesses(&full, 1, 1)).collect();
        assert_eq!(guesses.iter().filter(|&&guesses| guesses > 0).count(), 2);
        // Before any shallow step its cost is found out; before any full step nothing is.
        let mut unknown = ShallowPayoff::default();
        assert_eq!(unknown.guesses(&full, 1, 1), PROBE_GUESSES);
        assert_eq!(unknown.guesses(&StepCosts::default(), 1, 1), 0);
    }

    #[test]
    fn a_doubtful_chain_ends() {
        let (full, mut payoff) = payoff(3);
        assert!(payoff.goes_on(&full, 1, 0.9));
        assert!(!payoff.goes_on(&full, 1, 0.2));
        (0..50).for_each(|_| payoff.observe(&[0], 0));
        (0..50).for_each(|_| payoff.observe(&[5], 1));
        assert!(payoff.chance(class_of(0.1)) < 0.15 && payoff.chance(class_of(9.0)) > 0.9);
        assert_eq!((class_of(-1.0), class_of(f32::INFINITY)), (0, CLASSES - 1));
    }
}
