//! The sampler of one request: parameters, tokens seen, buffers that are reused.

use std::cell::RefCell;

use zlrs_kernels::{Isa, largest, weights};

use super::{Sampling, SamplingError, philox::uniform};

/// For top-p, the likeliest tokens are looked for among logits within so many temperatures of the largest; if they
/// are not enough, within four times as many.
const TOP_P_REACH: f64 = 6.0;

thread_local! {
    /// One set of buffers for all requests whose tokens a thread chooses.
    static BUFFERS: RefCell<Buffers> = RefCell::default();
}

/// What choosing works with. Nothing in it outlives a choice.
#[derive(Debug, Default)]
struct Buffers {
    /// The logits after bias and penalty.
    adjusted: Vec<f32>,
    /// By token: exp((logit - largest) / temperature), not normalised.
    weights: Vec<f64>,
    /// Sums of the weights up to each token.
    sums: Vec<f64>,
    candidates: Vec<Candidate>,
}

/// Chooses tokens for one sequence.
#[derive(Debug)]
pub struct Sampler {
    sampling: Sampling,
    seed: u64,
    vocabulary: usize,
    isa: Isa,
    /// One bit a token: seen in the sequence. Empty while the repetition penalty is off.
    seen: Vec<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Candidate {
    id: u32,
    logit: f32,
    /// exp((logit - largest) / temperature), not normalised.
    weight: f64,
}

/// More likely first; of equals the lower id first. Total, because logits are finite.
fn by_likelihood(left: &Candidate, right: &Candidate) -> std::cmp::Ordering {
    right.logit.total_cmp(&left.logit).then(left.id.cmp(&right.id))
}

impl Sampler {
    /// A sampler for a model with `vocabulary` tokens.
    ///
    /// # Errors
    /// What [`Sampling::validate`] reports, or [`SamplingError::NoSeed`].
    pub fn new(sampling: Sampling, vocabulary: usize) -> Result<Self, SamplingError> {
        sampling.validate(vocabulary)?;
        let seed = match sampling.seed {
            Some(seed) => seed,
            None => getrandom::u64().map_err(|error| SamplingError::NoSeed(error.to_string()))?,
        };
        let penalised = sampling.repetition_penalty != 1.0;
        Ok(Self {
            seen: vec![0; if penalised { vocabulary.div_ceil(64) } else { 0 }],
            sampling,
            seed,
            vocabulary,
            // Every set gives the same bits.
            isa: Isa::select().unwrap_or(Isa::Naive),
        })
    }

    /// The seed in use, drawn or given.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Whether tokens are drawn from weights, which takes a pass of exponentials over the vocabulary.
    pub fn is_sampled(&self) -> bool {
        !self.sampling.is_greedy()
    }

    /// Records tokens of the sequence for the repetition penalty.
    pub fn observe(&mut self, ids: &[u32]) {
        if self.seen.is_empty() {
            return;
        }
        for &id in ids {
            if let Some(word) = self.seen.get_mut(id as usize / 64) {
                *word |= 1 << (id % 64);
            }
        }
    }

    /// Forgets what was observed.
    pub fn forget(&mut self) {
        self.seen.fill(0);
    }

    /// The token at `position` of the sequence, given the logits the model computed for it. O(vocabulary), and
    /// O(k log k) more for the k tokens that top-k or top-p keep.
    ///
    /// # Errors
    /// [`SamplingError::NotFinite`] if any logit is NaN or infinite, [`SamplingError::RowLength`].
    pub fn choose(&mut self, logits: &[f32], position: u64) -> Result<u32, SamplingError> {
        if logits.len() != self.vocabulary {
            return Err(SamplingError::RowLength { given: logits.len(), expected: self.vocabulary });
        }
        let Some(best) = largest(self.isa, logits) else {
            let index = logits.iter().position(|logit| !logit.is_finite()).unwrap_or(0);
            let value = logits.get(index).copied().unwrap_or(f32::NAN);
            return Err(SamplingError::NotFinite { id: index as u32, position, value });
        };
        BUFFERS.with_borrow_mut(|buffers| {
            let Buffers { adjusted, weights, sums, candidates } = buffers;
            let is_plain = self.sampling.logit_bias.is_empty() && self.seen.is_empty();
            let (logits, best) = if is_plain {
                (logits, best)
            } else {
                self.adjust(logits, adjusted);
                (&adjusted[..], largest(self.isa, adjusted).unwrap_or(best))
            };
            if self.sampling.is_greedy() {
                return Ok(first(logits, best));
            }
            let draw = uniform(self.seed, position);
            let is_cut = self.sampling.top_k as usize != 0 && (self.sampling.top_k as usize) < logits.len();
            if is_cut {
                self.keep_top_k(logits, best, candidates);
                self.keep_top_p(candidates);
            } else {
                self.weigh(logits, best, weights);
                if self.sampling.top_p >= 1.0 {
                    return Ok(self.draw_from_all(weights, sums, draw));
                }
                self.collect_top_p(logits, best, weights, candidates);
            }
            self.keep_min_p(candidates);
            Ok(draw_from(candidates, draw))
        })
    }

    /// Logit bias, then repetition penalty. Sums that overflow are clamped to the largest finite value, so that
    /// the order of tokens survives.
    fn adjust(&self, logits: &[f32], adjusted: &mut Vec<f32>) {
        adjusted.clear();
        adjusted.extend_from_slice(logits);
        for &(id, bias) in &self.sampling.logit_bias {
            let logit = &mut adjusted[id as usize];
            *logit = (*logit + bias).clamp(f32::MIN, f32::MAX);
        }
        let penalty = self.sampling.repetition_penalty;
        for (index, &word) in self.seen.iter().enumerate() {
            let mut bits = word;
            while bits != 0 {
                let id = index * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if let Some(logit) = adjusted.get_mut(id) {
                    let scaled = if *logit > 0.0 { *logit / penalty } else { *logit * penalty };
                    *logit = scaled.clamp(f32::MIN, f32::MAX);
                }
            }
        }
    }

