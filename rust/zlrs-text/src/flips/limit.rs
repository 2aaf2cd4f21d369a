//! The exact one-sided binomial limit.

/// The upper 95 % limit (Clopper and Pearson) of a rate, after `wrong` of `trials`: the largest rate that would still
/// give so few with a probability of 5 %. 1 where there were no trials. O(`wrong`) a step of a bisection.
#[must_use]
pub fn upper_limit(wrong: usize, trials: usize) -> f64 {
    if wrong >= trials {
        return 1.0;
    }
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    for _ in 0..200 {
        let rate = f64::midpoint(low, high);
        if at_most(wrong, trials, rate) > 0.05 { low = rate } else { high = rate }
    }
    high
}

/// P(X ≤ `wrong`) for X binomial.
fn at_most(wrong: usize, trials: usize, rate: f64) -> f64 {
    let (n, log_yes, log_no) = (trials as f64, rate.ln(), (-rate).ln_1p());
    let (mut log_choose, mut sum) = (0.0_f64, 0.0_f64);
    for k in 0..=wrong {
        let k = k as f64;
        sum += (log_choose + k * log_yes + (n - k) * log_no).exp();
        log_choose += ((n - k) / (k + 1.0)).ln();
    }
    sum
}
