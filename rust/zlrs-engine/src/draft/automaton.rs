//! The suffix automaton of a growing text of tokens: where has what was said last been said before?
//!
//! Blumer et al., "The smallest automaton recognizing the subwords of a text", 1985; its use for drafting is that
//! of Hu et al., "SAM Decoding: Speculative Decoding via Suffix Automaton", 2024, here with the latest occurrence
//! of the longest match.

const ROOT: u32 = 0;

/// States whose place is moved to the newest occurrence when a token comes: the longest matches, which are the
/// ones asked for.
const MOVED_STATES: usize = 8;

#[derive(Debug, Clone)]
struct State {
    /// Length of its longest string.
    length: u32,
    /// The state of its longest suffix that occurs elsewhere too.
    link: u32,
    /// Where an occurrence of its strings ends: index of the token after it.
    end: u32,
    /// (token, state), ascending.
    edges: Vec<(u32, u32)>,
}

/// A match: the end of some text, as far back as it occurs in the automaton's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor {
    state: u32,
    /// Tokens that agree.
    pub length: usize,
}

/// All substrings of a text. About 140 bytes a token; appending is O(1) amortised.
#[derive(Debug, Clone)]
pub struct SuffixAutomaton {
    text: Vec<u32>,
    states: Vec<State>,
    last: u32,
}

impl Default for SuffixAutomaton {
    fn default() -> Self {
        let root = State { length: 0, link: ROOT, end: 0, edges: Vec::new() };
        Self { text: Vec::new(), states: vec![root], last: ROOT }
    }
}

impl SuffixAutomaton {
    /// Tokens so far.
    pub fn text(&self) -> &[u32] {
        &self.text
    }

    fn state(&self, index: u32) -> &State {
        &self.states[index as usize]
    }

    fn step(&self, state: u32, token: u32) -> Option<u32> {
        let edges = &self.state(state).edges;
        edges.binary_search_by_key(&token, |&(token, _)| token).ok().map(|index| edges[index].1)
    }

    fn set_edge(&mut self, state: u32, token: u32, to: u32) {
        let edges = &mut self.states[state as usize].edges;
        match edges.binary_search_by_key(&token, |&(token, _)| token) {
            Ok(index) => edges[index].1 = to,
            Err(index) => edges.insert(index, (token, to)),
        }
    }

    /// Appends a token.
    pub fn push(&mut self, token: u32) {
        self.move_ends();
        self.text.push(token);
        let (length, end) = (self.state(self.last).length + 1, self.text.len() as u32);
        let new = self.states.len() as u32;
        self.states.push(State { length, link: ROOT, end, edges: Vec::new() });
        let mut at = self.last;
        self.last = new;
        let next = loop {
            if let Some(next) = self.step(at, token) {
                break next;
            }
            self.set_edge(at, token, new);
            if at == ROOT {
                return;
            }
            at = self.state(at).link;
        };
        self.states[new as usize].link = if self.state(next).length == self.state(at).length + 1 {
            next
        } else {
            self.split(at, token, next)
        };
    }

    /// Separates the strings of `next` that are as long as one more than those of `at`, which now occur in more
    /// places than the longer ones.
    fn split(&mut self, mut at: u32, token: u32, next: u32) -> u32 {
        let copy = self.states.len() as u32;
        let mut state = self.state(next).clone();
        state.length = self.state(at).length + 1;
        self.states.push(state);
        self.states[next as usize].link = copy;
        while self.step(at, token) == Some(next) {
            self.set_edge(at, token, copy);
            if at == ROOT {
                break;
            }
            at = self.state(at).link;
        }
        copy
    }

    /// The text's end becomes the place of its longest suffixes, now that something will follow it.
    fn move_ends(&mut self) {
        let end = self.text.len() as u32;
        let mut at = self.state(self.last).link;
        for _ in 0..MOVED_STATES {
            if at == ROOT {
                return;
            }
            self.states[at as usize].end = end;
            at = self.state(at).link;
        }
    }

    /// The end of the text itself, as far back as it occurred before.
    pub fn own_end(&self) -> Cursor {
        let state = self.state(self.last).link;
        Cursor { state, length: self.state(state).length as usize }
    }

