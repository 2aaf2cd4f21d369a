//! Before a device is trusted: its kernels give the bits of the naive ones on small random shapes.
//!
//! A driver's compiler stands between the kernels that tests have seen and the device; this shows within some
//! milliseconds that it kept their order of operations.

use zlrs_engine::sampling::uniform;
use zlrs_kernels::naive::{kv::to_half, matmul::matmul};
use zlrs_kernels::{
    AttentionRow, Isa, KvLayout, Pool, Scratch, TensorType, attention, rms_norm, silu_multiply,
};
use zlrs_model::decoder::Activation;

use crate::queue::{Attend, KvPlace, Parts, Quantised, Queue, RowPlaces};
use crate::weights::Matrix;
use crate::{Address, CudaError, Device, Planes};

const WIDTH: usize = 512;
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
        for rows in [1, 3, 9] {
            test.product(tensor_type, rows)?;
        }
    }
    test.rows()?;
    test.attention()?;
    let Test { queue: Queue(mut device), memory, .. } = test;
    for memory in memory {
        device.free(memory);
    }
    Ok(device)
}

struct Test<D> {
    queue: Queue<D>,
    /// Random numbers so far.
    drawn: u64,
    memory: Vec<Address>,
}

impl<D: Device> Test<D> {
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

    fn product(&mut self, tensor_type: TensorType, rows: usize) -> Result<(), CudaError> {
        let row_bytes = tensor_type.row_bytes(WIDTH).unwrap_or(0);
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
        let x = self.floats(rows * WIDTH);
        let bias = self.floats(OUTPUTS);
        let mut expected = vec![0.0; rows * OUTPUTS];
        matmul(tensor_type, &bytes, WIDTH, &x, Some(&bias), &mut expected);

        let mut planes = [Address::default(); 5];
        if tensor_type.is_float() {
            planes[0] = self.put(&bytes)?;
        } else {
            let parts = Planes::of_rows(tensor_type, &bytes)?;
            for (plane, part) in planes.iter_mut().zip(parts.each()) {
                *plane = self.put(part)?;
            }
        }
        let matrix = Matrix { tensor_type, rows: OUTPUTS, cols: WIDTH, bytes: bytes.len(), planes };
        let (x, bias) = (self.put_floats(&x)?, self.put_floats(&bias)?);
        let out = self.put_floats(&vec![f32::NAN; rows * OUTPUTS])?;
        let quantised = Quantised {
            quants: self.put(&vec![0; rows * WIDTH])?,
            scales: self.put(&vec![0; rows * WIDTH / 8])?,
            sums: self.put(&vec![0; rows * WIDTH / 4])?,
        };
        if !tensor_type.is_float() {
            self.queue.quantise(x, &quantised, rows, WIDTH, tensor_type.block_len())?;
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

    /// Two rows of a sequence that reach into a second split, together and with splits apart.
    fn attention(&mut self) -> Result<(), CudaError> {
        const HEAD_DIM: usize = 64;
        const GROUP: usize = 3;
        let failed = |error: zlrs_kernels::KernelError| CudaError::Driver {
            call: "the reference of the self-test",
            what: error.to_string(),
        };
        let layout = KvLayout::new(&[(1, HEAD_DIM)]).map_err(failed)?;
        let positions = [520_i32, 521];
        let blocks: Vec<u32> = (0..33).rev().collect();
        let arena: Vec<u16> =
            (0..33 * layout.block_len).map(|_| to_half(self.uniform() * 4.0 - 2.0)).collect();
        let query = self.floats(2 * GROUP * HEAD_DIM);
        let mut expected = vec![0.0; query.len()];
        let rows = positions.map(|position| AttentionRow {
            blocks: &blocks,
            position: position as u32,
            window: None,
        });
        let pool = Pool::new(1).map_err(failed)?;
        let scratch = &mut Scratch::new();
        let (scale, isa) = (0.125, Isa::Naive);
        attention(&pool, isa, &arena, &layout, 0, GROUP, scale, &rows, &query, &mut expected, scratch)
            .map_err(failed)?;

        let arena = self.put(&arena.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())?;
        let numbers: Vec<i32> = blocks.iter().map(|&block| block as i32).collect();
        let places = RowPlaces {
            positions: self.put_numbers(&positions)?,
            tables: self.put_numbers(&[0, 0])?,
            block_table: self.put_numbers(&numbers)?,
        };
        let place = KvPlace {
            arena,
            block_len: layout.block_len,
            key_offset: layout.layers[0].key_offset,
            value_offset: layout.layers[0].value_offset,
            kv_heads: 1,
            head_dim: HEAD_DIM,
        };
        let slopes = Address::default();
        let attend = Attend { place, mixed: None, slopes, group: GROUP, window: 0, scale };
        let group = GROUP as i32;
        let together = self.put_numbers(&[0, 2, 0, group])?;
        let alone = self.put_numbers(&[0, 1, 0, group, 1, 1, 0, group])?;
        let partials = self.put_floats(&vec![f32::NAN; 2 * GROUP * 2 * (HEAD_DIM + 2)])?;
        let query = self.put_floats(&query)?;
        for (memory, count, queries, splits) in [(together, 1, 2 * GROUP, 1), (alone, 2, GROUP, 2)] {
            let out = self.put_floats(&vec![f32::NAN; expected.len()])?;
            let parts = Parts { memory, count, queries, splits, partials };
            self.queue.attention(query, out, &attend, &parts, &places, 2)?;
            self.expect("attention", out, &expected)?;
        }
        Ok(())
    }
}
