//! When the remote tier is left out. Pure: times come in.

use std::time::Duration;

/// Weight of the latest sample in the mean latency.
const WEIGHT: f64 = 0.2;

/// When it trips and for how long.
#[derive(Clone, Copy, Debug)]
pub struct BreakerRules {
    /// Failures in a row.
    pub failures: u32,
    /// Mean latency above which it trips, milliseconds.
    pub slow_ms: f64,
    /// Samples before the mean counts.
    pub samples: u32,
    /// The first pause; each further one is twice as long…
    pub pause_ms: u64,
    /// …up to this.
    pub longest_pause_ms: u64,
}

impl BreakerRules {
    /// For a deadline: three failures, or a mean of half the deadline over eight calls; a second to half a minute.
    pub fn of(deadline: Duration) -> Self {
        let slow_ms = deadline.as_secs_f64() * 500.0;
        Self { failures: 3, slow_ms, samples: 8, pause_ms: 1000, longest_pause_ms: 30_000 }
    }
}

/// The state.
#[derive(Clone, Copy, Debug)]
pub struct Breaker {
    rules: BreakerRules,
    failures: u32,
    samples: u32,
    mean_ms: f64,
    open_until_ms: u64,
    pause_ms: u64,
}

impl Breaker {
    /// Closed.
    pub fn new(rules: BreakerRules) -> Self {
        Self { rules, failures: 0, samples: 0, mean_ms: 0.0, open_until_ms: 0, pause_ms: rules.pause_ms }
    }

    /// Whether calls are made at `now_ms`. After a pause the next call is the probe.
    pub fn is_closed(&self, now_ms: u64) -> bool {
        now_ms >= self.open_until_ms
    }

    /// A call was answered after `ms` milliseconds.
    pub fn answered(&mut self, ms: f64, now_ms: u64) {
        self.failures = 0;
        self.samples = self.samples.saturating_add(1);
        self.mean_ms = if self.samples == 1 { ms } else { self.mean_ms + WEIGHT * (ms - self.mean_ms) };
        if self.samples >= self.rules.samples && self.mean_ms > self.rules.slow_ms {
            self.trip(now_ms);
        } else if ms <= self.rules.slow_ms {
            self.pause_ms = self.rules.pause_ms;
        }
    }

    /// A call failed or was given up.
    pub fn failed(&mut self, now_ms: u64) {
        self.failures += 1;
        // The probe after a pause: one failure is enough.
        if self.failures >= self.rules.failures || self.open_until_ms != 0 {
            self.trip(now_ms);
        }
    }

    fn trip(&mut self, now_ms: u64) {
        self.open_until_ms = now_ms.saturating_add(self.pause_ms);
        self.pause_ms = (self.pause_ms * 2).min(self.rules.longest_pause_ms);
        (self.failures, self.samples, self.mean_ms) = (0, 0, 0.0);
    }

    /// A probe was answered in time: as new.
    pub fn reset(&mut self) {
        *self = Self::new(self.rules);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Breaker, BreakerRules};

    fn breaker() -> Breaker {
        Breaker::new(BreakerRules::of(Duration::from_millis(25)))
    }

    #[test]
    fn three_failures_in_a_row_trip_it_and_pauses_double() {
        let mut breaker = breaker();
        for now_ms in [0, 1] {
            breaker.failed(now_ms);
            assert!(breaker.is_closed(now_ms));
        }
        breaker.failed(2);
        assert!(!breaker.is_closed(1001) && breaker.is_closed(1002));
        breaker.failed(1002);
        assert!(!breaker.is_closed(3001) && breaker.is_closed(3002), "the probe failed");
        for round in 0..10 {
            breaker.failed(10_000 + round * 100_000);
        }
        assert!(breaker.is_closed(910_000 + 30_000), "half a minute at most");
        breaker.reset();
        breaker.failed(950_000);
        assert!(breaker.is_closed(950_000), "as new");
    }

    #[test]
    fn slowness_trips_it_without_any_failure() {
        let mut breaker = breaker();
        for _ in 0..7 {
            breaker.answered(20.0, 0);
            assert!(breaker.is_closed(0));
        }
        breaker.answered(20.0, 0);
        assert!(!breaker.is_closed(999));
    }

    #[test]
    fn a_single_slow_answer_among_quick_ones_does_not() {
        let mut breaker = breaker();
        for turn in 0..1000 {
            breaker.answered(if turn % 20 == 0 { 24.0 } else { 0.3 }, turn);
            assert!(breaker.is_closed(turn));
        }
    }
}
