//! What a head sees of a row.

use zlrs_kernels::{Isa, exp};

use super::followers::{FOLLOWERS_LIMIT, Followers};

/// Values a head sees.
pub const FEATURES: usize = 12;
/// Most candidates that every row has.
pub const SHORTLIST_LIMIT: usize = 12;
/// All candidates of a row.
const CANDIDATES: usize = SHORTLIST_LIMIT + FOLLOWERS_LIMIT;
/// What a gap is where there is no second candidate.
const NO_GAP: f32 = 0.0;

/// One row's.
pub type Features = [f32; FEATURES];

/// A row at a probe.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Its state.
    pub state: &'a [f32],
    /// Its state at the probe before, or its embedding.
    pub before: &'a [f32],
    /// Its candidate there, as an index; none at the first probe.
    pub best_before: Option<usize>,
    /// Logits of the candidates at this state: those of the shortlist, then those of the followers.
    pub logits: &'a [f32],
    /// How many of them are of the shortlist.
    pub shortlist: usize,
    /// The candidates from the sequence itself.
    pub followers: &'a Followers,
    /// Its absolute position.
    pub position: u32,
}

/// The features, and the index of the best candidate:
/// 0 margin of the best over the second, 1 over the third, 2 over the mean; 3 the share of its exponential;
/// 4 whether it was the best at the probe before; 5 cosine of the states, 6 length of their difference over that of
/// the state, 7 ratio of their lengths; 8 position, logarithmic; 9 tokens that the sequence's end has in common with
/// an earlier place; 10 whether the best candidate is a follower, 11 margin of the best follower over the best of the
/// shortlist.
pub fn features(isa: Isa, view: &View<'_>) -> (Features, usize) {
    let logits = view.logits;
    let mut order = [(0.0_f32, 0_usize); 3];
    let mut known = 0;
    for (index, &logit) in logits.iter().enumerate() {
        // Ties go to the candidate that comes first.
        let place = order[..known].iter().position(|&(other, _)| logit > other).unwrap_or(known);
        if place < order.len() {
            order[place..].rotate_right(1);
            order[place] = (logit, index);
            known = (known + 1).min(order.len());
        }
    }
    let (best, best_index) = order[0];
    let gap = |place: usize| if place < known { best - order[place].0 } else { NO_GAP };
    let mut shares = [0.0; CANDIDATES];
    let shares = &mut shares[..logits.len().min(CANDIDATES)];
    shares.iter_mut().zip(logits).for_each(|(share, logit)| *share = logit - best);
    exp(isa, shares);
    let total: f32 = shares.iter().sum();
    let mean = logits.iter().sum::<f32>() / logits.len().max(1) as f32;
    let (of_shortlist, of_followers) = logits.split_at(view.shortlist.min(logits.len()));
    let largest = |logits: &[f32]| logits.iter().copied().reduce(f32::max);
    let margin = match (largest(of_followers), largest(of_shortlist)) {
        (Some(follower), Some(other)) => follower - other,
        _ => NO_GAP,
    };
    let (own, before) = (dot(view.state, view.state), dot(view.before, view.before));
    let cross = dot(view.state, view.before);
    // |a − b|² = |a|² + |b|² − 2ab, never below zero.
    let change = (own + before - 2.0 * cross).max(0.0);
    let tiny = f32::MIN_POSITIVE;
    let features = [
        gap(1),
        gap(2),
        best - mean,
        1.0 / total.max(1.0),
        f32::from(u8::from(view.best_before == Some(best_index))),
        cross / (own * before).sqrt().max(tiny),
        (change / own.max(tiny)).sqrt(),
        (before / own.max(tiny)).sqrt(),
        (view.position + 1).ilog2() as f32,
        view.followers.match_length as f32,
        f32::from(u8::from(best_index >= view.shortlist)),
        margin,
    ];
    (features, best_index)
}

/// The product of two vectors in eight lanes and a fixed tree: the same bits on every machine.
pub fn dot(left: &[f32], right: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; 8];
    let (left_chunks, right_chunks) = (left.chunks_exact(8), right.chunks_exact(8));
    let rest = left_chunks.remainder().iter().zip(right_chunks.remainder());
    for (left, right) in left_chunks.zip(right_chunks) {
        for lane in 0..8 {
            lanes[lane] += left[lane] * right[lane];
        }
    }
    for (lane, (left, right)) in rest.enumerate() {
        lanes[lane] += left * right;
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + b) + (c + d)) + ((e + f) + (g + h))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(logits: &[f32], shortlist: usize, best_before: Option<usize>) -> (Features, usize) {
        let followers = Followers::of(&[1, 2, 1]);
        let view = View {
            state: &[3.0, 0.0, 4.0],
            before: &[3.0, 0.0, 0.0],
            best_before,
            logits,
            shortlist,
            followers: &followers,
            position: 6,
        };
        features(Isa::Naive, &view)
    }

    #[test]
    fn margins_changes_position_and_agreement() {
        let (features, best) = of(&[1.0, 4.0, 2.0, 6.0], 3, Some(3));
        assert_eq!(best, 3);
        assert_eq!(features[..3], [2.0, 4.0, 2.75]);
        let share = 1.0 / (1.0 + (-2.0_f32).exp() + (-4.0_f32).exp() + (-5.0_f32).exp());
        assert!((features[3] - share).abs() < 1e-6);
        assert_eq!(features[4], 1.0);
        assert!((features[5] - 0.6).abs() < 1e-6 && (features[6] - 0.8).abs() < 1e-6);
        assert!((features[7] - 0.6).abs() < 1e-6);
        assert_eq!(features[8..], [2.0, 1.0, 1.0, 2.0]);
    }

    #[test]
    fn few_candidates_and_ties() {
        let (features, best) = of(&[2.0], 1, None);
        assert_eq!((best, features[0], features[1], features[4], features[11]), (0, 0.0, 0.0, 0.0, 0.0));
        assert_eq!(of(&[2.0, 2.0], 1, None).1, 0, "the first of equals");
        assert!(of(&[], 0, None).0.iter().all(|value| value.is_finite()));
    }
}
