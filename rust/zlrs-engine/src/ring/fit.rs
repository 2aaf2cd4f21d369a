//! Fits a re-scoring head: logistic regression over one hidden layer, by Adam (D. Kingma, J. Ba, 2015).

use half::f16;

use super::features::SCALARS;
use super::head::{Head, dot, inverse_rms, sigmoid};

/// How to fit.
#[derive(Debug, Clone, Copy)]
pub struct FitOptions {
    /// Hidden units.
    pub hidden: usize,
    /// Passes over the samples.
    pub epochs: usize,
    /// Of a step.
    pub learning_rate: f32,
    /// Pull of the weights towards 0, of a step.
    pub decay: f32,
    /// Key of the first weights and of the order of samples.
    pub seed: u64,
}

impl Default for FitOptions {
    fn default() -> Self {
        Self { hidden: 48, epochs: 6, learning_rate: 1e-3, decay: 1e-4, seed: 1 }
    }
}

/// Samples of a fit: one a token.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    width: usize,
    /// `[samples][width]`, divided by the root mean square of each.
    states: Vec<f16>,
    features: Vec<[f32; SCALARS]>,
    labels: Vec<bool>,
}

impl Samples {
    /// None, of states of a width.
    pub fn new(width: usize) -> Self {
        Self { width, ..Self::default() }
    }

    /// Adds a token: the state after it, its features, whether it is wrong.
    pub fn push(&mut self, state: &[f32], features: [f32; SCALARS], wrong: bool) {
        let scale = inverse_rms(state);
        self.states.extend(state.iter().take(self.width).map(|value| f16::from_f32(value * scale)));
        self.features.push(features);
        self.labels.push(wrong);
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Which are wrong.
    pub fn labels(&self) -> &[bool] {
        &self.labels
    }

    /// Features by sample.
    pub fn features(&self) -> &[[f32; SCALARS]] {
        &self.features
    }

    /// The scores that a head gives. O(samples × weights).
    pub fn scores(&self, head: &Head) -> Vec<f32> {
        let mut state = vec![0.0; self.width];
        (0..self.len())
            .map(|index| {
                self.state(index, &mut state);
                head.score(&state, &self.features[index])
            })
            .collect()
    }

    fn state(&self, index: usize, out: &mut [f32]) {
        let row = &self.states[index * self.width..][..self.width];
        out.iter_mut().zip(row).for_each(|(out, value)| *out = value.to_f32());
    }
}

/// One set of weights with what Adam knows of it.
struct Weights {
    gradient: Vec<f32>,
    first: Vec<f32>,
    second: Vec<f32>,
}

impl Weights {
    fn new(length: usize) -> Self {
        Self { gradient: vec![0.0; length], first: vec![0.0; length], second: vec![0.0; length] }
    }

