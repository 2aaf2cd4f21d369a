//! The tensor types of GGUF files that the kernels read, and the shape of their blocks.

use std::fmt;

/// A storage type of weights. A row is a sequence of blocks of [`block_len`](Self::block_len) weights in
/// [`block_bytes`](Self::block_bytes) bytes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TensorType {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// bfloat16: the upper half of an IEEE single.
    BF16,
    /// 32 weights: f16 scale, 4-bit values with zero at 8.
    Q4_0,
    /// 32 weights: f16 scale, f16 minimum, unsigned 4-bit values.
    Q4_1,
    /// 32 weights: f16 scale, 5-bit values with zero at 16.
    Q5_0,
    /// 256 weights in 8 sub-blocks with 6-bit scales and minima, unsigned 5-bit values.
    Q5K,
    /// 32 weights: f16 scale, signed bytes.
    Q8_0,
    /// 256 weights in 8 sub-blocks with 6-bit scales and minima, unsigned 4-bit values.
    Q4K,
    /// 256 weights in 16 sub-blocks with signed byte scales, 6-bit values with zero at 32.
    Q6K,
}

impl TensorType {
    /// Every type, in the order of declaration.
    pub const ALL: [Self; 10] = [
        Self::F32,
        Self::F16,
        Self::BF16,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5K,
        Self::Q8_0,
        Self::Q4K,
        Self::Q6K,
    ];

    /// The most bytes a block has.
    #[cfg(target_arch = "x86_64")]
    pub(crate) const MAX_BLOCK_BYTES: usize = 210;

    /// The type with this number in a GGUF file, if the kernels read it.
    pub const fn from_gguf(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::F32,
            1 => Self::F16,
            2 => Self::Q4_0,
            3 => Self::Q4_1,
            6 => Self::Q5_0,
            8 => Self::Q8_0,
            12 => Self::Q4K,
            13 => Self::Q5K,
            14 => Self::Q6K,
            30 => Self::BF16,
            _ => return None,
        })
    }

    /// Its number in a GGUF file.
    pub const fn gguf(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q4_0 => 2,
            Self::Q4_1 => 3,
            Self::Q5_0 => 6,
            Self::Q8_0 => 8,
            Self::Q4K => 12,
            Self::Q5K => 13,
            Self::Q6K => 14,
            Self::BF16 => 30,
        }
    }

    /// The customary name, such as `Q4_K`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::BF16 => "BF16",
            Self::Q4_0 => "Q4_0",
            Self::Q4_1 => "Q4_1",
            Self::Q5_0 => "Q5_0",
            Self::Q5K => "Q5_K",
            Self::Q8_0 => "Q8_0",
            Self::Q4K => "Q4_K",
            Self::Q6K => "Q6_K",
        }
    }

    /// Weights in one block: 1, 32 or 256.
    pub const fn block_len(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::BF16 => 1,
            Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q8_0 => 32,
            Self::Q5K | Self::Q4K | Self::Q6K => 256,
        }
    }

    /// Bytes of one block.
    pub const fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::Q4_0 => 18,
            Self::Q4_1 => 20,
            Self::Q5_0 => 22,
            Self::Q8_0 => 34,
            Self::Q4K => 144,
            Self::Q5K => 176,
            Self::Q6K => 210,
        }
    }

    /// Bytes of a row of `cols` weights; `None` if `cols` is not a positive multiple of the block length or
    /// the size does not fit `usize`.
    pub const fn row_bytes(self, cols: usize) -> Option<usize> {
        if cols == 0 || !cols.is_multiple_of(self.block_len()) {
            return None;
        }
        (cols / self.block_len()).checked_mul(self.block_bytes())
    }

    /// Whether weights are stored as floating-point numbers, one by one.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F16 | Self::BF16)
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
