//! How many guesses are worth their rows.
//!
//! A step of n rows takes C(n), measured; a guess is right with a probability that is measured too, by how much
//! speaks for it. The guesses of all sequences compete for the rows of a step: the likeliest first, as long as
//! tokens per second rise. Where nothing is likely enough nothing is guessed, so drafting switches itself off.

use std::time::Duration;

/// Most guesses for one sequence in one step.
pub const GUESSES_LIMIT: usize = 15;
/// Most rows of a step whose cost is remembered.
const MEASURED_ROWS: usize = 64;
/// Weight of the newest measurement.
const NEWEST: f64 = 0.15;
/// A measurement counts at most so many times what was expected: the machine may have done something else.
const OUTLIER: f64 = 2.0;
/// Until several sizes have been measured, one more row costs this share of a step of one row.
const ROW_SHARE: f64 = 0.25;
/// Gain below which nothing is guessed.
const LEAST_GAIN: f64 = 1.03;
/// Classes of matches, by the number of tokens that agree.
const CLASSES: usize = 6;
/// Share of right guesses expected of each class before anything is known.
const PRIOR: [f64; CLASSES] = [0.2, 0.4, 0.55, 0.7, 0.8, 0.88];
/// As how many observations an expectation counts.
const PRIOR_WEIGHT: f64 = 6.0;
/// Old observations lose weight by this with each new one of their class.
const MEMORY: f64 = 0.98;

fn class(agreeing: usize) -> usize {
    match agreeing {
        0 | 1 => 0,
        2 => 1,
        3 | 4 => 2,
        5..=8 => 3,
        9..=16 => 4,
        _ => 5,
    }
}

/// What steps have cost, by their rows.
#[derive(Debug, Clone)]
pub struct StepCosts {
    /// Seconds of steps of index + 1 rows; 0 where none was measured.
    seconds: [f64; MEASURED_ROWS],
}

impl Default for StepCosts {
    fn default() -> Self {
        Self { seconds: [0.0; MEASURED_ROWS] }
    }
}

impl StepCosts {
    /// A step of `rows` rows, all of which wanted logits, took so long.
    pub fn measured(&mut self, rows: usize, took: Duration) {
        let expected = self.seconds(rows);
        let Some(known) = rows.checked_sub(1).and_then(|index| self.seconds.get_mut(index)) else { return };
        let took = took.as_secs_f64();
        if *known == 0.0 {
            *known = if expected > 0.0 { took.min(OUTLIER * expected) } else { took };
        } else {
            *known += NEWEST * (took.min(OUTLIER * *known) - *known);
        }
    }

    /// Seconds a step of so many rows takes: measured, or a straight line through what was measured, never less
    /// than a smaller step; 0 when nothing was measured.
    pub fn seconds(&self, rows: usize) -> f64 {
        let at = |index: usize| self.seconds.get(index).copied().filter(|&seconds| seconds > 0.0);
        let index = rows.saturating_sub(1);
        if let Some(seconds) = at(index) {
            return seconds;
        }
        let below = (0..index.min(MEASURED_ROWS)).rev().find_map(|index| Some((index, at(index)?)));
        let above = (index + 1..MEASURED_ROWS).find_map(|index| Some((index, at(index)?)));
        match (below, above) {
            (None, None) => 0.0,
            (None, Some((_, seconds))) => seconds,
            (Some((low, less)), Some((high, more))) => {
                let share = (index - low) as f64 / (high - low) as f64;
                less + share * (more - less).max(0.0)
            }
            (Some((low, seconds)), None) => {
                let first = (0..low).find_map(|index| Some((index, at(index)?)));
                let slope = match first {
                    Some((first, less)) => ((seconds - less) / (low - first) as f64).max(0.0),
                    None => ROW_SHARE * seconds / (low + 1) as f64,
                };
                seconds + (index - low) as f64 * slope
            }
        }
    }
}

/// How often guesses were right, by how much spoke for them. With decaying memory.
#[derive(Debug, Clone, Copy)]
pub struct Acceptance {
    right: [f64; CLASSES],
    tried: [f64; CLASSES],
}

impl Default for Acceptance {
    fn default() -> Self {
        Self { right: [0.0; CLASSES], tried: [0.0; CLASSES] }
    }
}

impl Acceptance {
    /// Of `guessed` guesses for which `agreeing` tokens spoke the first `right` were right.
    pub fn observe(&mut self, agreeing: usize, guessed: usize, right: usize) {
        for index in 0..guessed.min(right + 1) {
            let class = class(agreeing + index);
            self.right[class] = self.right[class] * MEMORY + f64::from(u8::from(index < right));
            self.tried[class] = self.tried[class] * MEMORY + 1.0;
        }
    }

    /// The share of right guesses with so many agreeing tokens; without observations what `general` says.
    fn share(&self, agreeing: usize, general: f64) -> f64 {
        let class = class(agreeing);
        (self.right[class] + PRIOR_WEIGHT * general) / (self.tried[class] + PRIOR_WEIGHT)
    }
}

