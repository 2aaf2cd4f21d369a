//! A re-scoring head: how likely it is that a token is wrong, from the model's state after it and some features.
//!
//! One hidden layer, `sigmoid(out · relu(state · x + scalars · f + bias) + out_bias)`, with x the model's last state
//! divided by its root mean square and f the [features](super::features). Files are safetensors, because these hold
//! numbers and nothing that runs; they may come from anybody.

use std::collections::HashMap;

use half::f16;
use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use super::features::SCALARS;

/// Longest file in bytes.
pub const HEAD_BYTES_LIMIT: usize = 384 << 10;
/// Most numbers in a head.
pub const HEAD_WEIGHTS_LIMIT: usize = 300_000;
/// Widest hidden layer.
pub const HEAD_HIDDEN_LIMIT: usize = 256;
/// The `format` of the metadata.
pub const FORMAT: &str = "zlrs-ring-head-1";
/// Longest value of the metadata that is kept, in bytes.
const METADATA_BYTES_LIMIT: usize = 4096;

/// Why a head file was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeadError {
    /// Too long.
    #[error(
        "a head may have {HEAD_BYTES_LIMIT} bytes, this one has {given}; use fewer hidden units, or int8"
    )]
    TooLong {
        /// Its bytes.
        given: usize,
    },
    /// No safetensors file.
    #[error("this is no safetensors file: {0}")]
    Format(String),
    /// The metadata is of something else.
    #[error(
        "the head's metadata has {name} {given:?}, wanted is {wanted:?}; make heads with `zlrs ring train`"
    )]
    Metadata {
        /// Name of the value.
        name: &'static str,
        /// The value, or nothing.
        given: String,
        /// What it must be.
        wanted: String,
    },
    /// A tensor is missing, too much, or of another type or shape.
    #[error("tensor {name:?}: {problem}")]
    Tensor {
        /// Its name.
        name: String,
        /// What is wrong.
        problem: String,
    },
}

/// A head that was read and checked. All its numbers are finite.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    width: usize,
    pub(super) hidden: usize,
    /// `[hidden][width]`.
    pub(super) state: Vec<f32>,
    /// `[hidden][SCALARS]`.
    pub(super) scalars: Vec<f32>,
    pub(super) bias: Vec<f32>,
    pub(super) out: Vec<f32>,
    pub(super) out_bias: f32,
    threshold: f32,
    metadata: Vec<(String, String)>,
}

impl Head {
    /// A head of `hidden` units with all weights 0, for a model of a width.
    pub(super) fn empty(width: usize, hidden: usize) -> Self {
        Self {
            width,
            hidden,
            state: vec![0.0; width * hidden],
            scalars: vec![0.0; SCALARS * hidden],
            bias: vec![0.0; hidden],
            out: vec![0.0; hidden],
            out_bias: 0.0,
            threshold: 0.5,
            metadata: Vec::new(),
        }
    }

