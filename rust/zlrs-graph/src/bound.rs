//! The bound on wrong answers per hit, valid at every moment at once.
//!
//! Trials come one after the other, each wrong with a probability that may depend on everything before it. For any
//! λ > 0 the process exp((1 − e^−λ)·Σpᵢ − λ·S) is a supermartingale that starts at 1, because
//! E[e^(−λX)] = 1 − p(1 − e^−λ) ≤ e^(−p(1 − e^−λ)). So is every average of such processes, and by Ville's inequality
//! it exceeds 1/α with probability at most α, ever. The sum Σpᵢ that makes it 1/α is therefore an upper limit that
//! may be looked at after each trial, with no correction for looking.
//!
//! The average is over λ = ∞, 2, 1 with weights 0.6, 0.2, 0.2; the first term, e^Σp, lives only while nothing was wrong.

/// Terms of the average with a finite λ: λ and its weight.
const FINITE: [(f64, f64); 2] = [(2.0, 0.2), (1.0, 0.2)];
/// Weight of λ = ∞.
const INFINITE_WEIGHT: f64 = 0.6;
/// How sure a bound is: it fails, ever, with at most this probability.
pub const ALPHA: f64 = 0.05;

/// How many wrong answers per hit are accepted before a route may serve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// 0.1 %
    #[default]
    Strict,
    /// 0.5 %
    Standard,
    /// 1 %
    Trial,
}

impl Preset {
    /// The limit as a rate.
    pub const fn limit(self) -> f64 {
        match self {
            Self::Strict => 0.001,
            Self::Standard => 0.005,
            Self::Trial => 0.01,
        }
    }
}

/// M(T) for `wrong` wrong trials.
fn evidence_against(sum: f64, wrong: u64) -> f64 {
    let wrong_count = wrong as f64;
    let finite: f64 = FINITE
        .iter()
        .map(|(lambda, weight)| weight * ((1.0 - (-lambda).exp()) * sum - lambda * wrong_count).exp())
        .sum();
    if wrong == 0 { INFINITE_WEIGHT.mul_add(sum.exp(), finite) } else { finite }
}

/// T*: the largest sum of error probabilities that `wrong` wrong trials do not rule out at `alpha`. Strictly
/// increasing in `wrong`. `alpha` is above 0 and below 1.
pub fn largest_sum(wrong: u64, alpha: f64) -> f64 {
    let target = 1.0 / alpha;
    // Above: one finite term alone reaches the target there. Below: M(0) is at most 1.
    let (lambda, weight) = FINITE[1];
    let mut high = ((target / weight).ln() + lambda * wrong as f64) / (1.0 - (-lambda).exp());
    let mut low = 0.0;
    loop {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            // The upper end: a limit is rounded away from zero.
            return high;
        }
        if evidence_against(middle, wrong) < target {
            low = middle;
        } else {
            high = middle;
        }
    }
}

/// U: the upper limit of the mean error rate of `trials` trials of which `wrong` were wrong; 1 where nothing is known.
pub fn upper_limit(trials: u64, wrong: u64, alpha: f64) -> f64 {
    if trials == 0 {
        return 1.0;
    }
    (largest_sum(wrong, alpha) / trials as f64).min(1.0)
}

/// The fewest trials with which U comes down to `limit`.
pub fn trials_needed(limit: f64, wrong: u64, alpha: f64) -> u64 {
    (largest_sum(wrong, alpha) / limit).ceil() as u64
}

/// The bound as it is printed: a comparator that misses up to `false_agree` of the wrong answers sees only the rest.
pub fn printed(upper: f64, false_agree: f64) -> f64 {
    (upper / (1.0 - false_agree)).min(1.0)
}
