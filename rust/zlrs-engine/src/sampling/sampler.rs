//! The sampler of one request: parameters, tokens seen, buffers that are reused.

use super::{Sampling, SamplingError, philox::uniform};

/// First number of most likely tokens sorted for top-p; it grows fourfold until their sum is enough.
const TOP_P_FIRST: usize = 256;

/// Chooses tokens for one sequence. Allocates only in [`Sampler::new`].
#[derive(Debug)]
pub struct Sampler {
    sampling: Sampling,
    seed: u64,
    vocabulary: usize,
    /// Greedy without any processor: the row itself decides.
    plain: bool,
    /// One bit a token: seen in the sequence. Empty while the repetition penalty is off.
    seen: Vec<u64>,
    /// The logits after bias and penalty.
    adjusted: Vec<f32>,
    candidates: Vec<Candidate>,
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
        let plain = sampling.is_greedy() && !penalised && sampling.logit_bias.is_empty();
        Ok(Self {
            seen: vec![0; if penalised { vocabulary.div_ceil(64) } else { 0 }],
            adjusted: Vec::with_capacity(if plain { 0 } else { vocabulary }),
            candidates: Vec::with_capacity(if sampling.is_greedy() { 0 } else { vocabulary }),
            sampling,
            seed,
            vocabulary,
            plain,
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

    /// The token at `position` of the sequence, given the logits the model computed for it. O(vocabulary), and
    /// O(k log k) more for the k tokens that top-k or top-p keep.
    ///
    /// # Errors
    /// [`SamplingError::NotFinite`] if any logit is NaN or infinite, [`SamplingError::RowLength`].
    pub fn choose(&mut self, logits: &[f32], position: u64) -> Result<u32, SamplingError> {
        if logits.len() != self.vocabulary {
            return Err(SamplingError::RowLength { given: logits.len(), expected: self.vocabulary });
        }
        if let Some(index) = logits.iter().position(|logit| !logit.is_finite()) {
            return Err(SamplingError::NotFinite { id: index as u32, position, value: logits[index] });
        }
        if self.plain {
            return Ok(argmax(logits));
        }
        self.adjust(logits);
        if self.sampling.is_greedy() {
            return Ok(argmax(&self.adjusted));
        }
        // Temperature keeps the order of tokens, so top-k may come first and spare the exponentials.
        self.collect();
        self.keep_top_k();
        self.weigh();
        self.keep_top_p();
        self.keep_min_p();
        Ok(self.draw(uniform(self.seed, position)))
    }

    /// Logit bias, then repetition penalty. Sums that overflow are clamped to the largest finite value, so that
    /// the order of tokens survives.
    fn adjust(&mut self, logits: &[f32]) {
        self.adjusted.clear();
        self.adjusted.extend_from_slice(logits);
        for &(id, bias) in &self.sampling.logit_bias {
            let logit = &mut self.adjusted[id as usize];
            *logit = (*logit + bias).clamp(f32::MIN, f32::MAX);
        }
        let penalty = self.sampling.repetition_penalty;
        for (index, &word) in self.seen.iter().enumerate() {
            let mut bits = word;
            while bits != 0 {
                let id = index * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if let Some(logit) = self.adjusted.get_mut(id) {
                    let scaled = if *logit > 0.0 { *logit / penalty } else { *logit * penalty };
                    *logit = scaled.clamp(f32::MIN, f32::MAX);
                }
            }
        }
    }

    fn collect(&mut self) {
        self.candidates.clear();
        let candidate = |(&logit, id)| Candidate { id, logit, weight: 0.0 };
        self.candidates.extend(self.adjusted.iter().zip(0_u32..).map(candidate));
    }

    /// Temperature: weights relative to the largest logit, which has weight 1 whatever the temperature.
    fn weigh(&mut self) {
        let largest = f64::from(self.adjusted[argmax(&self.adjusted) as usize]);
        let temperature = f64::from(self.sampling.temperature);
        for candidate in &mut self.candidates {
            candidate.weight = exponential((f64::from(candidate.logit) - largest) / temperature);
        }
    }

    /// Leaves exactly k candidates (fewer if there are fewer), in no particular order.
    fn keep_top_k(&mut self) {
        let keep = self.sampling.top_k as usize;
        if keep != 0 && keep < self.candidates.len() {
            self.candidates.select_nth_unstable_by(keep - 1, by_likelihood);
            self.candidates.truncate(keep);
        }
    }

    /// Leaves the shortest run of most likely candidates whose probability reaches `top_p`, at least one.
    fn keep_top_p(&mut self) {
        if self.sampling.top_p >= 1.0 {
            return;
        }
        self.candidates.sort_unstable_by_key(|candidate| candidate.id);
        let total: f64 = self.candidates.iter().map(|candidate| candidate.weight).sum();
        let wanted = f64::from(self.sampling.top_p) * total;
        let count = self.candidates.len();
        let mut sorted = TOP_P_FIRST.min(count);
        loop {
            if sorted < count {
                self.candidates.select_nth_unstable_by(sorted - 1, by_likelihood);
            }
            self.candidates[..sorted].sort_unstable_by(by_likelihood);
            let mut sum = 0.0;
            let reached = self.candidates[..sorted].iter().position(|candidate| {
                sum += candidate.weight;
                sum >= wanted
            });
            match reached {
                Some(last) => return self.candidates.truncate(last + 1),
                None if sorted == count => return,
                None => sorted = sorted.saturating_mul(4).min(count),
            }
        }
    }

    fn keep_min_p(&mut self) {
        if self.sampling.min_p > 0.0 {
            // The most likely candidate always survives the earlier processors and has weight 1.
            let least = f64::from(self.sampling.min_p);
            self.candidates.retain(|candidate| candidate.weight >= least);
        }
    }

    /// Inverse of the distribution function over the kept candidates in ascending order of ids.
    fn draw(&mut self, uniform: f64) -> u32 {
        self.candidates.sort_unstable_by_key(|candidate| candidate.id);
        let total: f64 = self.candidates.iter().map(|candidate| candidate.weight).sum();
        let target = uniform * total;
        let mut sum = 0.0;
        let mut chosen = 0;
        for candidate in &self.candidates {
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
}

/// The index of the largest value; of equals the first. `values` is not empty and finite.
fn argmax(values: &[f32]) -> u32 {
    let mut best = 0;
    for (index, &value) in values.iter().enumerate() {
        if value > values[best] {
            best = index;
        }
    }
    best as u32
}

/// 1/k! for k = 0 … 13.
const TAYLOR: [f64; 14] = {
    let mut inverse_factorials = [1.0; 14];
    let mut factorial = 1.0;
    let mut degree = 1;
    while degree < 14 {
        factorial *= degree as f64;
        inverse_factorials[degree] = 1.0 / factorial;
        degree += 1;
    }
    inverse_factorials
};

/// 1.5 · 2^52: adding it rounds a small number to an integer, which is then in the lowest bits.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// e^x for x ≤ 0 with the same bits on every machine (the C library's own differs between versions): ranges
/// are reduced by ln 2, a Taylor polynomial of degree 13 stays within 2 units of the last place of f64, and
/// results below the smallest normal number are 0. It is computed for every token of the vocabulary, so it has
/// no division and no call.
pub(super) fn exponential(x: f64) -> f64 {
    const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    if x < -708.0 {
        return 0.0;
    }
    let shifted = x * std::f64::consts::LOG2_E + ROUNDER;
    let exponent = shifted - ROUNDER;
    let rest = (x - exponent * LN_2_HIGH) - exponent * LN_2_LOW;
    let mut sum = TAYLOR[13];
    for coefficient in TAYLOR[..13].iter().rev() {
        sum = sum * rest + coefficient;
    }
    let scale = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    sum * scale
}
