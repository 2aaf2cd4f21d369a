//! What an entry can be purged by beside its names: the model, and what was asked about.
//!
//! No text of a request is kept in the clear, so an entry carries keyed hashes of these texts; whoever purges by one
//! names it, and the same hash is looked up.

use std::collections::BTreeSet;

use zlrs_graph::Digest;
use zlrs_text::{Canon, Extractor, canonical};

use super::Graph;

/// Most tags of an entry; what goes past it cannot be purged by.
const TAGS: usize = 24;
/// Shortest word that counts as a name, characters.
const NAME_CHARS: usize = 2;

/// What an entry may be purged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// The model that was asked for, or that answered.
    Model,
    /// Something that the ask names: an order, a customer, a date.
    Entity,
    /// A fact of the operator's, `name=value`.
    Factor,
}

impl Topic {
    /// `model`, `entity` or `factor`.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Entity => "entity",
            Self::Factor => "factor",
        }
    }
}

/// The keyed hash of a text.
pub(super) fn tag(key: &[u8; 32], topic: Topic, text: &str) -> u64 {
    first_word(&Digest::keyed(key, [topic.title().as_bytes(), text.as_bytes()]))
}

fn first_word(digest: &Digest) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&digest.0[..8]);
    u64::from_le_bytes(word)
}

/// The entities of a text: its values, and every word that is written like a name or holds a digit. Linear.
pub(super) fn entities(extractor: &Extractor, text: &str) -> BTreeSet<String> {
    let form = extractor.form(text, Canon::C2);
    let values = form.atoms.iter().map(|atom| format!("{}:{}", atom.value.kind(), atom.value.base_key()));
    let plain = canonical(text, Canon::C1);
    let words = plain
        .split(|letter: char| !letter.is_alphanumeric() && letter != '-' && letter != '_')
        .map(|word| word.trim_matches(['-', '_']))
        .filter(|word| word.chars().count() >= NAME_CHARS)
        .filter(|word| word.contains(|letter: char| letter.is_uppercase() || letter.is_numeric()))
        .map(|word| format!("word:{}", word.to_lowercase()));
    values.chain(words).collect()
}

impl Graph {
    /// The tags of the operator's facts.
    pub(super) fn fact_tags(&self, facts: &[(String, String)]) -> Vec<u64> {
        facts
            .iter()
            .map(|(name, value)| tag(&self.tag_key, Topic::Factor, &format!("{name}={value}")))
            .collect()
    }

    /// What an answer to `ask` can be purged by; `facts` are tags already.
    pub(super) fn tags(&self, ask: &str, models: [&str; 2], facts: &[u64]) -> Vec<u64> {
        let models = models.into_iter().filter(|model| !model.is_empty());
        let models = models.map(|model| tag(&self.tag_key, Topic::Model, model));
        let entities = entities(&self.extractor, ask).into_iter();
        let entities = entities.map(|entity| tag(&self.tag_key, Topic::Entity, &entity));
        models
            .chain(facts.iter().copied())
            .chain(entities)
            .take(TAGS)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    /// What names the canonical entry of an ask by number: the first is carried by every answer to its wordings, with the
    /// second to know it by; the last by the entry itself.
    fn form_tags(&self, canonical_entry: &Digest) -> [u64; 3] {
        let name = self.tag_of(b"form", canonical_entry.as_bytes());
        [
            name,
            self.tag_of(b"names a form", &name.to_le_bytes()),
            self.tag_of(b"is a form", &name.to_le_bytes()),
        ]
    }

    fn tag_of(&self, what: &[u8], of: &[u8]) -> u64 {
        first_word(&Digest::keyed(&self.tag_key, [what, of]))
    }

    /// [`Graph::tags`] for an answer of the *same* route.
    pub(super) fn tags_same(&self, scope: &Digest, ask: &str, models: [&str; 2], facts: &[u64]) -> Vec<u64> {
        let mut tags = self.tags(ask, models, facts);
        if let Some((_, entry)) = self.canonical_of(scope, ask) {
            tags.extend(&self.form_tags(&entry)[..2]);
        }
        tags
    }

    /// [`Graph::tags`] for what the *canonical* route keeps.
    pub(super) fn tags_canonical(
        &self,
        canonical_entry: &Digest,
        ask: &str,
        models: [&str; 2],
        facts: &[u64],
    ) -> Vec<u64> {
        let mut tags = self.tags(ask, models, facts);
        tags.extend(&self.form_tags(canonical_entry)[2..]);
        tags
    }

    /// The tags of the canonical entries that answers with these tags belong to.
    pub(super) fn forms_named(&self, tags: &BTreeSet<u64>) -> Vec<u64> {
        tags.iter()
            .map(|name| name.to_le_bytes())
            .filter(|name| tags.contains(&self.tag_of(b"names a form", name)))
            .map(|name| self.tag_of(b"is a form", &name))
            .collect()
    }

    /// The tags that a purge by `text` looks for; entries with any of them go. None where an entity names nothing.
    pub fn purge_tags(&self, topic: Topic, text: &str) -> Vec<u64> {
        match topic {
            Topic::Model | Topic::Factor => vec![tag(&self.tag_key, topic, text)],
            Topic::Entity => {
                let found = entities(&self.extractor, text);
                // Its values say more than its words do.
                let has_values = found.iter().any(|entity| !entity.starts_with("word:"));
                let chosen = found.iter().filter(|entity| !has_values || !entity.starts_with("word:"));
                chosen.map(|entity| tag(&self.tag_key, topic, entity)).collect()
            }
        }
    }
}
