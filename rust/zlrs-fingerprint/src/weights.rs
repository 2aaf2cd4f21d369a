//! The weights of a network in integers, and their file.

use crate::DIMENSIONS;

/// Bytes a first convolution reads around each position.
pub const WIDTH_1: usize = 5;
/// Channels of the first convolution.
pub const CHANNELS_1: usize = 96;
/// Positions a second convolution reads.
pub const WIDTH_2: usize = 5;
/// Channels of the second convolution.
pub const CHANNELS_2: usize = 160;
/// Numbers a text is summed up in: the largest and the mean of every channel.
pub const FEATURES: usize = 2 * CHANNELS_2;
/// Different bytes.
pub const BYTES: usize = 256;

const MAGIC: &[u8; 8] = b"zlrsfp01";

/// The weights. Integers, but for the factors between layers.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// First convolution, `[WIDTH_1][BYTES][CHANNELS_1]`: what a byte at a place adds to each channel.
    pub table: Vec<i8>,
    /// Added to it, `[CHANNELS_1]`.
    pub bias_1: Vec<i32>,
    /// What its sums are multiplied with to become 0 to 127, `[CHANNELS_1]`.
    pub factor_1: Vec<f32>,
    /// Second convolution, `[CHANNELS_2][WIDTH_2][CHANNELS_1]`.
    pub convolution: Vec<i8>,
    /// Added to it, `[CHANNELS_2]`.
    pub bias_2: Vec<i32>,
    /// What the largest and the mean are multiplied with to become 0 to 127, `[FEATURES]`.
    pub factor_2: Vec<f32>,
    /// Projection, `[DIMENSIONS][FEATURES]`.
    pub projection: Vec<i8>,
    /// What its sums are multiplied with, `[DIMENSIONS]`.
    pub factor_3: Vec<f32>,
    /// Added to it then, `[DIMENSIONS]`.
    pub bias_3: Vec<f32>,
}

/// Why a file holds no weights.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileError {
    /// Not such a file, or of another version.
    #[error("this is no file of fingerprint weights of this version; make one with `zlrs graph train`")]
    Foreign,
    /// Too short or too long.
    #[error("the fingerprint weights have {given} bytes, expected are {expected}; the file is damaged")]
    Length {
        /// Bytes there are.
        given: usize,
        /// Bytes there should be.
        expected: usize,
    },
    /// A factor that is no finite number, or a bias that could overflow.
    #[error("the fingerprint weights hold numbers out of range; the file is damaged")]
    Range,
}

/// Larger sums than this never come from trained weights; with it nothing can overflow.
const BIAS_LIMIT: i32 = 1 << 24;

impl Weights {
    /// Numbers in it.
    pub const COUNT: usize = WIDTH_1 * BYTES * CHANNELS_1
        + 2 * CHANNELS_1
        + CHANNELS_2 * WIDTH_2 * CHANNELS_1
        + CHANNELS_2
        + FEATURES
        + DIMENSIONS * FEATURES
        + 2 * DIMENSIONS;

    /// The file: a magic number, then every field in the order of the struct, little endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let narrow =
            |bytes: &mut Vec<u8>, list: &[i8]| bytes.extend(list.iter().map(|value| value.cast_unsigned()));
        let whole = |bytes: &mut Vec<u8>, list: &[i32]| {
            bytes.extend(list.iter().flat_map(|value| value.to_le_bytes()));
        };
        let real = |bytes: &mut Vec<u8>, list: &[f32]| {
            bytes.extend(list.iter().flat_map(|value| value.to_le_bytes()));
        };
        narrow(&mut bytes, &self.table);
        whole(&mut bytes, &self.bias_1);
        real(&mut bytes, &self.factor_1);
        narrow(&mut bytes, &self.convolution);
        whole(&mut bytes, &self.bias_2);
        real(&mut bytes, &self.factor_2);
        narrow(&mut bytes, &self.projection);
        real(&mut bytes, &self.factor_3);
        real(&mut bytes, &self.bias_3);
        bytes
    }

    /// Reads a file. It may come from anywhere: lengths and ranges are checked.
    ///
    /// # Errors
    /// [`FileError`] for anything but a whole file of this version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FileError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(FileError::Foreign)?;
        let wide = 2 * CHANNELS_1 + CHANNELS_2 + FEATURES + 2 * DIMENSIONS;
        let expected = Self::COUNT + 3 * wide;
        if rest.len() != expected {
            return Err(FileError::Length { given: bytes.len(), expected: expected + MAGIC.len() });
        }
        let mut reader = Reader(rest);
        let weights = Self {
            table: reader.narrow(WIDTH_1 * BYTES * CHANNELS_1),
            bias_1: reader.whole(CHANNELS_1),
            factor_1: reader.real(CHANNELS_1),
            convolution: reader.narrow(CHANNELS_2 * WIDTH_2 * CHANNELS_1),
            bias_2: reader.whole(CHANNELS_2),
            factor_2: reader.real(FEATURES),
            projection: reader.narrow(DIMENSIONS * FEATURES),
            factor_3: reader.real(DIMENSIONS),
            bias_3: reader.real(DIMENSIONS),
        };
        let factors = [&weights.factor_1, &weights.factor_2, &weights.factor_3, &weights.bias_3];
        let is_whole = |bias: &i32| bias.unsigned_abs() <= BIAS_LIMIT.unsigned_abs();
        let holds = factors.iter().all(|list| list.iter().all(|value| value.is_finite()))
            && weights.bias_1.iter().chain(&weights.bias_2).all(is_whole);
        if holds { Ok(weights) } else { Err(FileError::Range) }
    }
}

/// Takes lists from the front; the length was checked before.
struct Reader<'b>(&'b [u8]);

impl Reader<'_> {
    fn narrow(&mut self, count: usize) -> Vec<i8> {
        let (list, rest) = self.0.split_at(count);
        self.0 = rest;
        list.iter().map(|byte| byte.cast_signed()).collect()
    }

    fn words(&mut self, count: usize) -> Vec<[u8; 4]> {
        let (list, rest) = self.0.split_at(count * 4);
        self.0 = rest;
        list.chunks_exact(4).map(|word| [word[0], word[1], word[2], word[3]]).collect()
    }

    fn whole(&mut self, count: usize) -> Vec<i32> {
        self.words(count).into_iter().map(i32::from_le_bytes).collect()
    }

    fn real(&mut self, count: usize) -> Vec<f32> {
        self.words(count).into_iter().map(f32::from_le_bytes).collect()
    }
}
