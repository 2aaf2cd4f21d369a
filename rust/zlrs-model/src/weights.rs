//! The weights of a decoder, read from their source straight into the form the kernels use.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use zlrs_kernels::{Isa, Matrix, Pool};

use crate::ModelError;
use crate::decoder::{Attention, Decoder, ExpectedTensor, Mlp, find, names};
use crate::source::{TensorSource, read_floats};

/// All weights of a model. What a decoder's mask empties is `None` here and takes no memory.
pub struct Weights {
    /// One row a token.
    pub embedding: Matrix,
    /// The layers in order.
    pub layers: Vec<LayerWeights>,
    /// The norm before the head, `width` values.
    pub output_norm: Vec<f32>,
    /// The head, one row a token; `None` if the embedding serves as head.
    pub output: Option<Matrix>,
}

/// The weights of one layer.
pub struct LayerWeights {
    /// Self-attention.
    pub attention: Option<AttentionWeights>,
    /// The gated MLP.
    pub mlp: Option<MlpWeights>,
}

/// A linear map: `y = matrix · x + bias`.
pub struct Projection {
    /// One row an output.
    pub matrix: Matrix,
    /// One value an output.
    pub bias: Option<Vec<f32>>,
}

/// Weights of self-attention.
pub struct AttentionWeights {
    /// The norm of its input, `width` values.
    pub norm: Vec<f32>,
    /// Makes the queries.
    pub query: Projection,
    /// Makes the keys.
    pub key: Projection,
    /// Makes the values.
    pub value: Projection,
    /// Brings the heads' results together.
    pub output: Projection,
    /// The norm of each query head, `head_dim` values.
    pub query_norm: Option<Vec<f32>>,
    /// The norm of each key head, `head_dim` values.
    pub key_norm: Option<Vec<f32>>,
    /// The norm of its output, `width` values.
    pub post_norm: Option<Vec<f32>>,
}

/// Weights of the gated MLP.
pub struct MlpWeights {
    /// The norm of its input, `width` values.
    pub norm: Vec<f32>,
    /// The gate, before its activation.
    pub gate: Matrix,
    /// What the gate lets through.
    pub up: Matrix,
    /// Back to the model's width.
    pub down: Matrix,
    /// The norm of its output, `width` values.
    pub post_norm: Option<Vec<f32>>,
}

impl Weights {
    /// Reads and packs all weights of the description. Tensors are read in slices by the pool's workers, so
    /// memory is that of the packed weights and a few megabytes. `progress(done, total)` is called with bytes
    /// of the source after each tensor and at most every few megabytes inside it, from any worker.
    ///
    /// # Errors
    /// [`ModelError::MissingTensor`], [`ModelError::BadShape`], [`ModelError::UnsupportedTensorType`] before
    /// anything is read; [`ModelError::Pack`] and [`ModelError::Io`] while reading.
    pub fn load(
        decoder: &Decoder,
        source: &dyn TensorSource,
        isa: Isa,
        pool: &Pool,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<Self, ModelError> {
        let mut total = 0;
        for wanted in decoder.tensors() {
            total += find(source, &wanted)?.bytes;
        }
        let loader = Loader { source, isa, pool, progress, done: AtomicU64::new(0), total };
        progress(0, total);
        let embedding = loader.matrix(names::EMBEDDING.into(), decoder.vocabulary, decoder.width)?;
        let layers = decoder
            .layers
            .iter()
            .enumerate()
            .map(|(index, layer)| {
                let attention = layer.attention.as_ref();
                let mlp = layer.mlp.as_ref();
                Ok(LayerWeights {
                    attention: attention
                        .map(|part| loader.attention(index, part, decoder.width))
                        .transpose()?,
                    mlp: mlp.map(|part| loader.mlp(index, part, decoder.width)).transpose()?,
                })
            })
            .collect::<Result<_, ModelError>>()?;
        let output_norm = loader.vector(names::OUTPUT_NORM.into(), decoder.width)?;
        let output = if decoder.tied_head {
            None
        } else {
            Some(loader.matrix(names::OUTPUT.into(), decoder.vocabulary, decoder.width)?)
        };
        progress(total, total);
        Ok(Self { embedding, layers, output_norm, output })
    }

    /// The head: its own matrix, or the embedding.
    pub fn head(&self) -> &Matrix {
        self.output.as_ref().unwrap_or(&self.embedding)
    }

    /// Memory of all matrices, in bytes. Norms and biases are below a thousandth of it.
    pub fn bytes(&self) -> usize {
        let attention = |part: &AttentionWeights| {
            [&part.query, &part.key, &part.value, &part.output].map(|map| map.matrix.bytes()).iter().sum()
        };
        let mlp = |part: &MlpWeights| part.gate.bytes() + part.up.bytes() + part.down.bytes();
        let layers: usize = self
            .layers
            .iter()
            .map(|layer| -> usize {
                layer.attention.as_ref().map_or(0, attention) + layer.mlp.as_ref().map_or(0, mlp)
            })
            .sum();
        self.embedding.bytes() + self.output.as_ref().map_or(0, Matrix::bytes) + layers
    }
}

struct Loader<'a> {
    source: &'a dyn TensorSource,
    isa: Isa,
    pool: &'a Pool,
    progress: &'a (dyn Fn(u64, u64) + Sync),
    done: AtomicU64,
    total: u64,
}

