//! Where weights come from: a trait, so that a packed or streamed store can stand in for a file.

use std::io;

use zlrs_kernels::TensorType;

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
