//! Removing entries on an operator's word, and the record of it.

use std::sync::atomic::Ordering;

use super::{Graph, Topic, record};
use crate::{Purge, StoreError};

impl Graph {
    /// Removes entries; returns how many. With an answer goes what the *canonical* route keeps of it. Answers that were
    /// asked for before `now_ms` (Unix milliseconds) and come later are refused. The audit log says what was named, and
    /// how many went.
    ///
    /// # Errors
    /// When the store cannot write.
    pub fn purge(&self, what: Purge, now_ms: u64) -> Result<u64, StoreError> {
        let at_ms = self.purge_time(now_ms);
        let store = self.serving()?;
        let forms = match what {
            Purge::Entry(_) | Purge::Node(_) => self.forms_named(&store.tags_of(what)?),
            // Whatever else chooses an answer chooses what the canonical route keeps of it.
            _ => Vec::new(),
        };
        let mut removed = store.purge(what, at_ms)?;
        for form in forms {
            removed += store.purge(Purge::Tag(form), at_ms)?;
        }
        let (kind, which) = what.parts();
        self.keep_record(&record::purged(kind, &[which], removed, at_ms));
        Ok(removed)
    }

    /// Removes the entries with any of the tags that a text stands for; returns how many. None where it stands for
    /// nothing that entries are kept by.
    ///
    /// # Errors
    /// As for [`Graph::purge`].
    pub fn purge_topic(&self, topic: Topic, text: &str, now_ms: u64) -> Result<Option<u64>, StoreError> {
        let tags = self.purge_tags(topic, text);
        if text.is_empty() || tags.is_empty() {
            return Ok(None);
        }
        let at_ms = self.purge_time(now_ms);
        let mut removed = 0;
        for tag in &tags {
            removed += self.serving()?.purge(Purge::Tag(*tag), at_ms)?;
        }
        let named: Vec<String> = tags.iter().map(|tag| Purge::Tag(*tag).parts().1).collect();
        self.keep_record(&record::purged(topic.title(), &named, removed, at_ms));
        Ok(Some(removed))
    }

    /// A clock that was set back must not leave anything outside.
    fn purge_time(&self, now_ms: u64) -> u64 {
        now_ms.max(self.latest_ms.load(Ordering::Relaxed))
    }
}
