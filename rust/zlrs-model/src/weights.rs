//! The weights of a decoder, read from their source straight into the form the kernels use.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use zlrs_kernels::{Isa, Matrix, Pool};

use crate::ModelError;
use crate::decoder::{Attention, Decoder, ExpectedTensor, Mlp, find, names};
use crate::pieces::Pieces;
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

impl AttentionWeights {
    /// Memory of the matrices, in bytes.
    pub fn bytes(&self) -> usize {
        [&self.query, &self.key, &self.value, &self.output].iter().map(|map| map.matrix.bytes()).sum()
    }
}

impl MlpWeights {
    /// Memory of the matrices, in bytes.
    pub fn bytes(&self) -> usize {
        self.gate.bytes() + self.up.bytes() + self.down.bytes()
    }
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
        let layers: usize = self
            .layers
            .iter()
            .map(|layer| -> usize {
                layer.attention.as_ref().map_or(0, AttentionWeights::bytes)
                    + layer.mlp.as_ref().map_or(0, MlpWeights::bytes)
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
        let bias = part.qkv_bias;
        let (file_query, file_kv) = part.file_widths();
        let cut = part.cut.as_ref();
        let query = &Pieces::of(file_query, part.head_dim, cut.map(|cut| cut.heads.as_slice()));
        let kv = &Pieces::of(file_kv, part.head_dim, cut.map(|cut| cut.kv_heads.as_slice()));
        let all = &Pieces::all(width);
        let norm = |wanted: bool, tensor: &str, length: usize| {
            wanted.then(|| self.vector(name(tensor), length)).transpose()
        };
        Ok(AttentionWeights {
            norm: self.vector(name(names::ATTENTION_NORM), width)?,
            query: self.projection(name(names::QUERY), bias.then(|| name(names::QUERY_BIAS)), query, all)?,
            key: self.projection(name(names::KEY), bias.then(|| name(names::KEY_BIAS)), kv, all)?,
            value: self.projection(name(names::VALUE), bias.then(|| name(names::VALUE_BIAS)), kv, all)?,
            output: self.projection(
                name(names::ATTENTION_OUTPUT),
                part.output_bias.then(|| name(names::ATTENTION_OUTPUT_BIAS)),
                all,
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
        rows: &Pieces,
        cols: &Pieces,
    ) -> Result<Projection, ModelError> {
        let matrix = self.part_of_matrix(matrix, rows, cols)?;
        let bias = bias.map(|name| self.vector(name, rows.of)).transpose()?;
        Ok(Projection { matrix, bias: bias.map(|bias| rows.pick(&bias)) })
    }

    fn matrix(&self, name: String, rows: usize, cols: usize) -> Result<Matrix, ModelError> {
        self.part_of_matrix(name, &Pieces::all(rows), &Pieces::all(cols))
    }

    /// The wanted rows and columns of a matrix. Cuts between columns lie on block boundaries.
    fn part_of_matrix(&self, name: String, rows: &Pieces, cols: &Pieces) -> Result<Matrix, ModelError> {
        let info = find(self.source, &ExpectedTensor { name, rows: rows.of, cols: cols.of })?;
        let row_bytes = info.row_bytes as u64;
        let read_rows = |range: Range<usize>, out: &mut [u8]| {
            let mut buffer = Vec::new();
            let mut out = out;
            for piece in rows.inside(range) {
                let start = piece.start as u64 * row_bytes;
                let read = if cols.is_all() {
                    let (now, rest) = std::mem::take(&mut out).split_at_mut(piece.len() * info.row_bytes);
                    out = rest;
                    self.source.read(info, start, now)?;
                    now.len()
                } else {
                    buffer.resize(piece.len() * info.row_bytes, 0);
                    self.source.read(info, start, &mut buffer)?;
                    for row in buffer.chunks_exact(info.row_bytes) {
                        for columns in cols.inside(0..cols.len()) {
                            let bytes = columns.start * info.row_bytes / cols.of
                                ..columns.end * info.row_bytes / cols.of;
                            let (now, rest) = std::mem::take(&mut out).split_at_mut(bytes.len());
                            out = rest;
                            now.copy_from_slice(&row[bytes]);
                        }
                    }
                    buffer.len()
                };
                self.advance(read as u64);
            }
            Ok(())
        };
        Matrix::pack(self.isa, self.pool, info.tensor_type, rows.len(), cols.len(), &read_rows)
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