    /// Temperature: weights relative to the largest logit, which has weight 1 whatever the temperature.
    fn weigh(&self, logits: &[f32], best: f32, out: &mut Vec<f64>) {
        out.resize(logits.len(), 0.0);
        weights(self.isa, logits, best, self.sampling.temperature, out);
    }

    /// Leaves exactly k candidates, with their weights. Temperature keeps the order of tokens, so the others need
    /// none.
    fn keep_top_k(&self, logits: &[f32], best: f32, candidates: &mut Vec<Candidate>) {
        let keep = self.sampling.top_k as usize;
        candidates.clear();
        candidates.extend(logits.iter().zip(0_u32..).map(|(&logit, id)| Candidate {
            id,
            logit,
            weight: 0.0,
        }));
        candidates.select_nth_unstable_by(keep - 1, by_likelihood);
        candidates.truncate(keep);
        for candidate in candidates {
            weights(
                Isa::Naive,
                &[candidate.logit],
                best,
                self.sampling.temperature,
                std::slice::from_mut(&mut candidate.weight),
            );
        }
    }

    /// Leaves the shortest run of most likely candidates whose probability among all reaches `top_p`, at least one.
    fn keep_top_p(&self, candidates: &mut Vec<Candidate>) {
        if self.sampling.top_p >= 1.0 {
            return;
        }
        candidates.sort_unstable_by_key(|candidate| candidate.id);
        let total: f64 = candidates.iter().map(|candidate| candidate.weight).sum();
        candidates.sort_unstable_by(by_likelihood);
        if let Some(last) = self.reaches_top_p(candidates, total) {
            candidates.truncate(last + 1);
        }
    }

    /// As [`Sampler::keep_top_p`] among all tokens, without looking at the unlikely ones.
    fn collect_top_p(&self, logits: &[f32], best: f32, weights: &[f64], candidates: &mut Vec<Candidate>) {
        let total: f64 = weights.iter().sum();
        let mut reach = TOP_P_REACH;
        loop {
            let least = f64::from(best) - reach * f64::from(self.sampling.temperature);
            let is_all = least <= f64::from(f32::MIN);
            let least = if is_all { f32::MIN } else { least as f32 };
            candidates.clear();
            let all = logits.iter().zip(weights).zip(0_u32..);
            candidates.extend(
                all.filter(|((logit, _), _)| **logit >= least).map(|((&logit, &weight), id)| Candidate {
                    id,
                    logit,
                    weight,
                }),
            );
            candidates.sort_unstable_by(by_likelihood);
            match self.reaches_top_p(candidates, total) {
                Some(last) => return candidates.truncate(last + 1),
                None if is_all || candidates.len() == logits.len() => return,
                None => reach *= 4.0,
            }
        }
    }

    /// Where the sum of the weights of candidates, the most likely first, reaches `top_p` of the total.
    fn reaches_top_p(&self, candidates: &[Candidate], total: f64) -> Option<usize> {
        let wanted = f64::from(self.sampling.top_p) * total;
        let mut sum = 0.0;
        candidates.iter().position(|candidate| {
            sum += candidate.weight;
            sum >= wanted
        })
    }

    fn keep_min_p(&self, candidates: &mut Vec<Candidate>) {
        if self.sampling.min_p > 0.0 {
            // The most likely candidate always survives the earlier processors and has weight 1.
            let least = f64::from(self.sampling.min_p);
            candidates.retain(|candidate| candidate.weight >= least);
        }
    }

    /// Inverse of the distribution function over all tokens that are likely enough, in ascending order of ids.
    fn draw_from_all(&self, weights: &mut [f64], sums: &mut Vec<f64>, draw: f64) -> u32 {
        if self.sampling.min_p > 0.0 {
            let least = f64::from(self.sampling.min_p);
            for weight in &mut *weights {
                *weight = if *weight >= least { *weight } else { 0.0 };
            }
        }
        let mut total = 0.0;
        sums.clear();
        sums.extend(weights.iter().map(|weight| {
            total += weight;
            total
        }));
        let target = draw * total;
        // The first sum above the target is that of a token with a weight.
        let chosen = sums.partition_point(|&sum| sum <= target);
        let last = || weights.iter().rposition(|&weight| weight > 0.0).unwrap_or(0);
        (if chosen < sums.len() { chosen } else { last() }) as u32
    }
}

/// Inverse of the distribution function over the kept candidates in ascending order of ids.
fn draw_from(candidates: &mut [Candidate], draw: f64) -> u32 {
    candidates.sort_unstable_by_key(|candidate| candidate.id);
    let total: f64 = candidates.iter().map(|candidate| candidate.weight).sum();
    let target = draw * total;
    let mut sum = 0.0;
    let mut chosen = 0;
    for candidate in candidates {
        if candidate.weight > 0.0 {
            chosen = candidate.id;
            sum += candidate.weight;
            if sum > target {
                break;
            }
        }
    }
    chosen
}

/// The index of the first logit that is `largest`.
fn first(logits: &[f32], largest: f32) -> u32 {
    logits.iter().position(|&logit| logit == largest).unwrap_or(0) as u32
}