    /// One step against the mean gradient; empties it.
    fn step(&mut self, values: &mut [f32], rate: f32, decay: f32, step: i32, batch: f32) {
        let (bias1, bias2) = (1.0 - 0.9_f32.powi(step), 1.0 - 0.999_f32.powi(step));
        for (index, value) in values.iter_mut().enumerate() {
            let gradient = self.gradient[index] / batch;
            self.gradient[index] = 0.0;
            self.first[index] = 0.9 * self.first[index] + 0.1 * gradient;
            self.second[index] = 0.999 * self.second[index] + 0.001 * gradient * gradient;
            let towards = (self.first[index] / bias1) / ((self.second[index] / bias2).sqrt() + 1e-8);
            *value -= rate * (towards + decay * *value);
        }
    }
}

/// Samples of one step.
const BATCH: usize = 64;
/// Most that a wrong token counts more than a right one.
const WEIGHT_LIMIT: f32 = 30.0;

/// Fits a head to samples. The same samples and options give the same head. O(epochs × samples × weights).
pub fn fit(samples: &Samples, options: &FitOptions) -> Head {
    let (width, hidden) = (samples.width, options.hidden.max(1));
    let mut head = Head::empty(width, hidden);
    let mut random = Random(options.seed | 1);
    let reach = (2.0 / (width + SCALARS) as f32).sqrt();
    head.state.iter_mut().for_each(|value| *value = random.symmetric() * reach);
    head.scalars.iter_mut().for_each(|value| *value = random.symmetric() * 0.5);
    head.out.iter_mut().for_each(|value| *value = random.symmetric() * (2.0 / hidden as f32).sqrt());
    let wrong = samples.labels.iter().filter(|&&label| label).count();
    let right = samples.len() - wrong;
    let weight = (right as f32 / wrong.max(1) as f32).clamp(1.0, WEIGHT_LIMIT);
    let mut of_state = Weights::new(head.state.len());
    let mut of_scalars = Weights::new(head.scalars.len());
    let (mut of_bias, mut of_out) = (Weights::new(hidden), Weights::new(hidden));
    let mut of_out_bias = Weights::new(1);
    let mut order: Vec<usize> = (0..samples.len()).collect();
    let mut state = vec![0.0; width];
    let mut units = vec![0.0; hidden];
    let mut step = 0;
    for epoch in 0..options.epochs {
        for index in (1..order.len()).rev() {
            order.swap(index, (random.next() % (index as u64 + 1)) as usize);
        }
        // The rate falls to a tenth over the passes.
        let rate = options.learning_rate * 0.1_f32.powf(epoch as f32 / options.epochs.max(1) as f32);
        for batch in order.chunks(BATCH) {
            for &index in batch {
                samples.state(index, &mut state);
                let features = &samples.features[index];
                let mut sum = head.out_bias;
                for (unit, value) in units.iter_mut().enumerate() {
                    let row = &head.state[unit * width..][..width];
                    let own = &head.scalars[unit * SCALARS..][..SCALARS];
                    *value = (head.bias[unit] + dot(row, &state) + dot(own, features)).max(0.0);
                    sum += head.out[unit] * *value;
                }
                let label = samples.labels[index];
                let mut error = sigmoid(sum) - f32::from(u8::from(label));
                if label {
                    error *= weight;
                }
                of_out_bias.gradient[0] += error;
                for (unit, &value) in units.iter().enumerate() {
                    of_out.gradient[unit] += error * value;
                    if value <= 0.0 {
                        continue;
                    }
                    let back = error * head.out[unit];
                    of_bias.gradient[unit] += back;
                    let own = &mut of_scalars.gradient[unit * SCALARS..][..SCALARS];
                    own.iter_mut().zip(features).for_each(|(own, value)| *own += back * value);
                    let row = &mut of_state.gradient[unit * width..][..width];
                    row.iter_mut().zip(&state).for_each(|(own, value)| *own += back * value);
                }
            }
            step += 1;
            let (batch, decay) = (batch.len() as f32, options.decay);
            of_state.step(&mut head.state, rate, decay, step, batch);
            of_scalars.step(&mut head.scalars, rate, decay, step, batch);
            of_bias.step(&mut head.bias, rate, 0.0, step, batch);
            of_out.step(&mut head.out, rate, decay, step, batch);
            of_out_bias.step(std::slice::from_mut(&mut head.out_bias), rate, 0.0, step, batch);
        }
    }
    head
}

/// Area under the curve of hits against false alarms: how often a wrong token scores above a right one, equal scores
/// counted half. `None` without one of both. O(n log n).
pub fn auroc(scores: &[f32], labels: &[bool]) -> Option<f64> {
    let mut order: Vec<usize> = (0..scores.len().min(labels.len())).collect();
    order.sort_by(|&left, &right| scores[left].total_cmp(&scores[right]));
    let wrong = order.iter().filter(|&&index| labels[index]).count();
    let right = order.len() - wrong;
    if wrong == 0 || right == 0 {
        return None;
    }
    let (mut rank_sum, mut at) = (0.0, 0);
    while at < order.len() {
        let same = order[at..].iter().take_while(|&&index| scores[index] == scores[order[at]]).count();
        // Ranks are counted from 1; those that are equal share their mean.
        let rank = at as f64 + f64::midpoint(same as f64, 1.0);
        rank_sum += rank * order[at..at + same].iter().filter(|&&index| labels[index]).count() as f64;
        at += same;
    }
    let (wrong, right) = (wrong as f64, right as f64);
    Some((rank_sum - wrong * (wrong + 1.0) / 2.0) / (wrong * right))
}

/// The least score that at most `share` of the right tokens reach; 1 without any. O(n log n).
pub fn threshold(scores: &[f32], labels: &[bool], share: f64) -> f32 {
    let pairs = scores.iter().zip(labels);
    let mut right: Vec<f32> = pairs.filter(|&(_, &label)| !label).map(|(&score, _)| score).collect();
    right.sort_by(f32::total_cmp);
    let allowed = (right.len() as f64 * share) as usize;
    match right.len().checked_sub(allowed + 1) {
        Some(index) => right[index].next_up().min(1.0),
        None => 1.0,
    }
}

/// Xorshift (G. Marsaglia, 2003): draws for first weights and orders, which need no more.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// −1 … 1.
    fn symmetric(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    }
}