/// Guesses that one sequence could have verified.
#[derive(Debug, Clone, Copy)]
pub struct Offer {
    /// How many there are.
    pub guesses: usize,
    /// What speaks for the first of them; see [`Drafter::propose`](super::Drafter::propose).
    pub agreeing: usize,
    /// How the sequence's guesses did.
    pub acceptance: Acceptance,
}

/// Decides for one engine.
#[derive(Debug, Clone, Default)]
pub struct Payoff {
    /// What steps cost.
    pub costs: StepCosts,
    /// How the guesses of all sequences did.
    pub general: Acceptance,
}

impl Payoff {
    /// How many guesses of each offer to verify in a step that computes `rows` rows without them, each of which
    /// brings somebody one token further. O(guesses · log).
    pub fn lengths(&self, rows: usize, offers: &[Offer], out: &mut Vec<usize>) {
        out.clear();
        out.resize(offers.len(), 0);
        let base_seconds = self.costs.seconds(rows);
        if base_seconds <= 0.0 {
            return;
        }
        // A chain's probabilities fall, so the likeliest first takes every chain from its front.
        let mut chances: Vec<(f64, usize)> = Vec::new();
        for (index, offer) in offers.iter().enumerate() {
            let mut chance = 1.0;
            for guess in 0..offer.guesses.min(GUESSES_LIMIT) {
                let agreeing = offer.agreeing + guess;
                let general = self.general.share(agreeing, PRIOR[class(agreeing)]);
                chance *= offer.acceptance.share(agreeing, general);
                chances.push((chance, index));
            }
        }
        chances.sort_by(|left, right| right.0.total_cmp(&left.0));
        let base = rows as f64 / base_seconds;
        let (mut tokens, mut best, mut taken) = (rows as f64, base * LEAST_GAIN, 0);
        for (count, (chance, _)) in chances.iter().enumerate() {
            tokens += chance;
            let rate = tokens / self.costs.seconds(rows + count + 1).max(base_seconds);
            if rate > best {
                (best, taken) = (rate, count + 1);
            }
        }
        for (_, index) in &chances[..taken] {
            out[*index] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payoff(seconds_of: impl Fn(usize) -> f64) -> Payoff {
        let mut payoff = Payoff::default();
        for rows in 1..=32 {
            payoff.costs.measured(rows, Duration::from_secs_f64(seconds_of(rows)));
        }
        payoff
    }

    fn lengths(payoff: &Payoff, rows: usize, offers: &[Offer]) -> Vec<usize> {
        let mut out = Vec::new();
        payoff.lengths(rows, offers, &mut out);
        out
    }

    const STRONG: Offer =
        Offer { guesses: 8, agreeing: 20, acceptance: Acceptance { right: [0.0; 6], tried: [0.0; 6] } };

    #[test]
    fn free_rows_are_used_and_dear_ones_are_not() {
        assert_eq!(lengths(&payoff(|_| 0.01), 1, &[STRONG]), [8]);
        assert_eq!(lengths(&payoff(|rows| 0.01 * rows as f64), 1, &[STRONG]), [0]);
        let some = lengths(&payoff(|rows| 0.01 + 0.004 * rows as f64), 1, &[STRONG])[0];
        assert!((1..8).contains(&some), "{some}");
        // Nothing is known of costs.
        assert_eq!(lengths(&Payoff::default(), 1, &[STRONG]), [0]);
    }

    #[test]
    fn the_likelier_guesses_come_first() {
        let weak = Offer { agreeing: 1, ..STRONG };
        let both = lengths(&payoff(|rows| 0.01 + 0.002 * rows as f64), 2, &[weak, STRONG]);
        assert!(both[1] > both[0], "{both:?}");
    }

    #[test]
    fn wrong_guesses_switch_it_off_and_right_ones_on_again() {
        let mut payoff = payoff(|rows| 0.01 + 0.003 * rows as f64);
        assert!(lengths(&payoff, 1, &[STRONG])[0] > 0);
        let mut offer = STRONG;
        for _ in 0..60 {
            offer.acceptance.observe(20, 4, 0);
            payoff.general.observe(20, 4, 0);
        }
        assert_eq!(lengths(&payoff, 1, &[offer]), [0]);
        for _ in 0..60 {
            offer.acceptance.observe(20, 4, 4);
        }
        assert!(lengths(&payoff, 1, &[offer])[0] > 0);
    }

    #[test]
    fn costs_between_measurements_lie_between_them() {
        let mut costs = StepCosts::default();
        assert_eq!(costs.seconds(3), 0.0);
        costs.measured(1, Duration::from_millis(10));
        assert!((costs.seconds(2) - 0.0125).abs() < 1e-9);
        costs.measured(5, Duration::from_millis(18));
        assert!((costs.seconds(3) - 0.014).abs() < 1e-9);
        assert!((costs.seconds(9) - 0.026).abs() < 1e-9);
        // One interruption by something else does not count whole.
        costs.measured(1, Duration::from_secs(5));
        assert!(costs.seconds(1) < 0.012);
        costs.measured(500, Duration::from_secs(1));
        costs.measured(0, Duration::from_secs(1));
    }
}
