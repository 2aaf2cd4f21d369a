//! The weights of a decoder in device memory.

use std::ops::Range;

use zlrs_kernels::{TensorType, naive};
use zlrs_model::ModelError;
use zlrs_model::decoder::{Attention, Decoder, ExpectedTensor, Mlp, find, names};
use zlrs_model::source::TensorSource;

use crate::{Address, CudaError, Device, Planes};

/// Bytes of the file read at a time, about.
const READ_BYTES: usize = 4 << 20;
/// Where planes of a matrix begin: a multiple of what the widest load needs.
const ALIGNMENT: usize = 256;

/// Why weights did not get onto the device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The source's fault.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The device's.
    #[error(transparent)]
    Device(#[from] CudaError),
    /// A size or an angle that cannot be.
    #[error(transparent)]
    Kernel(#[from] zlrs_kernels::KernelError),
}

/// A matrix: the planes of `cuda/kernels/weights.cuh`, or the file's bytes in the first of them for
/// floating-point types.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matrix {
    pub tensor_type: TensorType,
    pub rows: usize,
    pub cols: usize,
    /// Bytes of all planes.
    pub bytes: usize,
    pub planes: [Address; 5],
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Projection {
    pub matrix: Matrix,
    /// No memory where there is none.
    pub bias: Address,
}

/// Addresses of norms that a layer does not have are no memory.
#[derive(Debug)]
pub(crate) struct AttentionWeights {
    pub norm: Address,
    pub query: Projection,
    pub key: Projection,
    pub value: Projection,
    pub output: Projection,
    pub query_norm: Address,
    pub key_norm: Address,
    pub post_norm: Address,
}

#[derive(Debug)]
pub(crate) struct MlpWeights {
    pub norm: Address,
    pub gate: Matrix,
    pub up: Matrix,
    pub down: Matrix,
    pub post_norm: Address,
}

impl AttentionWeights {
    pub fn bytes(&self) -> usize {
        [&self.query, &self.key, &self.value, &self.output].map(|part| part.matrix.bytes).iter().sum()
    }
}

impl MlpWeights {
    pub fn bytes(&self) -> usize {
        self.gate.bytes + self.up.bytes + self.down.bytes
    }
}

#[derive(Debug)]
pub(crate) struct Weights {
    pub embedding: Matrix,
    pub layers: Vec<(Option<AttentionWeights>, Option<MlpWeights>)>,
    pub output_norm: Address,
    pub output: Option<Matrix>,
}

impl Weights {
    /// Reads all weights of the description and lays them out on the device. O(weights), on the calling thread.
    pub fn load<D: Device>(
        device: &mut D,
        decoder: &Decoder,
        source: &dyn TensorSource,
        progress: &dyn Fn(u64, u64),
    ) -> Result<Self, LoadError> {
        let mut total = 0;
        for wanted in decoder.tensors() {
            total += find(source, &wanted)?.bytes;
        }
        let mut loader = Loader { device, source, progress, done: 0, total };
        let embedding = loader.matrix(names::EMBEDDING.into(), decoder.vocabulary, decoder.width)?;
        let mut layers = Vec::with_capacity(decoder.layers.len());
        for (index, layer) in decoder.layers.iter().enumerate() {
            let attention = layer.attention.as_ref();
            let attention = attention.map(|part| loader.attention(index, part, decoder.width)).transpose()?;
            let mlp = layer.mlp.as_ref().map(|part| loader.mlp(index, part, decoder.width)).transpose()?;
            layers.push((attention, mlp));
        }
        let output_norm = loader.vector(names::OUTPUT_NORM.into(), decoder.width)?;
        let output = if decoder.tied_head {
            None
        } else {
            Some(loader.matrix(names::OUTPUT.into(), decoder.vocabulary, decoder.width)?)
        };
        progress(total, total);
        Ok(Self { embedding, layers, output_norm, output })
    }

    pub fn head(&self) -> &Matrix {
        self.output.as_ref().unwrap_or(&self.embedding)
    }

    /// Bytes that a step reads whatever its rows: everything but an embedding that is not the head too.
    pub fn bytes_of_a_step(&self) -> usize {
        let layers = self.layers.iter().map(|(attention, mlp)| {
            attention.as_ref().map_or(0, AttentionWeights::bytes) + mlp.as_ref().map_or(0, MlpWeights::bytes)
        });
        layers.sum::<usize>() + self.head().bytes
    }

    /// Bytes of all matrices.
    pub fn bytes(&self) -> usize {
        self.bytes_of_a_step() + if self.output.is_some() { self.embedding.bytes } else { 0 }
    }
}

struct Loader<'a, D: Device> {
    device: &'a mut D,
    source: &'a dyn TensorSource,
    progress: &'a dyn Fn(u64, u64),
    done: u64,
    total: u64,
}

