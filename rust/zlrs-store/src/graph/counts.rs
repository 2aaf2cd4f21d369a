//! What a graph counts, and what it tells of itself.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Graph;
use crate::audit::Audit;

/// What happened since the graph was opened.
#[derive(Default)]
pub(super) struct Counts {
    pub hits: AtomicU64,
    pub misses: AtomicU64,
    pub skipped: AtomicU64,
    pub stored: AtomicU64,
    pub refused: AtomicU64,
    pub canonical_hits: AtomicU64,
    pub edge_hits: AtomicU64,
    pub edge_comparisons: AtomicU64,
    pub learned: AtomicU64,
    pub trials: AtomicU64,
    pub trials_wrong: AtomicU64,
    pub rechecks_due: AtomicU64,
    pub rechecks_agreed: AtomicU64,
    pub rechecks_contradicted: AtomicU64,
    pub rechecks_undecided: AtomicU64,
    pub rechecks_inconclusive: AtomicU64,
    pub judge_calls: AtomicU64,
    pub judge_ms: AtomicU64,
    pub judge_equivalent: AtomicU64,
    pub judge_different: AtomicU64,
    pub judge_unsure: AtomicU64,
    pub judge_failed: AtomicU64,
}

impl Graph {
    /// Counters and sizes, each name once.
    pub fn stats(&self) -> Vec<(&'static str, u64)> {
        let store = self.store.as_ref().map(|store| store.stats()).unwrap_or_default();
        let (records, dropped_records) = self.audit.as_ref().map(Audit::counts).unwrap_or_default();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        vec![
            ("hits", count(&self.counts.hits)),
            ("misses", count(&self.counts.misses)),
            ("skipped", count(&self.counts.skipped)),
            ("stored", count(&self.counts.stored)),
            ("refused", count(&self.counts.refused)),
            ("canonical_hits", count(&self.counts.canonical_hits)),
            ("edge_hits", count(&self.counts.edge_hits)),
            ("edge_comparisons", count(&self.counts.edge_comparisons)),
            ("forms", self.forms.len()),
            ("learned", count(&self.counts.learned)),
            ("trials", count(&self.counts.trials)),
            ("trials_wrong", count(&self.counts.trials_wrong)),
            ("rechecks_due", count(&self.counts.rechecks_due)),
            ("rechecks_agreed", count(&self.counts.rechecks_agreed)),
            ("rechecks_contradicted", count(&self.counts.rechecks_contradicted)),
            ("rechecks_undecided", count(&self.counts.rechecks_undecided)),
            ("rechecks_inconclusive", count(&self.counts.rechecks_inconclusive)),
            ("judge_calls", count(&self.counts.judge_calls)),
            ("judge_ms", count(&self.counts.judge_ms)),
            ("judge_equivalent", count(&self.counts.judge_equivalent)),
            ("judge_different", count(&self.counts.judge_different)),
            ("judge_unsure", count(&self.counts.judge_unsure)),
            ("judge_failed", count(&self.counts.judge_failed)),
            ("entries", store.entries),
            ("bytes", store.bytes),
            ("cached_bodies", store.cached_bodies),
            ("cached_bytes", store.cached_bytes),
            ("lookups_found", store.found),
            ("lookups_absent", store.absent),
            ("lookups_slow", store.slow),
            ("lookups_behind", store.behind),
            ("corrupt", store.corrupt),
            ("committed", store.committed),
            ("dropped", store.dropped),
            ("evicted", store.evicted),
            ("tombstones", store.tombstones),
            ("untold", store.untold),
            ("audit_records", records),
            ("audit_dropped", dropped_records),
        ]
    }
}
