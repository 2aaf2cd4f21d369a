//! What the gates of MLPs let through, and what is saved and lost where it is hardly anything.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Harm, Meter};
use crate::cpu::Observer;
use crate::{Compute, EngineError};

/// Magnitudes are sorted into bins by their exponent and the first bits of their fraction: 4 bits are 6 %.
const BIN_SHIFT: u32 = 19;
const BINS: usize = 1 << (31 - BIN_SHIFT);
/// Neurons whose rows of a packed matrix share a strip.
const STRIP: usize = 8;
/// Weights that a block of a quantised matrix has along its columns.
const BLOCKS: [usize; 2] = [32, 256];

/// Shares of neurons that count for nothing, over all rows and layers.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Reach {
    /// By themselves.
    pub neurons: f64,
    /// With all of their strip: rows of the up projection that need not be computed.
    pub strips: f64,
    /// The same, if neurons lay in the order of how often they count for nothing.
    pub sorted_strips: f64,
    /// With all of their block of 32 columns of the down projection.
    pub blocks_of_32: f64,
    /// With all of their block of 256.
    pub blocks_of_256: f64,
}

/// Counts while a backend computes.
enum Counting {
    /// By layer: gates by bin.
    Bins(Vec<Vec<u64>>),
    Below(Vec<Below>),
}

#[derive(Clone, Default)]
struct Below {
    threshold: f32,
    rows: usize,
    /// By neuron.
    counts: Vec<u32>,
    /// Neurons in the order of an earlier count; empty for the order they have.
    order: Vec<u32>,
    in_strips: usize,
    in_blocks: [usize; 2],
}

struct Recorder(Arc<Mutex<Counting>>);

impl Observer for Recorder {
    fn heads(&mut self, _: usize, _: usize, _: &[f32]) {}
    fn attention(&mut self, _: usize, _: &[f32], _: &[f32]) {}
    fn mlp(&mut self, _: usize, _: &[f32], _: &[f32]) {}

    fn gates(&mut self, layer: usize, width: usize, through: &[f32]) {
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Counting::Bins(layers) => {
                for value in through {
                    layers[layer][(value.abs().to_bits() >> BIN_SHIFT) as usize] += 1;
                }
            }
            Counting::Below(layers) => {
                through.chunks_exact(width).for_each(|row| layers[layer].add(row));
            }
        }
    }
}

impl Below {
    fn add(&mut self, row: &[f32]) {
        self.rows += 1;
        self.counts.resize(row.len(), 0);
        let is_below = |value: f32| value.abs() <= self.threshold;
        let below: Vec<bool> = match &self.order[..] {
            [] => row.iter().map(|&value| is_below(value)).collect(),
            order => order.iter().map(|&index| is_below(row[index as usize])).collect(),
        };
        for (count, &below) in self.counts.iter_mut().zip(&below) {
            *count += u32::from(below);
        }
        let whole = |size: usize| {
            below
                .chunks(size)
                .filter(|some| some.iter().all(|&below| below))
                .map(<[bool]>::len)
                .sum::<usize>()
        };
        self.in_strips += whole(STRIP);
        for (total, size) in self.in_blocks.iter_mut().zip(BLOCKS) {
            *total += whole(size);
        }
    }
}

impl Meter {
    /// For each share, by layer, the threshold that so many of the gates of some texts do not exceed. The full model
    /// computes the texts.
    ///
    /// # Errors
    /// [`EngineError::Step`].
    pub fn gate_thresholds(
        &mut self,
        windows: &[usize],
        shares: &[f64],
    ) -> Result<Vec<Vec<f32>>, EngineError> {
        let bins = Counting::Bins(vec![vec![0; BINS]; self.full.layers.len()]);
        let Counting::Bins(layers) = self.count(windows, bins)? else { return Ok(Vec::new()) };
        let threshold = |bins: &[u64], share: f64| {
            let total: u64 = bins.iter().sum();
            let wanted = (share.clamp(0.0, 1.0) * total as f64) as u64;
            let mut seen = 0;
            let last = bins.iter().position(|&count| {
                seen += count;
                seen > wanted
            });
            match last {
                // Up to the bin in which the share is reached.
                Some(bin) if bin > 0 && wanted > 0 => f32::from_bits(((bin as u32) << BIN_SHIFT) - 1),
                _ => -1.0,
            }
        };
        let of = |&share: &f64| layers.iter().map(|bins| threshold(bins, share)).collect();
        Ok(shares.iter().map(of).collect())
    }

    /// How many neurons count for nothing under these thresholds, by layer, in some texts, and how many of them lie
    /// where that saves work.
    ///
    /// # Errors
    /// [`EngineError::Step`].
    pub fn gate_reach(&mut self, thresholds: &[f32], windows: &[usize]) -> Result<Reach, EngineError> {
        let below = |&threshold: &f32| Below { threshold, ..Below::default() };
        let first = Counting::Below(thresholds.iter().map(below).collect());
        let Counting::Below(counted) = self.count(windows, first)? else { return Ok(Reach::default()) };
        let sorted = counted.iter().map(|layer| {
            let mut order: Vec<u32> = (0..layer.counts.len() as u32).collect();
            order.sort_by_key(|&index| std::cmp::Reverse(layer.counts[index as usize]));
            Below { threshold: layer.threshold, order, ..Below::default() }
        });
        let second = Counting::Below(sorted.collect());
        let Counting::Below(sorted) = self.count(windows, second)? else { return Ok(Reach::default()) };
        let total: usize = counted.iter().map(|layer| layer.rows * layer.counts.len()).sum();
        let share = |count: usize| count as f64 / total.max(1) as f64;
        let all = |of: fn(&Below) -> usize, layers: &[Below]| share(layers.iter().map(of).sum());
        Ok(Reach {
            neurons: all(|layer| layer.counts.iter().map(|&count| count as usize).sum(), &counted),
            strips: all(|layer| layer.in_strips, &counted),
            sorted_strips: all(|layer| layer.in_strips, &sorted),
            blocks_of_32: all(|layer| layer.in_blocks[0], &counted),
            blocks_of_256: all(|layer| layer.in_blocks[1], &counted),
        })
    }

    /// Computes the texts again without the neurons under these thresholds: what each kept row loses, by text.
    ///
    /// # Errors
    /// [`EngineError::Step`].
    pub fn measure_neurons(
        &mut self,
        thresholds: &[f32],
        windows: &[usize],
    ) -> Result<Vec<Vec<Harm>>, EngineError> {
        self.backend.ablate(&self.full, &self.base)?;
        self.backend.install_neurons(Some(thresholds.to_vec()));
        let some = windows.iter().filter_map(|&index| self.windows.get(index));
        let harms = some
            .map(|window| window.harms(&mut self.backend, self.every, 0, Compute::Aggressive))
            .collect::<Result<Vec<_>, _>>();
        self.backend.install_neurons(None);
        self.computed_layers += windows.len() * self.full.layers.len();
        harms
    }

    fn count(&mut self, windows: &[usize], counting: Counting) -> Result<Counting, EngineError> {
        self.backend.ablate(&self.full, &self.base)?;
        let counting = Arc::new(Mutex::new(counting));
        self.backend.observe(Some(Box::new(Recorder(Arc::clone(&counting)))));
        let some = windows.iter().filter_map(|&index| self.windows.get(index));
        let result = some.into_iter().try_for_each(|window| window.pass(&mut self.backend));
        self.backend.observe(None);
        result?;
        let mut counted = counting.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::replace(&mut *counted, Counting::Bins(Vec::new())))
    }
}
