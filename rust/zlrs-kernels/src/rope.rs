//! Rotary position embedding: angles, their scalings, and the rotation of a head.

use crate::dispatch::dispatch;
use crate::{Isa, KernelError};

/// Which values of a head form a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RopeLayout {
    /// `(2i, 2i + 1)`: GGUF files of the llama architecture, whose weights are permuted for it ("norm").
    Adjacent,
    /// `(i, i + dimensions / 2)`: qwen, gemma and most others ("neox").
    Halves,
}

/// How angles are stretched for contexts longer than the model was first trained on.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum RopeScaling {
    /// Not at all.
    #[default]
    None,
    /// All frequencies divided by `factor`.
    Linear {
        /// Above 0; more than 1 stretches.
        factor: f64,
    },
    /// NTK-aware: the base grows by `factor^(d / (d - 2))` for d dimensions, so that the longest wavelength is
    /// stretched by `factor` and the shortest is kept.
    Ntk {
        /// At least 1; the dimensions are then more than 2.
        factor: f64,
    },
    /// Llama 3.1: long wavelengths divided by `factor`, short ones kept, a linear transition between.
    Llama3 {
        /// Above 0.
        factor: f64,
        /// Wavelengths above `original_context / low_frequency_factor` are stretched in full.
        low_frequency_factor: f64,
        /// Wavelengths below `original_context / high_frequency_factor` are kept. Above `low_frequency_factor`.
        high_frequency_factor: f64,
        /// Context the model was first trained on, in tokens.
        original_context: usize,
    },
    /// `YaRN` (arXiv 2309.00071): a ramp over the dimensions, bounded by the number of turns they make over
    /// the original context, and a rise of the attention temperature through the length of the vectors.
    Yarn {
        /// At least 1.
        factor: f64,
        /// Context the model was first trained on, in tokens.
        original_context: usize,
        /// Dimensions that turn at least so often are kept; usually 32.
        beta_fast: f64,
        /// Dimensions that turn at most so often are stretched in full; usually 1.
        beta_slow: f64,
        /// Multiplies the paper's `1 + 0.1 ln(factor)`; usually 1.
        attention_factor: f64,
    },
}

/// All that decides the angles of a layer.
#[derive(Debug, Clone, PartialEq)]
pub struct RopeParameters {
    /// Rotated values at the start of each head: even, at least 2; less than the head for partial rotary.
    pub dimensions: usize,
    /// Base of the geometric series of frequencies; above 1.
    pub base: f64,
    /// Stretching of the angles.
    pub scaling: RopeScaling,
    /// Divisors of the frequencies, `dimensions / 2` of them, each above 0 (a `rope_freqs` tensor).
    pub frequency_factors: Option<Vec<f32>>,
}

impl RopeParameters {
    /// Angle per position of each pair, in radians, and the factor on all sines and cosines.
    fn frequencies(&self) -> Result<(Vec<f64>, f64), KernelError> {
        let half = self.dimensions / 2;
        if self.dimensions < 2 || !self.dimensions.is_multiple_of(2) {
            let (what, allowed) = ("dimensions", "even and at least 2");
            return Err(KernelError::RopeParameter { what, given: self.dimensions as f64, allowed });
        }
        check("base", self.base, "above 1", |base| base > 1.0)?;
        if let Some(factors) = &self.frequency_factors {
            if factors.len() != half {
                let (expected, given) = (half, factors.len());
                return Err(KernelError::Length { what: "RoPE frequency factors", expected, given });
            }
            for &factor in factors {
                check("frequency factor", factor.into(), "above 0", |factor| factor > 0.0)?;
            }
        }
        let mut magnitude = 1.0;
        let mut frequencies: Vec<f64> = (0..half)
            .map(|pair| {
                let divisor = self.frequency_factors.as_ref().map_or(1.0, |factors| factors[pair].into());
                self.base.powf(-2.0 * pair as f64 / self.dimensions as f64) / divisor
            })
            .collect();
        match self.scaling {
            RopeScaling::None => {}
            RopeScaling::Linear { factor } => {
                check("scaling factor", factor, "above 0", |factor| factor > 0.0)?;
                for frequency in &mut frequencies {
                    *frequency /= factor;
                }
            }
            RopeScaling::Ntk { factor } => {
                check("scaling factor", factor, "at least 1", |factor| factor >= 1.0)?;
                check("dimensions", self.dimensions as f64, "more than 2", |dimensions| dimensions > 2.0)?;
                for (pair, frequency) in frequencies.iter_mut().enumerate() {
                    *frequency *= factor.powf(-2.0 * pair as f64 / (self.dimensions - 2) as f64);
                }
            }
            RopeScaling::Llama3 { factor, low_frequency_factor, high_frequency_factor, original_context } => {
                check("scaling factor", factor, "above 0", |factor| factor > 0.0)?;
                check("low frequency factor", low_frequency_factor, "above 0", |low| low > 0.0)?;
                check("high frequency factor", high_frequency_factor, "above the low one", |high| {
                    high > low_frequency_factor
                })?;
                for frequency in &mut frequencies {
                    let turns = original_context as f64 * *frequency / std::f64::consts::TAU;
                    let kept = ((turns - low_frequency_factor)
                        / (high_frequency_factor - low_frequency_factor))
                        .clamp(0.0, 1.0);
                    *frequency *= kept + (1.0 - kept) / factor;
                }
            }
            RopeScaling::Yarn { factor, original_context, beta_fast, beta_slow, attention_factor } => {
                check("scaling factor", factor, "at least 1", |factor| factor >= 1.0)?;
                check("beta fast", beta_fast, "above 0", |beta| beta > 0.0)?;
                check("beta slow", beta_slow, "above 0", |beta| beta > 0.0)?;
                check("attention factor", attention_factor, "above 0", |factor| factor > 0.0)?;
                check("original context", original_context as f64, "above 0", |context| context > 0.0)?;
                // The pair that makes `turns` turns over the original context, as a real number.
                let pair_of = |turns: f64| {
                    let wavelength = original_context as f64 / (turns * std::f64::consts::TAU);
                    self.dimensions as f64 * wavelength.ln() / (2.0 * self.base.ln())
                };
                let first = pair_of(beta_fast).floor().max(0.0);
                let last = pair_of(beta_slow).ceil().min(self.dimensions as f64 - 1.0);
                for (pair, frequency) in frequencies.iter_mut().enumerate() {
                    let stretched = ((pair as f64 - first) / (last - first).max(0.001)).clamp(0.0, 1.0);
                    *frequency *= (1.0 - stretched) + stretched / factor;
                }
                magnitude = attention_factor * (1.0 + 0.1 * factor.ln());
            }
        }
        Ok((frequencies, magnitude))
    }
}