    /// Reads a file. O(bytes).
    ///
    /// # Errors
    /// [`HeadError`] for the first thing that is not exactly as it must be.
    pub fn read(bytes: &[u8]) -> Result<Self, HeadError> {
        if bytes.len() > HEAD_BYTES_LIMIT {
            return Err(HeadError::TooLong { given: bytes.len() });
        }
        let format = |error: safetensors::SafeTensorError| HeadError::Format(error.to_string());
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(format)?;
        let tensors = SafeTensors::deserialize(bytes).map_err(format)?;
        let metadata = header.metadata().clone().unwrap_or_default();
        let text = |name: &'static str| metadata.get(name).cloned().unwrap_or_default();
        let refuse = |name: &'static str, wanted: &str| HeadError::Metadata {
            name,
            given: text(name).chars().take(64).collect(),
            wanted: wanted.to_owned(),
        };
        if text("format") != FORMAT {
            return Err(refuse("format", FORMAT));
        }
        let sum = text("model_sha256");
        if sum.len() != 64 || !sum.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(refuse("model_sha256", "64 hexadecimal digits"));
        }
        let threshold = text("threshold").parse::<f32>().ok().filter(|value| (0.0..=1.0).contains(value));
        let threshold = threshold.ok_or_else(|| refuse("threshold", "a number from 0 to 1"))?;
        let shape = tensors.tensor("state").map_err(|_| missing("state"))?.shape().to_vec();
        let &[hidden, width] = &shape[..] else {
            return Err(wrong(
                "state",
                format!("shape {shape:?}, wanted is [hidden units, the model's width]"),
            ));
        };
        let weights = hidden.saturating_mul(width.saturating_add(SCALARS + 2)).saturating_add(1);
        if !(1..=HEAD_HIDDEN_LIMIT).contains(&hidden) || width == 0 || weights > HEAD_WEIGHTS_LIMIT {
            let problem = format!(
                "{hidden} hidden units for a width of {width}, {weights} numbers; the limits are \
                 {HEAD_HIDDEN_LIMIT} units and {HEAD_WEIGHTS_LIMIT} numbers"
            );
            return Err(wrong("state", problem));
        }
        let mut reader = Reader { tensors: &tensors, seen: Vec::new() };
        let head = Self {
            width,
            hidden,
            state: reader.take("state", &[hidden, width])?,
            scalars: reader.take("scalars", &[hidden, SCALARS])?,
            bias: reader.take("bias", &[hidden])?,
            out: reader.take("out", &[hidden])?,
            out_bias: reader.take("out_bias", &[1])?[0],
            threshold,
            metadata: kept(metadata),
        };
        if let Some(name) =
            tensors.names().into_iter().find(|name| !reader.seen.iter().any(|seen| seen == name))
        {
            return Err(wrong(
                &name.chars().take(64).collect::<String>(),
                "is not part of a head".to_owned(),
            ));
        }
        Ok(head)
    }

    /// The file: f16 throughout, or the large tensors in int8 with a scale each.
    ///
    /// # Errors
    /// [`HeadError::TooLong`] over the limit; [`HeadError::Format`] as the library reports it.
    pub fn write(
        &self,
        int8: bool,
        threshold: f32,
        metadata: HashMap<String, String>,
    ) -> Result<Vec<u8>, HeadError> {
        let mut all = metadata;
        all.insert("format".to_owned(), FORMAT.to_owned());
        all.insert("threshold".to_owned(), threshold.to_string());
        let (hidden, width) = (self.hidden, self.width);
        let parts: [(&str, &[f32], Vec<usize>, bool); 5] = [
            ("state", &self.state, vec![hidden, width], int8),
            ("scalars", &self.scalars, vec![hidden, SCALARS], int8),
            ("bias", &self.bias, vec![hidden], false),
            ("out", &self.out, vec![hidden], false),
            ("out_bias", std::slice::from_ref(&self.out_bias), vec![1], false),
        ];
        let mut buffers = Vec::new();
        for (name, values, shape, is_int8) in parts {
            if is_int8 {
                let most = values.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
                let scale = if most > 0.0 { most / 127.0 } else { 1.0 };
                let bytes = values.iter().map(|value| (value / scale).round() as i8 as u8).collect();
                buffers.push((name.to_owned(), Dtype::I8, shape, bytes));
                let scale = scale.to_le_bytes().to_vec();
                buffers.push((format!("{name}.scale"), Dtype::F32, vec![1], scale));
            } else {
                let bytes = values.iter().flat_map(|&value| f16::from_f32(value).to_le_bytes()).collect();
                buffers.push((name.to_owned(), Dtype::F16, shape, bytes));
            }
        }
        let format = |error: safetensors::SafeTensorError| HeadError::Format(error.to_string());
        let views = buffers
            .iter()
            .map(|(name, dtype, shape, bytes)| Ok((name, TensorView::new(*dtype, shape.clone(), bytes)?)))
            .collect::<Result<Vec<_>, _>>()
            .map_err(format)?;
        let bytes = safetensors::serialize(views, Some(all)).map_err(format)?;
        if bytes.len() > HEAD_BYTES_LIMIT {
            return Err(HeadError::TooLong { given: bytes.len() });
        }
        Ok(bytes)
    }

    /// Values of the model's state that it reads.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Numbers in it.
    pub fn weights(&self) -> usize {
        self.hidden * (self.width + SCALARS + 2) + 1
    }

    /// The score from which on a token is marked.
    pub fn threshold(&self) -> f32 {
        self.threshold
    }

    /// What its file says of it, by name.
    pub fn metadata(&self) -> &[(String, String)] {
        &self.metadata
    }

    /// SHA-256 of the model file it was made for, in hexadecimal digits.
    pub fn model_sha256(&self) -> &str {
        self.metadata.iter().find(|(name, _)| name == "model_sha256").map_or("", |(_, value)| value)
    }

    /// 0 … 1, how likely the token is wrong, from the state after it, `[width]`, and its features. O(weights).
    pub fn score(&self, state: &[f32], features: &[f32; SCALARS]) -> f32 {
        let scale = inverse_rms(state);
        let mut sum = self.out_bias;
        for unit in 0..self.hidden {
            let row = &self.state[unit * self.width..][..self.width];
            let own = &self.scalars[unit * SCALARS..][..SCALARS];
            let value = self.bias[unit] + scale * dot(row, state) + dot(own, features);
            sum += self.out[unit] * value.max(0.0);
        }
        sigmoid(sum)
    }
}

