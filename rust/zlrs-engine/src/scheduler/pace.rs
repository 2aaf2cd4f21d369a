//! How long steps may be: a request that is cancelled ends with its step, so a step that several share is short.

use std::time::Duration;

use crate::plan::Candidate;

/// Longest step that computes rows of several requests, as far as can be foreseen. One request's own step ends
/// within a layer of its cancellation and may be longer.
pub(super) const SHARED_STEP: Duration = Duration::from_millis(200);
/// Fewest rows a step is cut to: with less, prompts would take much longer for it.
const LEAST_ROWS: usize = 32;
/// Weight of the newest measurement.
const NEWEST: f64 = 0.2;

/// What rows of prompts have cost.
#[derive(Debug, Default)]
pub(super) struct Pace {
    row_seconds: f64,
}

impl Pace {
    /// A step of so many rows took so long.
    pub fn measured(&mut self, rows: usize, took: Duration) {
        if rows >= LEAST_ROWS {
            let each = took.as_secs_f64() / rows as f64;
            let weight = if self.row_seconds == 0.0 { 1.0 } else { NEWEST };
            self.row_seconds += weight * (each - self.row_seconds);
        }
    }

    /// Cuts the rows of prompts, the weakest claims first, so that a step that several share stays short.
    pub fn shorten(&self, candidates: &[Candidate], rows: &mut [usize]) {
        let sharers = rows.iter().filter(|&&rows| rows > 0).count();
        if sharers < 2 || self.row_seconds <= 0.0 {
            return;
        }
        let most = ((SHARED_STEP.as_secs_f64() / self.row_seconds) as usize).max(LEAST_ROWS);
        let mut over = rows.iter().sum::<usize>().saturating_sub(most);
        for (rows, _) in rows.iter_mut().zip(candidates).rev().filter(|(_, candidate)| !candidate.decoding) {
            let cut = over.min(*rows);
            *rows -= cut;
            over -= cut;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMPT: Candidate = Candidate { pending: 500, guesses: 0, decoding: false };
    const ANSWER: Candidate = Candidate { pending: 1, guesses: 0, decoding: true };

    #[test]
    fn steps_of_several_are_short_and_those_of_one_are_not() {
        let mut pace = Pace::default();
        let shortened = |pace: &Pace, candidates: &[Candidate], rows: &[usize]| {
            let mut rows = rows.to_vec();
            pace.shorten(candidates, &mut rows);
            rows
        };
        let three = [ANSWER, PROMPT, PROMPT];
        // Nothing is known yet.
        assert_eq!(shortened(&pace, &three, &[1, 100, 155]), [1, 100, 155]);
        pace.measured(256, Duration::from_millis(512));
        assert_eq!(shortened(&pace, &three, &[1, 100, 155]), [1, 99, 0]);
        assert_eq!(shortened(&pace, &three, &[1, 20, 30]), [1, 20, 30]);
        assert_eq!(shortened(&pace, &[PROMPT, PROMPT], &[256, 0]), [256, 0]);
        // Not slower than with the fewest rows, however slow the machine.
        pace.measured(256, Duration::from_secs(500));
        assert_eq!(shortened(&pace, &[PROMPT, PROMPT], &[200, 56]), [32, 0]);
    }
}
