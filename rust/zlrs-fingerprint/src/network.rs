//! The network, ready to run.

use std::sync::OnceLock;

use crate::weights::{BYTES, CHANNELS_1, CHANNELS_2, FEATURES, WIDTH_1, WIDTH_2, Weights};
use crate::{DIMENSIONS, FileError, Fingerprint, prepared, scan};

/// What ships with the program; `zlrs graph train` makes it.
static SHIPPED: &[u8] = include_bytes!("../data/fingerprint.bin");

/// Weights, widened for the processor. About half a megabyte.
#[derive(Clone, Debug)]
pub struct Network {
    weights: Weights,
    /// The second convolution in 16 bits, `[CHANNELS_2][WIDTH_2 · CHANNELS_1]`.
    convolution: Vec<i16>,
    /// The projection in 16 bits.
    projection: Vec<i16>,
    is_wide: bool,
}

impl Network {
    /// From weights.
    pub fn new(weights: Weights) -> Self {
        let widened = |list: &[i8]| list.iter().map(|value| i16::from(*value)).collect::<Vec<_>>();
        Self {
            convolution: widened(&weights.convolution),
            projection: widened(&weights.projection),
            weights,
            is_wide: scan::is_wide(),
        }
    }

    /// The one that ships with the program.
    ///
    /// # Errors
    /// Never in a whole build.
    pub fn shipped() -> Result<&'static Self, FileError> {
        static NETWORK: OnceLock<Result<Network, FileError>> = OnceLock::new();
        let made = NETWORK.get_or_init(|| Weights::from_bytes(SHIPPED).map(Network::new));
        made.as_ref().map_err(|error| match error {
            FileError::Foreign => FileError::Foreign,
            FileError::Range => FileError::Range,
            FileError::Length { given, expected } => FileError::Length { given: *given, expected: *expected },
        })
    }

    /// The file it ships in.
    pub fn shipped_bytes() -> &'static [u8] {
        SHIPPED
    }

    /// The weights.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// The fingerprint of a text; `None` for one without letters and for one that is too long. Linear in its length,
    /// well under a millisecond; equals [`crate::naive::fingerprint`].
    pub fn fingerprint(&self, text: &str) -> Option<Fingerprint> {
        let text = prepared(text)?;
        let bytes = text.as_bytes();
        let pairs = bytes.len().div_ceil(2);
        // Two empty places at either end stand for what is outside of the text.
        let margin = WIDTH_2 / 2 * CHANNELS_1;
        let mut pooled = vec![0_i16; pairs * CHANNELS_1 + 2 * margin];
        for at in 0..bytes.len() {
            let mut sums = [0_i32; CHANNELS_1];
            sums.copy_from_slice(&self.weights.bias_1);
            for offset in 0..WIDTH_1 {
                let Some(byte) = (at + offset).checked_sub(WIDTH_1 / 2).and_then(|place| bytes.get(place))
                else {
                    continue;
                };
                let row =
                    &self.weights.table[(offset * BYTES + usize::from(*byte)) * CHANNELS_1..][..CHANNELS_1];
                sums.iter_mut()
                    .zip(row)
                    .for_each(|(sum, weight)| *sum = sum.wrapping_add(i32::from(*weight)));
            }
            let place = &mut pooled[margin + at / 2 * CHANNELS_1..][..CHANNELS_1];
            for ((place, sum), factor) in place.iter_mut().zip(sums).zip(&self.weights.factor_1) {
                *place = (*place).max(squeezed(sum as f32, *factor));
            }
        }
        let (mut largest, mut totals) = ([0_i32; CHANNELS_2], [0_i64; CHANNELS_2]);
        let mut sums = [0_i32; CHANNELS_2];
        for at in 0..pairs {
            let window = &pooled[at * CHANNELS_1..][..WIDTH_2 * CHANNELS_1];
            scan::products(self.is_wide, window, &self.convolution, &self.weights.bias_2, &mut sums);
            for ((largest, total), sum) in largest.iter_mut().zip(&mut totals).zip(sums) {
                *largest = (*largest).max(sum);
                *total = total.wrapping_add(i64::from(sum.max(0)));
            }
        }
        let mut features = [0_i16; FEATURES];
        for channel in 0..CHANNELS_2 {
            features[channel] = squeezed(largest[channel] as f32, self.weights.factor_2[channel]);
            let mean = totals[channel] as f32 / pairs as f32;
            features[CHANNELS_2 + channel] = squeezed(mean, self.weights.factor_2[CHANNELS_2 + channel]);
        }
        let mut projected = [0_i32; DIMENSIONS];
        scan::products(self.is_wide, &features, &self.projection, &[0; DIMENSIONS], &mut projected);
        let mut direction = [0.0; DIMENSIONS];
        for (dimension, value) in direction.iter_mut().enumerate() {
            *value = projected[dimension] as f32 * self.weights.factor_3[dimension]
                + self.weights.bias_3[dimension];
        }
        Some(Fingerprint::of_direction(&direction))
    }
}

fn squeezed(sum: f32, factor: f32) -> i16 {
    (sum * factor).round().clamp(0.0, 127.0) as i16
}
