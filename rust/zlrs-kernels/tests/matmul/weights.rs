//! Weights and activations for tests, and products by every path.

use zlrs_kernels::{Isa, Matrix, Pool, Scratch, TensorType, matmul, naive};

/// A small generator (xorshift) that gives the same numbers everywhere.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, limit: usize) -> usize {
        ((self.next() >> 32) as usize * limit) >> 32
    }

    /// Between -1 and 1.
    pub fn float(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}

/// What fills the integers of a block.
#[derive(Debug, Clone, Copy)]
pub enum Fill {
    Random,
    Byte(u8),
}

/// What the f16 scales are.
#[derive(Debug, Clone, Copy)]
pub enum Scales {
    /// Normal numbers of middling size, now and then a denormal.
    Usual,
    /// Anything: huge, zero, infinite, NaN.
    Anything,
}

impl Scales {
    fn next(self, random: &mut Random) -> u16 {
        let sign = (random.next() & 0x8000) as u16;
        match self {
            Self::Usual if random.below(8) == 0 => sign | 0x0155,
            Self::Usual => sign | (0x1000 + random.below(0x1000) as u16),
            Self::Anything => match random.below(6) {
                0 => sign | 0x7bff, // the largest
                1 => sign,          // zero
                2 => sign | 0x0001, // the smallest
                3 => random.next() as u16,
                _ => sign | (0x1000 + random.below(0x1000) as u16),
            },
        }
    }
}

/// Byte offsets of the f16 numbers in a block.
fn half_offsets(tensor_type: TensorType) -> &'static [usize] {
    match tensor_type {
        TensorType::F32 | TensorType::F16 | TensorType::BF16 => &[],
        TensorType::Q4_0 | TensorType::Q5_0 | TensorType::Q8_0 => &[0],
        TensorType::Q4_1 | TensorType::Q4K | TensorType::Q5K => &[0, 2],
        TensorType::Q6K => &[208],
    }
}

/// File bytes of a matrix.
pub fn file_rows(
    tensor_type: TensorType,
    rows: usize,
    cols: usize,
    fill: Fill,
    scales: Scales,
    random: &mut Random,
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(rows * tensor_type.row_bytes(cols).unwrap());
    for _ in 0..rows * cols / tensor_type.block_len() {
        let start = bytes.len();
        match (tensor_type, scales) {
            (TensorType::F32, Scales::Usual) => bytes.extend((random.float() * 3.0).to_le_bytes()),
            (TensorType::F16, Scales::Usual) => bytes.extend(scales.next(random).to_le_bytes()),
            (TensorType::BF16, Scales::Usual) => {
                bytes.extend(((random.float().to_bits() >> 16) as u16).to_le_bytes());
            }
            _ => bytes.extend((0..tensor_type.block_bytes()).map(|_| match fill {
                Fill::Random => (random.next() >> 32) as u8,
                Fill::Byte(byte) => byte,
            })),
        }
        for &offset in half_offsets(tensor_type) {
            let half = scales.next(random).to_le_bytes();
            bytes[start + offset..start + offset + 2].copy_from_slice(&half);
        }
    }
    bytes
}

/// What activations look like.
#[derive(Debug, Clone, Copy)]
pub enum Values {
    Random,
    Constant(f32),
    /// One value and its negative, two by two: the 16-bit lanes reach their bounds on both sides.
    Alternating(f32),
    /// Random signs and magnitudes over the whole range of exponents, block by block.
    Wild,
}

impl Values {
    pub fn make(self, count: usize, random: &mut Random) -> Vec<f32> {
        let mut magnitude = 1.0;
        let value = |i: usize| match self {
            Self::Random => random.float() * random.float() * 9.0,
            Self::Constant(value) => value,
            Self::Alternating(value) => {
                if i & 2 == 0 {
                    value
                } else {
                    -value
                }
            }
            Self::Wild => {
                if i.is_multiple_of(32) {
                    magnitude = f32::from_bits((random.below(0xff) as u32) << 23);
                }
                random.float() * magnitude
            }
        };
        (0..count).map(value).collect()
    }
}

pub fn pack(isa: Isa, pool: &Pool, tensor_type: TensorType, rows: usize, cols: usize, file: &[u8]) -> Matrix {
    let row_bytes = tensor_type.row_bytes(cols).unwrap();
    Matrix::pack(isa, pool, tensor_type, rows, cols, &|range, buffer: &mut [u8]| {
        buffer.copy_from_slice(&file[range.start * row_bytes..range.end * row_bytes]);
        Ok(())
    })
    .unwrap()
}

/// A product by the specification, on one thread.
pub fn specified(
    tensor_type: TensorType,
    file: &[u8],
    cols: usize,
    x: &[f32],
    bias: Option<&[f32]>,
) -> Vec<f32> {
    let rows = file.len() / tensor_type.row_bytes(cols).unwrap();
    let mut out = vec![f32::from_bits(0x7fc0_dead); x.len() / cols * rows];
    naive::matmul::matmul(tensor_type, file, cols, x, bias, &mut out);
    out
}

/// A product through the public way.
pub fn product(pool: &Pool, weights: &Matrix, x: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
    let rows = x.len() / weights.cols();
    let mut out = vec![f32::from_bits(0x7fc0_beef); rows * weights.rows()];
    matmul(pool, weights, x, rows, bias, &mut out, &mut Scratch::new()).unwrap();
    out
}

/// The instruction sets this machine can test.
pub fn available() -> Vec<Isa> {
    Isa::ALL.into_iter().filter(|isa| isa.is_available()).collect()
}

/// Equal bits; a NaN equals a NaN.
pub fn assert_same(given: &[f32], expected: &[f32], width: usize, what: &str) {
    assert_eq!(given.len(), expected.len(), "{what}");
    for (i, (g, e)) in given.iter().zip(expected).enumerate() {
        let same = g.to_bits() == e.to_bits() || (g.is_nan() && e.is_nan());
        assert!(same, "{what}: row {}, output {}: {g:e} is not {e:e}", i / width, i % width);
    }
}