/// 1 / the root mean square of a state.
pub(super) fn inverse_rms(state: &[f32]) -> f32 {
    let mean = state.iter().map(|value| value * value).sum::<f32>() / state.len().max(1) as f32;
    (mean + 1e-6).sqrt().recip()
}

/// Sum of products over eight running sums, which the compiler keeps in one register.
pub(super) fn dot(left: &[f32], right: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 8];
    let (left, right) = (left.chunks_exact(8), right.chunks_exact(8));
    let rest: f32 = left.remainder().iter().zip(right.remainder()).map(|(a, b)| a * b).sum();
    for (left, right) in left.zip(right) {
        for (sum, (a, b)) in sums.iter_mut().zip(left.iter().zip(right)) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f32>() + rest
}

pub(super) fn sigmoid(value: f32) -> f32 {
    1.0 / (1.0 + (-value).exp())
}

/// Takes tensors out of a file, each checked.
struct Reader<'file> {
    tensors: &'file SafeTensors<'file>,
    seen: Vec<String>,
}

impl Reader<'_> {
    fn take(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, HeadError> {
        let tensor = self.tensors.tensor(name).map_err(|_| missing(name))?;
        self.seen.push(name.to_owned());
        if tensor.shape() != shape {
            return Err(wrong(name, format!("shape {:?}, wanted is {shape:?}", tensor.shape())));
        }
        let values: Vec<f32> = match tensor.dtype() {
            Dtype::F16 => {
                let pairs = tensor.data().chunks_exact(2);
                pairs.map(|pair| f16::from_le_bytes([pair[0], pair[1]]).to_f32()).collect()
            }
            Dtype::I8 => {
                let scale = self.scale(name)?;
                tensor.data().iter().map(|&byte| f32::from(byte as i8) * scale).collect()
            }
            other => return Err(wrong(name, format!("type {other:?}; allowed: F16, I8 with a scale"))),
        };
        if let Some(index) = values.iter().position(|value| !value.is_finite()) {
            return Err(wrong(name, format!("number {index} is {}, all must be finite", values[index])));
        }
        Ok(values)
    }

    fn scale(&mut self, of: &str) -> Result<f32, HeadError> {
        let name = format!("{of}.scale");
        let tensor = self.tensors.tensor(&name).map_err(|_| missing(&name))?;
        let bytes: Option<[u8; 4]> = tensor.data().try_into().ok();
        let value = bytes.filter(|_| tensor.dtype() == Dtype::F32 && tensor.shape() == [1]);
        let value = value.map(f32::from_le_bytes).filter(|value| value.is_finite() && *value > 0.0);
        let value = value.ok_or_else(|| wrong(&name, "must be one finite F32 above 0".to_owned()))?;
        self.seen.push(name);
        Ok(value)
    }
}

fn missing(name: &str) -> HeadError {
    wrong(name, "is missing".to_owned())
}

fn wrong(name: &str, problem: String) -> HeadError {
    HeadError::Tensor { name: name.to_owned(), problem }
}

fn kept(metadata: HashMap<String, String>) -> Vec<(String, String)> {
    let fits = |(name, value): &(String, String)| name.len() + value.len() <= METADATA_BYTES_LIMIT;
    let mut kept: Vec<_> = metadata.into_iter().filter(fits).collect();
    kept.sort();
    kept
}