impl<D: Device> Loader<'_, D> {
    fn attention(
        &mut self,
        layer: usize,
        part: &Attention,
        width: usize,
    ) -> Result<AttentionWeights, LoadError> {
        let name = |tensor: &str| names::layer(layer, tensor);
        let (query, kv, bias) = (part.query_width(), part.kv_width(), part.qkv_bias);
        let output_bias = part.output_bias.then_some(names::ATTENTION_OUTPUT_BIAS);
        let bias_of = |tensor| bias.then_some(tensor);
        let (head_norm, post_norm) = (part.qk_norm, part.post_norm);
        Ok(AttentionWeights {
            norm: self.vector(name(names::ATTENTION_NORM), width)?,
            query: self.projection(layer, names::QUERY, bias_of(names::QUERY_BIAS), query, width)?,
            key: self.projection(layer, names::KEY, bias_of(names::KEY_BIAS), kv, width)?,
            value: self.projection(layer, names::VALUE, bias_of(names::VALUE_BIAS), kv, width)?,
            output: self.projection(layer, names::ATTENTION_OUTPUT, output_bias, width, query)?,
            query_norm: self.vector_if(head_norm, name(names::QUERY_NORM), part.head_dim)?,
            key_norm: self.vector_if(head_norm, name(names::KEY_NORM), part.head_dim)?,
            post_norm: self.vector_if(post_norm, name(names::ATTENTION_POST_NORM), width)?,
        })
    }

    fn mlp(&mut self, layer: usize, part: &Mlp, width: usize) -> Result<MlpWeights, LoadError> {
        let name = |tensor: &str| names::layer(layer, tensor);
        Ok(MlpWeights {
            norm: self.vector(name(names::MLP_NORM), width)?,
            gate: self.matrix(name(names::GATE), part.width, width)?,
            up: self.matrix(name(names::UP), part.width, width)?,
            down: self.matrix(name(names::DOWN), width, part.width)?,
            post_norm: self.vector_if(part.post_norm, name(names::MLP_POST_NORM), width)?,
        })
    }

    fn projection(
        &mut self,
        layer: usize,
        matrix: &str,
        bias: Option<&str>,
        rows: usize,
        cols: usize,
    ) -> Result<Projection, LoadError> {
        let matrix = self.matrix(names::layer(layer, matrix), rows, cols)?;
        let bias = bias.map(|bias| self.vector(names::layer(layer, bias), rows)).transpose()?;
        Ok(Projection { matrix, bias: bias.unwrap_or_default() })
    }

    fn vector_if(&mut self, wanted: bool, name: String, length: usize) -> Result<Address, LoadError> {
        if wanted { self.vector(name, length) } else { Ok(Address::default()) }
    }

    /// A norm or a bias, as f32.
    fn vector(&mut self, name: String, length: usize) -> Result<Address, LoadError> {
        let info = find(self.source, &ExpectedTensor { name, rows: 1, cols: length })?;
        let mut bytes = vec![0; info.row_bytes];
        self.source.read(info, 0, &mut bytes).map_err(read_failed)?;
        let mut values = vec![0.0; length];
        naive::decode::decode_row(info.tensor_type, &bytes, &mut values);
        let memory = self.device.allocate(length * size_of::<f32>())?;
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.device.upload(&bytes, memory)?;
        self.advance(info.bytes);
        Ok(memory)
    }

    fn matrix(&mut self, name: String, rows: usize, cols: usize) -> Result<Matrix, LoadError> {
        let info = find(self.source, &ExpectedTensor { name, rows, cols })?;
        let tensor_type = info.tensor_type;
        let sizes = plane_sizes(tensor_type, rows * (cols / tensor_type.block_len()))?;
        let room: usize = sizes.iter().map(|size| size.next_multiple_of(ALIGNMENT)).sum();
        let memory = self.device.allocate(room)?;
        let mut planes = [Address::default(); 5];
        let mut start = 0;
        for (plane, size) in planes.iter_mut().zip(sizes) {
            if size > 0 {
                *plane = memory.offset(start);
                start += size.next_multiple_of(ALIGNMENT);
            }
        }
        let rows_at_once = (READ_BYTES / info.row_bytes).max(1);
        let mut buffer = vec![0; rows_at_once.min(rows) * info.row_bytes];
        let mut filled = [0; 5];
        for first in (0..rows).step_by(rows_at_once) {
            let range: Range<usize> = first..rows.min(first + rows_at_once);
            let bytes = &mut buffer[..range.len() * info.row_bytes];
            self.source.read(info, (first * info.row_bytes) as u64, bytes).map_err(read_failed)?;
            let parts =
                if tensor_type.is_float() { None } else { Some(Planes::of_rows(tensor_type, bytes)?) };
            let parts: [&[u8]; 5] = match &parts {
                None => [bytes, &[], &[], &[], &[]],
                Some(planes) => planes.each(),
            };
            for ((plane, filled), part) in planes.iter().zip(&mut filled).zip(parts) {
                if !part.is_empty() {
                    self.device.upload(part, plane.offset(*filled))?;
                    *filled += part.len();
                }
            }
            self.advance(bytes.len() as u64);
        }
        Ok(Matrix { tensor_type, rows, cols, bytes: sizes.iter().sum(), planes })
    }

    fn advance(&mut self, bytes: u64) {
        self.done += bytes;
        (self.progress)(self.done.min(self.total), self.total);
    }
}

/// Bytes of each plane of so many blocks.
fn plane_sizes(tensor_type: TensorType, blocks: usize) -> Result<[usize; 5], CudaError> {
    if tensor_type.is_float() {
        return Ok([blocks * tensor_type.block_bytes(), 0, 0, 0, 0]);
    }
    let block = Planes::of_rows(tensor_type, &vec![0; tensor_type.block_bytes()])?;
    Ok(block.each().map(|plane| plane.len() * blocks))
}

fn read_failed(source: std::io::Error) -> ModelError {
    ModelError::Io { action: "read a tensor", source }
}
