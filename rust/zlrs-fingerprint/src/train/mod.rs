//! Training: seeded, in a fixed order, the same to the last bit everywhere.

mod adam;
mod float;
mod generated;
mod integers;
mod numbers;
mod quality;
mod random;

use std::collections::BTreeMap;
use std::thread;

pub use generated::samples as generated_samples;
pub use quality::{Quality, quality};

use crate::{DIMENSIONS, Weights, prepared};
use adam::Adam;
use float::{Activations, Layout, backward, forward, initial};
use integers::{Ranges, integers};
use numbers::{dot, exponential};
use random::Random;

/// Questions of a batch, each in two wordings.
const PAIRS: usize = 64;
/// Of them generated ones at most: the rest is what people wrote.
const GENERATED_PAIRS: usize = 12;
/// Parts a batch's gradient is summed in; more threads than that are not used.
const SHARDS: usize = 16;
/// What cosines are multiplied with before the softmax.
const SHARPNESS: f32 = 10.0;
const TOP_RATE: f32 = 2.0e-3;
const WARM_UP_STEPS: usize = 50;
/// Texts that show which range each channel fills.
const RANGE_TEXTS: usize = 2000;

/// A text, and what it asks: texts of one label are wordings of one question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The text.
    pub text: String,
    /// The question.
    pub label: String,
}

/// How long, and from which seed.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Everything random comes from it.
    pub seed: u64,
    /// Steps of 128 texts; 1 or more.
    pub steps: usize,
    /// Threads; changes the time and nothing else.
    pub threads: usize,
}

/// Why there is nothing to train on.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrainError {
    /// Too few questions.
    #[error("training needs at least {PAIRS} questions with two wordings each, given are {given}; add data")]
    TooLittle {
        /// How many there are.
        given: usize,
    },
}

/// The wordings of one question, by their place in the list of texts.
struct Group {
    texts: Vec<usize>,
    is_generated: bool,
}

/// Trains. `report` is told the step and the mean loss every hundred steps, and says whether to go on. Some minutes on two cores for the data and
/// the 5,000 steps of the network that ships; memory about 20 MB and the data.
///
/// # Errors
/// [`TrainError::TooLittle`].
pub fn train(
    samples: &[Sample],
    options: Options,
    mut report: impl FnMut(usize, f64) -> bool,
) -> Result<Weights, TrainError> {
    let mut labels: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut texts = Vec::new();
    for sample in samples {
        let Some(text) = prepared(&sample.text) else { continue };
        labels.entry(&sample.label).or_default().push(texts.len());
        texts.push(text);
    }
    let groups: Vec<Group> = labels
        .into_iter()
        .filter(|(_, texts)| texts.len() > 1)
        .map(|(label, texts)| Group { texts, is_generated: label.starts_with(generated::PREFIX) })
        .collect();
    if groups.len() < PAIRS {
        return Err(TrainError::TooLittle { given: groups.len() });
    }
    let mut random = Random::new(options.seed);
    let mut weights = initial(&mut random);
    let mut adam = Adam::new(Layout::COUNT);
    let mut total = 0.0;
    for step in 0..options.steps {
        let batch = batch(&mut random, &texts, &groups);
        let (gradient, loss) = gradient(&weights, &batch, options.threads);
        let left = 1.0 - step as f32 / options.steps as f32;
        let warm = ((step + 1) as f32 / WARM_UP_STEPS as f32).min(1.0);
        adam.step(&mut weights, &gradient, TOP_RATE * left * warm);
        total += loss;
        if (step + 1) % 100 == 0 {
            if !report(step + 1, total / 100.0) {
                break;
            }
            total = 0.0;
        }
    }
    let mut ranges = Ranges::new();
    for _ in 0..RANGE_TEXTS.min(texts.len()) {
        let text = &texts[random.below(texts.len())];
        ranges.observe(&forward(&weights, text.as_bytes()));
    }
    Ok(integers(&weights, &ranges))
}

