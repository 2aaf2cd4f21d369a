//! Where weights come from: a trait, so that a packed or streamed store can stand in for a file.

use std::io;

use zlrs_kernels::TensorType;

use crate::ModelError;

/// A tensor as its source describes it: `rows` rows of `cols` elements, row after row. A vector is one row;
/// dimensions beyond the second are folded into the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its name.
    pub name: String,
    /// How elements are stored.
    pub tensor_type: TensorType,
    /// Number of dimensions in the source, at least 1.
    pub dimensions: u32,
    /// Product of all dimensions but the first.
    pub rows: usize,
    /// The first dimension: elements of a row, a multiple of the type's block length.
    pub cols: usize,
    /// Bytes of a row.
    pub row_bytes: usize,
    /// Bytes of the tensor.
    pub bytes: u64,
    /// Where the tensor starts in its source, in bytes.
    pub offset: u64,
}

/// Tensors by name, readable in pieces from several threads at once.
pub trait TensorSource: Sync {
    /// The description of the tensor of that name.
    fn info(&self, name: &str) -> Option<&TensorInfo>;

    /// Every tensor, in the order of names.
    fn all(&self) -> &[TensorInfo];

    /// Fills `out` with the bytes of `tensor` from `byte_offset` on.
    ///
    /// # Errors
    /// What the system reports; [`io::ErrorKind::UnexpectedEof`] if the source has become shorter,
    /// [`io::ErrorKind::InvalidInput`] if the range lies outside the tensor.
    fn read(&self, tensor: &TensorInfo, byte_offset: u64, out: &mut [u8]) -> io::Result<()>;
}

/// Reads a small tensor of floating-point numbers: a norm, a bias.
///
/// # Errors
/// [`ModelError::UnsupportedTensorType`] for quantised tensors, [`ModelError::Io`].
pub(crate) fn read_floats(source: &dyn TensorSource, info: &TensorInfo) -> Result<Vec<f32>, ModelError> {
    let mut bytes = vec![0; info.row_bytes * info.rows];
    source.read(info, 0, &mut bytes).map_err(|source| ModelError::Io { action: "read a tensor", source })?;
    let halves = || bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    match info.tensor_type {
        TensorType::F32 => Ok(bytes
            .chunks_exact(4)
            .map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]))
            .collect()),
        TensorType::F16 => Ok(halves().map(|bits| half::f16::from_bits(bits).to_f32()).collect()),
        TensorType::BF16 => Ok(halves().map(|bits| half::bf16::from_bits(bits).to_f32()).collect()),
        other => Err(ModelError::UnsupportedTensorType {
            name: info.name.clone(),
            given: other.name().into(),
            supported: "F32, F16, BF16 (this tensor is a vector)".into(),
        }),
    }
}
