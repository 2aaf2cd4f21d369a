//! Candidates from the sequence itself: what came after earlier places like this one.

/// Most candidates.
pub const FOLLOWERS_LIMIT: usize = 4;
/// How far back is looked.
const WINDOW: usize = 512;
/// Longest match that is counted.
const MATCH_LIMIT: usize = 8;

/// What followed earlier occurrences of the last token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Followers {
    ids: [u32; FOLLOWERS_LIMIT],
    count: usize,
    /// Tokens that the longest match has in common with the end of the sequence.
    pub match_length: usize,
}

impl Followers {
    /// Of the last token of `tokens`, the most recent occurrences first and, before all, the one whose beginning
    /// agrees longest. A function of the tokens alone. O(512).
    pub fn of(tokens: &[u32]) -> Self {
        let mut found = Self::default();
        let Some((&last, before)) = tokens.split_last() else { return found };
        let start = before.len().saturating_sub(WINDOW);
        let mut best = None;
        for place in (start..before.len()).rev().filter(|&place| tokens[place] == last) {
            let common = tokens[..=place].iter().rev().zip(tokens.iter().rev());
            let length = common.take(MATCH_LIMIT).take_while(|(left, right)| left == right).count();
            if length > found.match_length {
                found.match_length = length;
                best = Some(tokens[place + 1]);
            }
            found.add(tokens[place + 1]);
            if found.count == FOLLOWERS_LIMIT {
                break;
            }
        }
        if let Some(place) = best.and_then(|best| found.ids().iter().position(|&id| id == best)) {
            found.ids.swap(0, place);
        }
        found
    }

    /// The candidates, each once.
    pub fn ids(&self) -> &[u32] {
        &self.ids[..self.count]
    }

    fn add(&mut self, id: u32) {
        if self.count < FOLLOWERS_LIMIT && !self.ids().contains(&id) {
            self.ids[self.count] = id;
            self.count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_match_comes_first() {
        let found = Followers::of(&[1, 2, 3, 9, 2, 4, 1, 2, 5, 3, 1, 2]);
        assert_eq!((found.ids(), found.match_length), (&[5, 4, 3][..], 2));
        assert_eq!(Followers::of(&[7, 8]), Followers::default());
        assert_eq!(Followers::of(&[]), Followers::default());
        assert_eq!(Followers::of(&[6, 6, 6]).ids(), [6]);
    }

    #[test]
    fn only_so_far_back() {
        let mut tokens = vec![1, 2];
        tokens.extend(std::iter::repeat_n(3, WINDOW));
        tokens.push(1);
        assert_eq!(Followers::of(&tokens).ids(), [] as [u32; 0]);
    }
}
