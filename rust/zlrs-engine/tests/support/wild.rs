//! A drafter that is mostly wrong.

use zlrs_engine::Tenant;
use zlrs_engine::draft::{DraftSource, Drafter};

/// Guesses by a fixed list, most of them wrong.
pub struct Wild(pub Vec<u32>);

impl DraftSource for Wild {
    fn begin(&mut self, _: &Tenant) -> Box<dyn Drafter> {
        Box::new(Wild(self.0.clone()))
    }
    fn learn(&mut self, _: &Tenant, _: &[u32]) {}
}

impl Drafter for Wild {
    fn observe(&mut self, ids: &[u32]) {
        let turn = ids.len() % self.0.len();
        self.0.rotate_left(turn);
    }
    fn propose(&mut self, limit: usize, out: &mut Vec<u32>) -> usize {
        out.extend(self.0.iter().copied().take(limit));
        3
    }
}
