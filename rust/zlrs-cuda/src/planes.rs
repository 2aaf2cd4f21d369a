//! Quantised weights as planes, the form `cuda/kernels/weights.cuh` describes.

use zlrs_kernels::TensorType;
use zlrs_kernels::naive::decode::{Block, decoder};

use crate::CudaError;

/// Weights of a unit.
pub const UNIT: usize = 32;

/// The planes of some rows of a matrix, in the order of the kernels' parameters. A plane the type does not have
/// is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Planes {
    /// Nibbles, or bytes for Q8_0.
    pub quants: Vec<u8>,
    /// Bits above the nibbles.
    pub high: Vec<u8>,
    /// Two bytes of factors a unit.
    pub subs: Vec<u8>,
    /// The f16 factor of each block.
    pub scale: Vec<u8>,
    /// The f16 each minimum factor counts.
    pub minimum: Vec<u8>,
}

impl Planes {
    /// Lays out rows of GGUF bytes. O(weights).
    ///
    /// # Errors
    /// [`CudaError::Weights`] for types without blocks, and bytes that are no whole blocks.
    pub fn of_rows(tensor_type: TensorType, bytes: &[u8]) -> Result<Self, CudaError> {
        let Some(decode) = decoder(tensor_type) else {
            return Err(CudaError::Weights { what: format!("{} has no blocks", tensor_type.name()) });
        };
        let block_bytes = tensor_type.block_bytes();
        if !bytes.len().is_multiple_of(block_bytes) {
            let what = format!("{} bytes are no whole blocks of {block_bytes}", bytes.len());
            return Err(CudaError::Weights { what });
        }
        let mut planes = Self::default();
        let mut block = Block::ZERO;
        for bytes in bytes.chunks_exact(block_bytes) {
            decode(bytes, &mut block);
            planes.add_block(tensor_type, bytes, &block);
        }
        Ok(planes)
    }

    /// The planes in the order of the kernels' parameters.
    #[must_use]
    pub fn each(&self) -> [&[u8]; 5] {
        [&self.quants, &self.high, &self.subs, &self.scale, &self.minimum]
    }

    /// Bytes of all planes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.each().iter().map(|plane| plane.len()).sum()
    }

    fn add_block(&mut self, tensor_type: TensorType, bytes: &[u8], block: &Block) {
        let offset = offset(tensor_type);
        for (unit, quants) in block.quants[..tensor_type.block_len()].chunks_exact(UNIT).enumerate() {
            let raw: [u8; UNIT] = std::array::from_fn(|k| (i16::from(quants[k]) + offset) as u8);
            match tensor_type {
                TensorType::Q8_0 => self.quants.extend(raw),
                _ => self.quants.extend((0..16).map(|j| (raw[j] & 15) | (raw[j + 16] & 15) << 4)),
            }
            match tensor_type {
                TensorType::Q5_0 | TensorType::Q5K => self.high.extend(fifth_bits(&raw)),
                TensorType::Q6K => self.high.extend(upper_pairs(&raw)),
                _ => {}
            }
            match tensor_type {
                TensorType::Q4K | TensorType::Q5K => {
                    self.subs.extend([block.scales[unit] as u8, block.minima[unit] as u8]);
                }
                TensorType::Q6K => {
                    self.subs.extend(block.scales[2 * unit..][..2].iter().map(|&scale| scale as u8));
                }
                _ => {}
            }
        }
        // The f16 of the file, bit for bit; K types subtract their minimum, the kernels add it.
        let (scale, minimum) = match tensor_type {
            TensorType::Q6K => ([bytes[208], bytes[209]], None),
            TensorType::Q4_1 => ([bytes[0], bytes[1]], Some([bytes[2], bytes[3]])),
            TensorType::Q4K | TensorType::Q5K => ([bytes[0], bytes[1]], Some([bytes[2], bytes[3] ^ 0x80])),
            _ => ([bytes[0], bytes[1]], None),
        };
        self.scale.extend(scale);
        self.minimum.extend(minimum.into_iter().flatten());
    }
}

/// What lies between a decoded weight and its bits.
const fn offset(tensor_type: TensorType) -> i16 {
    match tensor_type {
        TensorType::Q4_0 => 8,
        TensorType::Q5_0 => 16,
        TensorType::Q6K => 32,
        _ => 0,
    }
}

/// Byte b, bit w: the fifth bit of weight 4w + b.
fn fifth_bits(raw: &[u8; UNIT]) -> [u8; 4] {
    std::array::from_fn(|b| (0..8).map(|w| (raw[4 * w + b] >> 4 & 1) << w).sum())
}

/// Byte j, bits 2i and 2i + 1: the upper bits of weight j + 8i.
fn upper_pairs(raw: &[u8; UNIT]) -> [u8; 8] {
    std::array::from_fn(|j| (0..4).map(|i| (raw[j + 8 * i] >> 4 & 3) << (2 * i)).sum())
}
