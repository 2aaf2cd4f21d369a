//! The freshness alarm: an average over thousands of good trials hides that things have just gone bad.
//!
//! A Shiryaev–Roberts statistic: R ← (1 + R)·L, where L says how much more likely a trial is at a bad rate than at
//! the accepted one. At an error rate of 0.1 % the mean of L is 1, so R − n is a martingale and the mean number of
//! trials between two false alarms is at least the threshold; below 0.1 % it is longer.

use serde::{Deserialize, Serialize};

/// What an error multiplies R by, and what a clean trial does.
const AFTER_ERROR: f64 = 10.0;
const AFTER_CLEAN: f64 = 0.991;
/// R from here on is an alarm.
pub const ALARM_THRESHOLD: f64 = 10_000.0;

/// The statistic of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Alarm(f64);

impl Alarm {
    /// Takes in one trial; true when it raises the alarm. The statistic then starts again.
    pub fn observe(&mut self, is_wrong: bool) -> bool {
        self.0 = (1.0 + self.0) * if is_wrong { AFTER_ERROR } else { AFTER_CLEAN };
        let is_raised = self.0 >= ALARM_THRESHOLD;
        if is_raised {
            self.0 = 0.0;
        }
        is_raised
    }

    /// R.
    pub const fn value(self) -> f64 {
        self.0
    }
}
