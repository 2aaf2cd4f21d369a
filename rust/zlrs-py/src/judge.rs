//! A Python callable as a judge of two answers, and the pairs that measure one.

use pyo3::prelude::*;
use zlrs_store::{Judge, Verdict};
use zlrs_text::flips;

/// Calls it with the interpreter attached; whatever it raises is no verdict.
pub struct PyJudge {
    judge: Py<PyAny>,
}

impl PyJudge {
    pub const fn new(judge: Py<PyAny>) -> Self {
        Self { judge }
    }
}

impl Judge for PyJudge {
    fn verdict(&self, ask: &str, one: &str, other: &str) -> Verdict {
        Python::attach(|py| {
            let said = self.judge.call1(py, (ask, one, other)).and_then(|said| said.extract::<String>(py));
            match said.as_deref() {
                Ok("equivalent") => Verdict::Equivalent,
                Ok("different") => Verdict::Different,
                Ok("unsure") => Verdict::Unsure,
                _ => Verdict::Failed,
            }
        })
    }
}

/// Generated pairs of answers to one ask, (ask, one, other): those that say the same, or those that do not.
#[pyfunction]
pub fn answer_pairs(py: Python<'_>, same: bool) -> Vec<(String, String, String)> {
    py.detach(|| {
        let pairs = if same { flips::right_answers() } else { flips::wrong_answers() };
        pairs.into_iter().map(|pair| (pair.ask, pair.left, pair.right)).collect()
    })
}

/// What the rules alone say of two answers to an ask: `agree`, `contradict` or `undecided`.
#[pyfunction]
pub fn compare_answers(py: Python<'_>, ask: &str, one: &str, other: &str) -> &'static str {
    match py.detach(|| zlrs_text::agree(ask, one, other).agreement) {
        zlrs_text::Agreement::Agree => "agree",
        zlrs_text::Agreement::Contradict => "contradict",
        zlrs_text::Agreement::Undecided => "undecided",
    }
}

/// The 95 % upper limit of a share of which `seen` were seen in `of` trials (Clopper-Pearson).
#[pyfunction]
pub fn share_limit(seen: usize, of: usize) -> f64 {
    flips::upper_limit(seen, of)
}