    /// The match after one more token of the text that is followed.
    pub fn follow(&self, mut cursor: Cursor, token: u32) -> Cursor {
        cursor = self.narrowed(cursor);
        loop {
            if let Some(state) = self.step(cursor.state, token) {
                return Cursor { state, length: cursor.length + 1 };
            }
            if cursor.state == ROOT {
                return Cursor::default();
            }
            let state = self.state(cursor.state).link;
            cursor = Cursor { state, length: self.state(state).length as usize };
        }
    }

    /// States are split as the text grows; the shorter strings are then those of the link.
    fn narrowed(&self, mut cursor: Cursor) -> Cursor {
        while cursor.state != ROOT {
            let link = self.state(cursor.state).link;
            if cursor.length > self.state(link).length as usize {
                break;
            }
            cursor.state = link;
        }
        cursor
    }

    /// Appends up to `limit` tokens that followed the match the last time. A match that overlaps what follows it
    /// goes on repeating itself.
    pub fn continuation(&self, cursor: Cursor, limit: usize, out: &mut Vec<u32>) {
        if cursor.length == 0 {
            return;
        }
        let (first, before) = (self.state(self.narrowed(cursor).state).end as usize, out.len());
        for index in first..first + limit {
            let token = match self.text.get(index) {
                Some(&token) => token,
                None if first < self.text.len() => out[before + index - self.text.len()],
                None => return,
            };
            out.push(token);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Length of the longest suffix of `ids` that occurs in `text`, by trying.
    fn longest(text: &[u32], ids: &[u32]) -> usize {
        (0..=ids.len())
            .rev()
            .find(|&length| {
                length == 0 || text.windows(length).any(|window| window == &ids[ids.len() - length..])
            })
            .unwrap_or(0)
    }

    proptest! {
        #[test]
        fn matches_are_the_longest_there_are(
            text in proptest::collection::vec(0_u32..4, 0..60), other in proptest::collection::vec(0_u32..5, 0..40),
        ) {
            let mut automaton = SuffixAutomaton::default();
            let mut cursor = Cursor::default();
            // Text and what is compared with it grow in turn: a match survives the automaton's changes.
            for index in 0..text.len().max(other.len()) {
                if let Some(&token) = text.get(index) {
                    automaton.push(token);
                    let known = &text[..=index];
                    // An earlier occurrence may overlap the end, so it is looked for in all but the last token.
                    let own = automaton.own_end();
                    prop_assert_eq!(own.length, longest(&known[..index], known));
                    let mut next = Vec::new();
                    automaton.continuation(own, 5, &mut next);
                    prop_assert_eq!(next.len(), if own.length == 0 { 0 } else { 5 });
                    if own.length > 0 {
                        let suffix = &known[known.len() - own.length..];
                        let followed: Vec<u32> = [suffix, &next[..1]].concat();
                        prop_assert!(known.windows(followed.len()).any(|window| window == &followed[..]));
                    }
                }
                if let Some(&token) = other.get(index) {
                    cursor = automaton.follow(cursor, token);
                    let known = &text[..text.len().min(index + 1)];
                    prop_assert!(cursor.length <= longest(known, &other[..=index]));
                }
            }
            prop_assert_eq!(automaton.text(), &text[..]);
            prop_assert!(automaton.states.len() <= 2 * text.len().max(1));
            let end = other.iter().fold(Cursor::default(), |cursor, &token| automaton.follow(cursor, token));
            prop_assert_eq!(end.length, longest(&text, &other));
        }
    }

    #[test]
    fn the_latest_occurrence_goes_on_and_a_period_repeats() {
        let of = |text: &[u32]| {
            let mut automaton = SuffixAutomaton::default();
            for &token in text {
                automaton.push(token);
            }
            automaton
        };
        let automaton = of(&[1, 2, 3, 9, 1, 2, 4, 9, 1, 2]);
        let mut out = Vec::new();
        automaton.continuation(automaton.own_end(), 3, &mut out);
        assert_eq!((automaton.own_end().length, out), (3, vec![4, 9, 1]));
        let automaton = of(&[5, 6, 7, 6, 7, 6, 7]);
        let mut out = Vec::new();
        automaton.continuation(automaton.own_end(), 6, &mut out);
        assert_eq!(out, [6, 7, 6, 7, 6, 7]);
    }
}
