//! Lines for the operator's log. Nothing here writes: whoever owns the log takes them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Lines that are kept when nobody takes them; older ones go first.
const NOTICES_MAX: usize = 64;

/// A bounded list of lines that several threads add to.
#[derive(Clone, Default)]
pub struct Notices(Arc<Mutex<VecDeque<String>>>);

impl Notices {
    /// Adds a line.
    pub fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == NOTICES_MAX {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// Takes all lines, oldest first.
    pub fn take(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }
}
