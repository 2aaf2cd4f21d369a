//! Names and texts in the remote store.

use zlrs_graph::Digest;
use zlrs_store::Purge;

/// The entry's name. The braces keep entry and withdrawal of one key on one node of a Cluster.
pub(crate) fn entry_name(prefix: &str, key: &Digest) -> String {
    format!("{prefix}:e:{{{}}}", key.to_hex())
}

/// The name of an entry's withdrawal.
pub(crate) fn withdrawal_name(prefix: &str, key: &Digest) -> String {
    format!("{prefix}:t:{{{}}}", key.to_hex())
}

/// The name of the list of news.
pub(crate) fn news_name(prefix: &str) -> String {
    format!("{prefix}:news")
}

/// What every machine has to hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// What is stored under a key, written at this time or earlier, is never served again.
    Withdrawn(Digest, u64),
    /// These entries, written at this time or earlier, are gone.
    Purged(Purge, u64),
}

impl News {
    /// As a line.
    pub fn to_text(&self) -> String {
        let (name, which, at_ms) = match self {
            Self::Withdrawn(key, at_ms) => ("withdrawn", key.to_hex(), at_ms),
            Self::Purged(purge, at_ms) => {
                let (name, which) = purge.parts();
                (name, which, at_ms)
            }
        };
        format!("{name} {at_ms} {which}")
    }

    /// Reads a line; none for one that is not ours.
    pub fn of_text(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ' ');
        let (name, at_ms, which) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?);
        if name == "withdrawn" {
            return Some(Self::Withdrawn(Digest::from_hex(which)?, at_ms));
        }
        Some(Self::Purged(Purge::of_parts(name, which)?, at_ms))
    }
}

#[cfg(test)]
mod tests {
    use zlrs_graph::Digest;
    use zlrs_store::Purge;

    use super::News;

    #[test]
    fn news_is_read_as_it_was_written_and_anything_else_is_none() {
        let name = Digest::of(b"x");
        let purges = [
            Purge::All,
            Purge::Tenant(name),
            Purge::Scope(name),
            Purge::Node(name),
            Purge::Entry(name),
            Purge::Tag(u64::MAX),
            Purge::WrittenBefore(7),
            Purge::Expired(8),
        ];
        let mut all: Vec<News> = purges.map(|purge| News::Purged(purge, 5)).to_vec();
        all.push(News::Withdrawn(name, 9));
        for news in all {
            assert_eq!(News::of_text(&news.to_text()), Some(news));
        }
        for bad in ["", "all", "all x ", "tenant 5 zz", "withdrawn 5 ", "nothing 5 6", "tag 1 -1"] {
            assert_eq!(News::of_text(bad), None, "{bad:?}");
        }
    }
}