fn check(
    what: &'static str,
    given: f64,
    allowed: &'static str,
    is_allowed: impl Fn(f64) -> bool,
) -> Result<(), KernelError> {
    if given.is_finite() && is_allowed(given) {
        Ok(())
    } else {
        Err(KernelError::RopeParameter { what, given, allowed })
    }
}

/// Cosines and sines of every position and pair, computed in f64 and rounded once to f32.
///
/// Holds `4 · dimensions` bytes a position: 8 MiB for 32768 positions of 64 dimensions. Built in
/// O(positions · dimensions).
#[derive(Debug, Clone)]
pub struct RopeTable {
    half: usize,
    /// Per position the cosines, then the sines.
    values: Vec<f32>,
}

impl RopeTable {
    /// The table for positions `0..positions`.
    ///
    /// # Errors
    /// [`KernelError::RopeParameter`], [`KernelError::OutOfRange`] or [`KernelError::Length`] for parameters
    /// outside the ranges stated at them, [`KernelError::OutOfMemory`].
    pub fn new(parameters: &RopeParameters, positions: usize) -> Result<Self, KernelError> {
        let (frequencies, magnitude) = parameters.frequencies()?;
        let len = positions.saturating_mul(parameters.dimensions);
        let mut values = Vec::new();
        values.try_reserve_exact(len).map_err(|_| KernelError::OutOfMemory {
            what: "the RoPE table",
            bytes: len.saturating_mul(size_of::<f32>()),
        })?;
        for position in 0..positions {
            let angles = frequencies.iter().map(|frequency| position as f64 * frequency);
            values.extend(angles.clone().map(|angle| (angle.cos() * magnitude) as f32));
            values.extend(angles.map(|angle| (angle.sin() * magnitude) as f32));
        }
        Ok(Self { half: frequencies.len(), values })
    }

    /// Rotated values of a head.
    pub fn dimensions(&self) -> usize {
        2 * self.half
    }

    /// Number of positions the table holds.
    pub fn positions(&self) -> usize {
        self.values.len() / self.dimensions()
    }

    /// Bytes the table holds.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.values)
    }

    /// Cosines and sines of a position, `dimensions / 2` each; `None` past the end.
    pub fn at(&self, position: u32) -> Option<(&[f32], &[f32])> {
        let row = self.values.chunks_exact(self.dimensions()).nth(position as usize)?;
        Some(row.split_at(self.half))
    }
}

/// Rotates the first `table.dimensions()` values of one head in place. O(dimensions), on the calling thread.
///
/// # Panics
/// If the table ends before `position` or the head is shorter than the rotated dimensions.
pub fn rope(isa: Isa, layout: RopeLayout, table: &RopeTable, position: u32, head: &mut [f32]) {
    let row = table.at(position);
    assert!(row.is_some(), "rope: position {position} in a table of {}", table.positions());
    assert!(head.len() >= table.dimensions(), "rope: {} of {} values", table.dimensions(), head.len());
    let Some((cos, sin)) = row else { return };
    let head = &mut head[..table.dimensions()];
    match layout {
        RopeLayout::Adjacent => dispatch!(isa, rope::adjacent(cos, sin, head)),
        RopeLayout::Halves => dispatch!(isa, rope::halves(cos, sin, head)),
    }
}