/// Two wordings each of [`PAIRS`] questions: first the ones, then the others.
fn batch(random: &mut Random, texts: &[String], groups: &[Group]) -> Vec<Vec<u8>> {
    let mut order: Vec<&Group> = groups.iter().collect();
    random.shuffle(&mut order);
    let mut generated_left = GENERATED_PAIRS;
    let is_wanted = |group: &&Group| {
        let wanted = !group.is_generated || generated_left > 0;
        generated_left -= usize::from(group.is_generated && wanted);
        wanted
    };
    let (mut ones, mut others) = (Vec::with_capacity(2 * PAIRS), Vec::with_capacity(PAIRS));
    for Group { texts: group, .. } in order.into_iter().filter(is_wanted).take(PAIRS) {
        let one = random.below(group.len());
        let other = (one + 1 + random.below(group.len() - 1)) % group.len();
        ones.push(varied(random, &texts[group[one]]));
        others.push(varied(random, &texts[group[other]]));
    }
    ones.append(&mut others);
    ones
}

/// A text as somebody else might have typed it: with politeness around it, and sometimes a letter lost or swapped.
fn varied(random: &mut Random, text: &str) -> Vec<u8> {
    let frame = generated::FRAMES[random.below(generated::FRAMES.len())];
    let mut characters: Vec<char> = frame.replace("{}", text.trim()).chars().collect();
    if random.below(4) == 0 && characters.len() > 8 {
        let at = random.below(characters.len() - 1);
        if random.below(2) == 0 {
            characters.remove(at);
        } else {
            characters.swap(at, at + 1);
        }
    }
    let text: String = characters.into_iter().collect();
    prepared(&text).unwrap_or_else(|| " # ".to_owned()).into_bytes()
}

/// The gradient of the contrastive loss of a batch, and the loss: each text is to be nearer to its other wording than
/// to any text of another question.
fn gradient(weights: &[f32], batch: &[Vec<u8>], threads: usize) -> (Vec<f32>, f64) {
    let seen: Vec<Activations> = in_shards(batch, threads, |texts, _| {
        texts.iter().map(|text| forward(weights, text)).collect::<Vec<_>>()
    })
    .into_iter()
    .flatten()
    .collect();
    let count = seen.len();
    let half = count / 2;
    let mut slopes = vec![[0.0_f32; DIMENSIONS]; count];
    let mut loss = 0.0;
    for (at, own) in seen.iter().enumerate() {
        let partner = (at + half) % count;
        let scores: Vec<f32> =
            seen.iter().map(|other| SHARPNESS * dot(&own.direction, &other.direction)).collect();
        let others = || (0..count).filter(|other| *other != at);
        let top = others().map(|other| scores[other]).fold(f32::MIN, f32::max);
        let powers: Vec<f32> = scores.iter().map(|score| exponential(score - top)).collect();
        let sum: f32 = others().map(|other| powers[other]).sum();
        // Only shown, so the system's logarithm may do.
        loss += f64::from(top - scores[partner]) + f64::from(sum).ln();
        for other in others() {
            let target = if other == partner { 1.0 } else { 0.0 };
            let slope = SHARPNESS * (powers[other] / sum - target) / count as f32;
            numbers::add_scaled(&mut slopes[at], slope, &seen[other].direction);
            numbers::add_scaled(&mut slopes[other], slope, &own.direction);
        }
    }
    let slopes = &slopes;
    let shards = in_shards(&seen, threads, |part, start| {
        let mut gradient = vec![0.0; Layout::COUNT];
        for (at, seen) in part.iter().enumerate() {
            backward(weights, seen, &slopes[start + at], &mut gradient);
        }
        gradient
    });
    let mut gradient = vec![0.0; Layout::COUNT];
    for shard in &shards {
        numbers::add_scaled(&mut gradient, 1.0, shard);
    }
    (gradient, loss / count as f64)
}

/// Does `work` for each shard of a list, given where it starts; the results are in order whatever the threads do.
fn in_shards<T: Sync, R: Send>(list: &[T], threads: usize, work: impl Fn(&[T], usize) -> R + Sync) -> Vec<R> {
    let size = list.len().div_ceil(SHARDS).max(1);
    let shards: Vec<(usize, &[T])> =
        list.chunks(size).enumerate().map(|(index, part)| (index * size, part)).collect();
    let share = shards.len().div_ceil(threads.clamp(1, SHARDS)).max(1);
    let work = &work;
    thread::scope(|scope| {
        let running: Vec<_> = shards
            .chunks(share)
            .map(|mine| {
                scope.spawn(move || mine.iter().map(|(start, part)| work(part, *start)).collect::<Vec<R>>())
            })
            .collect();
        running
            .into_iter()
            .flat_map(|handle| handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

#[cfg(test)]
mod tests;