impl Loader<'_> {
    fn attention(
        &self,
        layer: usize,
        part: &Attention,
        width: usize,
    ) -> Result<AttentionWeights, ModelError> {
        let name = |tensor: &str| names::layer(layer, tensor);
        let (query, kv, bias) = (part.query_width(), part.kv_width(), part.qkv_bias);
        let norm = |wanted: bool, tensor: &str, length: usize| {
            wanted.then(|| self.vector(name(tensor), length)).transpose()
        };
        Ok(AttentionWeights {
            norm: self.vector(name(names::ATTENTION_NORM), width)?,
            query: self.projection(
                name(names::QUERY),
                bias.then(|| name(names::QUERY_BIAS)),
                query,
                width,
            )?,
            key: self.projection(name(names::KEY), bias.then(|| name(names::KEY_BIAS)), kv, width)?,
            value: self.projection(name(names::VALUE), bias.then(|| name(names::VALUE_BIAS)), kv, width)?,
            output: self.projection(
                name(names::ATTENTION_OUTPUT),
                part.output_bias.then(|| name(names::ATTENTION_OUTPUT_BIAS)),
                width,
                query,
            )?,
            query_norm: norm(part.qk_norm, names::QUERY_NORM, part.head_dim)?,
            key_norm: norm(part.qk_norm, names::KEY_NORM, part.head_dim)?,
            post_norm: norm(part.post_norm, names::ATTENTION_POST_NORM, width)?,
        })
    }

    fn mlp(&self, layer: usize, part: &Mlp, width: usize) -> Result<MlpWeights, ModelError> {
        let name = |tensor: &str| names::layer(layer, tensor);
        Ok(MlpWeights {
            norm: self.vector(name(names::MLP_NORM), width)?,
            gate: self.matrix(name(names::GATE), part.width, width)?,
            up: self.matrix(name(names::UP), part.width, width)?,
            down: self.matrix(name(names::DOWN), width, part.width)?,
            post_norm: part.post_norm.then(|| self.vector(name(names::MLP_POST_NORM), width)).transpose()?,
        })
    }

    fn projection(
        &self,
        matrix: String,
        bias: Option<String>,
        rows: usize,
        cols: usize,
    ) -> Result<Projection, ModelError> {
        let matrix = self.matrix(matrix, rows, cols)?;
        let bias = bias.map(|name| self.vector(name, rows)).transpose()?;
        Ok(Projection { matrix, bias })
    }

    fn matrix(&self, name: String, rows: usize, cols: usize) -> Result<Matrix, ModelError> {
        let info = find(self.source, &ExpectedTensor { name, rows, cols })?;
        let row_bytes = info.row_bytes as u64;
        let read_rows = |range: Range<usize>, out: &mut [u8]| {
            self.source.read(info, range.start as u64 * row_bytes, out)?;
            self.advance(out.len() as u64);
            Ok(())
        };
        Matrix::pack(self.isa, self.pool, info.tensor_type, rows, cols, &read_rows)
            .map_err(|source| ModelError::Pack { name: info.name.clone(), source })
    }

    fn vector(&self, name: String, length: usize) -> Result<Vec<f32>, ModelError> {
        let info = find(self.source, &ExpectedTensor { name, rows: 1, cols: length })?;
        let values = read_floats(self.source, info)?;
        self.advance(info.bytes);
        Ok(values)
    }

    fn advance(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        (self.progress)(done.min(self.total), self.total);
    }
}
