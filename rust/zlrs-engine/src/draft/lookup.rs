//! Guesses by looking up where the last tokens occurred before.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Cursor, DraftSource, Drafter, SuffixAutomaton};
use crate::prefix::Tenant;

/// Tokens of one sequence that are remembered; of a longer one the later half.
pub const TEXT_TOKENS: usize = 32_768;
/// Tokens of earlier answers that are remembered for a tenant; when they are more, the later half.
pub const ANSWER_TOKENS: usize = 8192;
/// Tenants whose answers are remembered; the one that asked longest ago is forgotten first.
pub const LEARNED_TENANTS: usize = 16;
/// Tokens read again when the answers have been put in order anew.
const REREAD_TOKENS: usize = 64;
/// Stands between answers; no token has this id.
const BORDER: u32 = u32::MAX;

/// Answers of one tenant.
#[derive(Debug, Default)]
struct Answers {
    automaton: SuffixAutomaton,
    /// Changes when old answers are dropped; cursors of another edition mean nothing.
    edition: u64,
}

fn lock(answers: &Mutex<Answers>) -> MutexGuard<'_, Answers> {
    answers.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Answers {
    fn learn(&mut self, answer: &[u32]) {
        let answer = &answer[answer.len().saturating_sub(ANSWER_TOKENS / 2)..];
        if self.automaton.text().len() + answer.len() + 1 > ANSWER_TOKENS {
            let text = std::mem::take(&mut self.automaton);
            let kept = text.text().len().saturating_sub(ANSWER_TOKENS / 2);
            for &token in &text.text()[kept..] {
                self.automaton.push(token);
            }
            self.edition += 1;
        }
        for &token in answer {
            self.automaton.push(token);
        }
        self.automaton.push(BORDER);
    }
}

/// Drafters over the own text of a sequence and its tenant's earlier answers. At most some 140 bytes for each of
/// [`TEXT_TOKENS`] tokens a sequence, and of [`ANSWER_TOKENS`] tokens for each of [`LEARNED_TENANTS`] tenants.
#[derive(Debug, Default)]
pub struct Lookup {
    answers: HashMap<Tenant, Arc<Mutex<Answers>>>,
    /// Least recently used first.
    order: VecDeque<Tenant>,
}

impl Lookup {
    fn of(&mut self, tenant: &Tenant) -> &Arc<Mutex<Answers>> {
        self.order.retain(|known| known != tenant);
        self.order.push_back(*tenant);
        if self.order.len() > LEARNED_TENANTS
            && let Some(oldest) = self.order.pop_front()
        {
            self.answers.remove(&oldest);
        }
        self.answers.entry(*tenant).or_default()
    }
}

impl DraftSource for Lookup {
    fn begin(&mut self, tenant: &Tenant) -> Box<dyn Drafter> {
        let answers = Arc::clone(self.of(tenant));
        let edition = lock(&answers).edition;
        Box::new(LookupDrafter {
            own: SuffixAutomaton::default(),
            edition,
            answers,
            cursor: Cursor::default(),
        })
    }

    fn learn(&mut self, tenant: &Tenant, answer: &[u32]) {
        if !answer.is_empty() {
            lock(self.of(tenant)).learn(answer);
        }
    }
}

struct LookupDrafter {
    own: SuffixAutomaton,
    answers: Arc<Mutex<Answers>>,
    edition: u64,
    /// The end of the sequence in the answers.
    cursor: Cursor,
}

impl Drafter for LookupDrafter {
    fn observe(&mut self, ids: &[u32]) {
        let answers = lock(&self.answers);
        if answers.edition != self.edition {
            self.edition = answers.edition;
            let text = self.own.text();
            self.cursor = text[text.len().saturating_sub(REREAD_TOKENS)..]
                .iter()
                .fold(Cursor::default(), |cursor, &token| answers.automaton.follow(cursor, token));
        }
        for &token in ids {
            self.cursor = answers.automaton.follow(self.cursor, token);
            self.own.push(token);
        }
        drop(answers);
        if self.own.text().len() > TEXT_TOKENS {
            let text = std::mem::take(&mut self.own);
            for &token in &text.text()[text.text().len() - TEXT_TOKENS / 2..] {
                self.own.push(token);
            }
        }
    }

    fn propose(&mut self, limit: usize, out: &mut Vec<u32>) -> usize {
        let before = out.len();
        let own = self.own.own_end();
        let answers = lock(&self.answers);
        // Of two equal matches the one in the conversation itself.
        if answers.edition == self.edition && self.cursor.length > own.length {
            answers.automaton.continuation(self.cursor, limit, out);
            let end = out[before..].iter().position(|&token| token == BORDER);
            out.truncate(end.map_or(out.len(), |end| before + end));
            if out.len() > before {
                return self.cursor.length;
            }
        }
        self.own.continuation(own, limit, out);
        own.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guesses(drafter: &mut dyn Drafter, limit: usize) -> (usize, Vec<u32>) {
        let mut out = Vec::new();
        (drafter.propose(limit, &mut out), out)
    }

    #[test]
    fn guesses_come_from_the_longer_match_and_never_cross_answers_or_tenants() {
        let (one, two) = (Tenant([1; 32]), Tenant([2; 32]));
        let mut source = Lookup::default();
        source.learn(&one, &[10, 11, 12, 13]);
        source.learn(&one, &[20, 21]);
        let mut drafter = source.begin(&one);
        drafter.observe(&[5, 10, 11]);
        assert_eq!(guesses(&mut *drafter, 8), (2, vec![12, 13]));
        drafter.observe(&[12, 13]);
        // What followed is the end of the answer.
        assert_eq!(guesses(&mut *drafter, 8).1, Vec::<u32>::new());
        drafter.observe(&[7, 10, 11]);
        assert_eq!(guesses(&mut *drafter, 3), (2, vec![12, 13, 7]));
        let mut other = source.begin(&two);
        other.observe(&[5, 10, 11]);
        assert_eq!(guesses(&mut *other, 8), (0, vec![]));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut source = Lookup::default();
        let tenant = Tenant::default();
        let mut drafter = source.begin(&tenant);
        for round in 0..40_u32 {
            let answer: Vec<u32> = (0..1000).map(|index| round * 1000 + index).collect();
            source.learn(&tenant, &answer);
            drafter.observe(&answer);
        }
        assert!(lock(&source.answers[&tenant]).automaton.text().len() <= ANSWER_TOKENS);
        drafter.observe(&[39_500, 39_501]);
        assert_eq!(guesses(&mut *drafter, 2), (2, vec![39_502, 39_503]));
        for number in 0..100_u8 {
            source.learn(&Tenant([number; 32]), &[1]);
        }
        assert_eq!((source.answers.len(), source.order.len()), (LEARNED_TENANTS, LEARNED_TENANTS));
    }
}
