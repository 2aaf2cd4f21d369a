//! Before a device is trusted: its kernels give the bits of the naive ones on small random shapes.
//!
//! A driver's compiler stands between the kernels that tests have seen and the device; this shows within some
//! milliseconds that it kept their order of operations.

mod attention;

use zlrs_engine::sampling::uniform;
use zlrs_kernels::naive::{kv::to_half, matmul::matmul};
use zlrs_kernels::{Isa, TensorType, rms_norm, silu_multiply};
use zlrs_model::decoder::{Activation, Decoder, find};
use zlrs_model::source::TensorSource;

use self::attention::Heads;
use crate::queue::{Quantised, Queue};
use crate::weights::{LoadError, Matrix};
use crate::{Address, CudaError, Device, Planes};

const WIDTH: usize = 512;
/// Rows of products: one for each kernel of few rows, one for two of them, and two for that of many.
const ROWS: [usize; 7] = [1, 2, 3, 7, 13, 17, 33];
const OUTPUTS: usize = 19;
const TYPES: [TensorType; 8] = [
    TensorType::F16,
    TensorType::Q4_0,
    TensorType::Q4_1,
    TensorType::Q5_0,
    TensorType::Q8_0,
    TensorType::Q4K,
    TensorType::Q5K,
    TensorType::Q6K,
];

/// Compares kernels of a device with the naive ones.
///
/// # Errors
/// [`CudaError::SelfTest`] for the first that differs; what the device reports.
pub fn self_test<D: Device>(device: D) -> Result<D, CudaError> {
    let mut test = Test { queue: Queue(device), drawn: 0, memory: Vec::new() };
    for tensor_type in TYPES {
        for rows in [1, 3, 17] {
            test.product(tensor_type, WIDTH, rows)?;
        }
    }
    test.rows()?;
    test.attention(Heads { head_dim: 64, group: 3, window: None })?;
    Ok(test.end())
}

/// Compares the kernels that a model's steps use, in its shapes: every type and width of its matrices for every
/// number of rows that has a kernel, and each kind of its attention. Some tenths of a second, most of them on the
/// processor.
///
/// # Errors
/// [`LoadError`]: [`CudaError::SelfTest`] for the first that differs; what the device or the source reports.
pub fn self_test_model<D: Device>(
    device: D,
    decoder: &Decoder,
    source: &dyn TensorSource,
) -> Result<D, LoadError> {
    let mut test = Test { queue: Queue(device), drawn: 1 << 32, memory: Vec::new() };
    let mut matrices = Vec::new();
    for wanted in decoder.tensors().iter().filter(|wanted| wanted.rows > 1) {
        let kind = (find(source, wanted)?.tensor_type, wanted.cols);
        if !matrices.contains(&kind) {
            matrices.push(kind);
            for rows in ROWS {
                test.product(kind.0, kind.1, rows)?;
            }
        }
    }
    let mut attentions = Vec::new();
    for attention in decoder.layers.iter().filter_map(|layer| layer.attention.as_ref()) {
        let group = attention.heads / attention.kv_heads;
        let heads = Heads { head_dim: attention.head_dim, group, window: attention.window };
        if !attentions.contains(&heads) {
            attentions.push(heads);
            test.attention(heads)?;
        }
    }
    Ok(test.end())
}

struct Test<D> {
    queue: Queue<D>,
    /// Random numbers so far.
    drawn: u64,
    memory: Vec<Address>,
}

impl<D: Device> Test<D> {
    /// The device, with its memory given back.
    fn end(self) -> D {
        let Self { queue: Queue(mut device), memory, .. } = self;
        for memory in memory {
            device.free(memory);
        }
        device
    }

    /// Of 0 to 1.
    fn uniform(&mut self) -> f32 {
        self.drawn += 1;
        uniform(1, self.drawn) as f32
    }

    fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.uniform() * 4.0 - 2.0).collect()
    }

    fn put(&mut self, bytes: &[u8]) -> Result<Address, CudaError> {
        let memory = self.queue.0.allocate(bytes.len().max(1))?;
        self.memory.push(memory);
        self.queue.0.upload(bytes, memory)?;
        Ok(memory)
    }

    fn put_floats(&mut self, values: &[f32]) -> Result<Address, CudaError> {
        self.put(&values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
    }

    fn put_numbers(&mut self, values: &[i32]) -> Result<Address, CudaError> {
        self.put(&values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
    }

    fn expect(&self, kernel: &'static str, memory: Address, expected: &[f32]) -> Result<(), CudaError> {
        let mut bytes = vec![0; size_of_val(expected)];
        self.queue.0.download(memory, &mut bytes)?;
        let found =
            bytes.chunks_exact(4).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
        if found.eq(expected.iter().map(|value| value.to_bits())) {
            return Ok(());
        }
        Err(CudaError::SelfTest { kernel })
    }

    fn product(&mut self, tensor_type: TensorType, width: usize, rows: usize) -> Result<(), CudaError> {
        let row_bytes = tensor_type.row_bytes(width).unwrap_or(0);
        let mut bytes: Vec<u8> = (0..OUTPUTS * row_bytes).map(|_| (self.uniform() * 256.0) as u8).collect();
        let fields: &[usize] = match tensor_type {
            TensorType::Q6K => &[208],
            TensorType::Q4_1 | TensorType::Q4K | TensorType::Q5K => &[0, 2],
            _ => &[0],
        };
        for block in bytes.chunks_exact_mut(tensor_type.block_bytes()) {
            for &field in fields {
                // An exponent in the middle: f16 numbers that are neither infinite nor tiny.
                block[field + 1] = (block[field + 1] & 0x8c) | 0x20;
            }
        }
        if tensor_type.is_float() {
            // Ordinary numbers: any bits could be none.
            let values = self.floats(OUTPUTS * width);
            bytes = match tensor_type {
                TensorType::F32 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
                TensorType::F16 => values.iter().flat_map(|&value| to_half(value).to_le_bytes()).collect(),
                _ => values
                    .iter()
                    .flat_map(|value| [(value.to_bits() >> 16) as u8, (value.to_bits() >> 24) as u8])
                    .collect(),
            };
        }
        let x = self.floats(rows * width);
        let bias = self.floats(OUTPUTS);
        let mut expected = vec![0.0; rows * OUTPUTS];
        matmul(tensor_type, &bytes, width, &x, Some(&bias), &mut expected);

        let mut planes = [Address::default(); 5];
        if tensor_type.is_float() {
            planes[0] = self.put(&bytes)?;
        } else {
            let parts = Planes::of_rows(tensor_type, &bytes)?;
            for (plane, part) in planes.iter_mut().zip(parts.each()) {
                *plane = self.put(part)?;
            }
        }
        let matrix = Matrix { tensor_type, rows: OUTPUTS, cols: width, bytes: bytes.len(), planes };
        let (x, bias) = (self.put_floats(&x)?, self.put_floats(&bias)?);
        let out = self.put_floats(&vec![f32::NAN; rows * OUTPUTS])?;
        let quantised = Quantised {
            quants: self.put(&vec![0; rows * width])?,
            scales: self.put(&vec![0; rows * width / 8])?,
            sums: self.put(&vec![0; rows * width / 4])?,
        };
        if !tensor_type.is_float() {
            self.queue.quantise(x, &quantised, rows, width, tensor_type.block_len())?;
        }
        self.queue.product(&matrix, x, &quantised, bias, out, rows)?;
        self.expect("product", out, &expected)
    }

    fn rows(&mut self) -> Result<(), CudaError> {
        let (x, up) = (self.floats(2 * WIDTH), self.floats(2 * WIDTH));
        let mut normed = vec![0.0; 2 * WIDTH];
        for (x, out) in x.chunks_exact(WIDTH).zip(normed.chunks_exact_mut(WIDTH)) {
            rms_norm(Isa::Naive, x, &up[..WIDTH], 1e-6, out);
        }
        let mut gated = vec![0.0; 2 * WIDTH];
        silu_multiply(Isa::Naive, &normed, &up, &mut gated);
        let (x, up) = (self.put_floats(&x)?, self.put_floats(&up)?);
        self.queue.rms_norm(x, up, x, 2, WIDTH, 1e-6)?;
        self.expect("rms_norm", x, &normed)?;
        self.queue.gate(Activation::Silu, x, up, x, 2 * WIDTH)?;
        self.expect("silu_multiply", x, &gated)
    }
}
