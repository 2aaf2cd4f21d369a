//! The network that predicts what later layers contribute.

use super::features::{FEATURES, Features};

/// Units of the hidden layer.
pub const UNITS: usize = 12;
/// Weights of a head: scales and shifts of the features, two layers, a bias each.
pub const HEAD_WEIGHTS: usize = 2 * FEATURES + UNITS * (FEATURES + 1) + UNITS + 1;
const _: () = assert!(HEAD_WEIGHTS <= 256, "a head is small");

/// A perceptron with one hidden layer of rectified units. Its result is the predicted log-odds that the model's first
/// choice differs from that of the state so far: the lower, the less is left to contribute.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// Added to each feature, before the scale.
    pub shift: [f32; FEATURES],
    /// Factor of each feature.
    pub scale: [f32; FEATURES],
    /// `[units][features]`.
    pub hidden: [[f32; FEATURES]; UNITS],
    /// One a unit.
    pub hidden_bias: [f32; UNITS],
    /// One a unit.
    pub output: [f32; UNITS],
    /// Of the result.
    pub output_bias: f32,
}

impl Head {
    /// A head whose weights are all zero.
    pub const ZERO: Self = Self {
        shift: [0.0; FEATURES],
        scale: [0.0; FEATURES],
        hidden: [[0.0; FEATURES]; UNITS],
        hidden_bias: [0.0; UNITS],
        output: [0.0; UNITS],
        output_bias: 0.0,
    };

    /// The predicted contribution of the later layers. Plain f32 operations in one order: the same bits everywhere.
    pub fn predict(&self, features: &Features) -> f32 {
        let normal = self.normal(features);
        let mut result = self.output_bias;
        for unit in 0..UNITS {
            result += self.output[unit] * self.unit(&normal, unit).max(0.0);
        }
        result
    }

    /// The features in units of their own spread, bounded so that an outlier stays one.
    pub(super) fn normal(&self, features: &Features) -> Features {
        std::array::from_fn(|index| {
            ((features[index] + self.shift[index]) * self.scale[index]).clamp(-8.0, 8.0)
        })
    }

    /// A unit before it is rectified.
    pub(super) fn unit(&self, normal: &Features, unit: usize) -> f32 {
        let products = self.hidden[unit].iter().zip(normal).map(|(weight, value)| weight * value);
        products.fold(self.hidden_bias[unit], |sum, product| sum + product)
    }

    /// All weights in the order of the file.
    pub fn weights(&self) -> Vec<f32> {
        let mut all = Vec::with_capacity(HEAD_WEIGHTS);
        all.extend(self.shift);
        all.extend(self.scale);
        all.extend(self.hidden.as_flattened());
        all.extend(self.hidden_bias);
        all.extend(self.output);
        all.push(self.output_bias);
        all
    }

    /// The reverse of [`Head::weights`]; `None` for another number of them.
    pub fn from_weights(weights: &[f32]) -> Option<Self> {
        let weights: &[f32; HEAD_WEIGHTS] = weights.try_into().ok()?;
        let mut rest = weights.iter().copied();
        let mut next = || rest.next().unwrap_or_default();
        Some(Self {
            shift: std::array::from_fn(|_| next()),
            scale: std::array::from_fn(|_| next()),
            hidden: std::array::from_fn(|_| std::array::from_fn(|_| next())),
            hidden_bias: std::array::from_fn(|_| next()),
            output: std::array::from_fn(|_| next()),
            output_bias: next(),
        })
    }
}
