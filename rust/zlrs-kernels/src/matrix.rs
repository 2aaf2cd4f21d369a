//! Weight matrices in the form their kernels read.

#[cfg(target_arch = "x86_64")]
use crate::avx2::{
    self,
    matmul::{STRIP_ROWS, unpack_row},
};
use crate::memory::Memory;
use crate::naive::decode;
use crate::{Isa, KernelError, Pool, TensorType};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of one read, about: long enough to keep a disk busy, short enough to share among workers.
const READ_BYTES: usize = 1 << 20;

/// Reads file rows `range` into a buffer of exactly their bytes. Called from several threads at once.
pub type ReadRows<'a> = dyn Fn(Range<usize>, &mut [u8]) -> std::io::Result<()> + Sync + 'a;

/// A weight matrix `[rows][cols]`, packed for one instruction set. Takes as many bytes as in the file (rows
/// rounded up to a multiple of 8 where strips of 8 rows are used).
pub struct Matrix {
    isa: Isa,
    tensor_type: TensorType,
    rows: usize,
    cols: usize,
    data: Arc<Memory>,
    /// Bytes of `data` that are this matrix's.
    bytes: usize,
}

impl Matrix {
    /// Reads a tensor in slices, in parallel, straight into packed form; the file's form of the whole tensor
    /// never exists in memory.
    ///
    /// # Errors
    /// [`KernelError::IsaUnavailable`]; [`KernelError::PartialBlock`] or [`KernelError::TooLarge`] for a shape
    /// that cannot be; [`KernelError::OutOfMemory`]; [`KernelError::Read`] with the first failure of
    /// `read_rows`; the pool's errors.
    pub fn pack(
        isa: Isa,
        pool: &Pool,
        tensor_type: TensorType,
        rows: usize,
        cols: usize,
        read_rows: &ReadRows<'_>,
    ) -> Result<Self, KernelError> {
        let isa = isa.checked()?;
        let row_bytes = row_bytes(tensor_type, rows, cols)?;
        let data = match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 | Isa::Avx512 if !tensor_type.is_float() => {
                pack_strips(pool, tensor_type, rows, row_bytes, read_rows)?
            }
            _ => pack_rows(pool, rows, row_bytes, read_rows)?,
        };
        let bytes = data.len();
        Ok(Self { isa, tensor_type, rows, cols, data: Arc::new(data), bytes })
    }

    /// The first `rows` rows, or all where there are fewer, as a matrix that shares the memory.
    #[must_use]
    pub fn first_rows(&self, rows: usize) -> Self {
        let rows = rows.min(self.rows);
        let data = Arc::clone(&self.data);
        // Rows lie one after another, those of strips with the rest of their strip.
        let units = |rows: usize| match self.isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 | Isa::Avx512 if !self.tensor_type.is_float() => rows.div_ceil(STRIP_ROWS),
            _ => rows,
        };
        let bytes = self.bytes / units(self.rows).max(1) * units(rows);
        Self { isa: self.isa, tensor_type: self.tensor_type, rows, cols: self.cols, data, bytes }
    }

    /// Number of rows: outputs of a product.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns: inputs of a product.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Memory of the packed weights.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The storage type.
    pub fn tensor_type(&self) -> TensorType {
        self.tensor_type
    }

    /// The instruction set it was packed for. Holding the matrix proves that the processor has it.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// The packed bytes.
    pub(crate) fn data(&self) -> &[u8] {
        &self.data[..self.bytes]
    }

    /// Decodes row `row` into `out`, which has [`cols`](Self::cols) elements: the f32 nearest to each exact
    /// weight. This is the embedding lookup. O(cols).
    ///
    /// # Errors
    /// [`KernelError::OutOfRange`] if there is no such row, [`KernelError::Length`].
    pub fn decode_row(&self, row: usize, out: &mut [f32]) -> Result<(), KernelError> {
        if row >= self.rows {
            return Err(KernelError::OutOfRange { what: "weight row", given: row, limit: self.rows });
        }
        expect_length("decoded row", self.cols, out.len())?;
        let row_bytes = row_bytes(self.tensor_type, self.rows, self.cols)?;
        match self.isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 | Isa::Avx512 if !self.tensor_type.is_float() => {
                let block_len = self.tensor_type.block_len();
                unpack_row(self.tensor_type, &self.data, row_bytes, row, &mut |i, block| {
                    decode::decode_row(self.tensor_type, block, &mut out[i * block_len..(i + 1) * block_len]);
                });
            }
            _ => {
                decode::decode_row(self.tensor_type, &self.data[row * row_bytes..(row + 1) * row_bytes], out);
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Matrix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Matrix({} {}x{}, {})", self.tensor_type, self.rows, self.cols, self.isa.name())
    }
}

/// Refuses a slice of another length.
pub(crate) fn expect_length(what: &'static str, expected: usize, given: usize) -> Result<(), KernelError> {
    if expected == given { Ok(()) } else { Err(KernelError::Length { what, expected, given }) }
}

/// Bytes of a file row, after checking that the whole matrix (with rows rounded up to strips) fits the
/// address space.
fn row_bytes(tensor_type: TensorType, rows: usize, cols: usize) -> Result<usize, KernelError> {
    let block_len = tensor_type.block_len();
    if cols == 0 || !cols.is_multiple_of(block_len) {
        return Err(KernelError::PartialBlock { tensor_type, cols, block_len });
    }
    let too_large = KernelError::TooLarge { tensor_type, rows, cols };
    let Some(row_bytes) = tensor_type.row_bytes(cols) else { return Err(too_large) };
    let total = rows.checked_next_multiple_of(8).and_then(|rows| rows.checked_mul(row_bytes));
    // Slices hold at most isize::MAX bytes; decoded rows must fit as well.
    match total {
        Some(total) if isize::try_from(total).is_ok() && cols <= isize::MAX as usize / 4 => Ok(row_bytes),
        _ => Err(too_large),
    }
}

/// Rows as they lie in the file.
fn pack_rows(
    pool: &Pool,
    rows: usize,
    row_bytes: usize,
    read_rows: &ReadRows<'_>,
) -> Result<Memory, KernelError> {
    let mut data = Memory::zeroed(rows * row_bytes, true, "weights")?;
    fill(pool, &mut data, 1, rows, row_bytes, &|range, slice, _| read_rows(range, slice))?;
    Ok(data)
}

/// Rows in strips, see the AVX2 products.
#[cfg(target_arch = "x86_64")]
fn pack_strips(
    pool: &Pool,
    tensor_type: TensorType,
    rows: usize,
    row_bytes: usize,
    read_rows: &ReadRows<'_>,
) -> Result<Memory, KernelError> {
    let mut data = Memory::zeroed(rows.next_multiple_of(STRIP_ROWS) * row_bytes, true, "weights")?;
    fill(pool, &mut data, STRIP_ROWS, rows, row_bytes, &|range, strips, buffer| {
        buffer.resize(range.len() * row_bytes, 0);
        read_rows(range, buffer)?;
        avx2::matmul::pack_strips(tensor_type, buffer, row_bytes, strips);
        Ok(())
    })?;
    Ok(data)
}

/// Fills one slice of packed units from the file rows `range`; the buffer is the worker's own.
type FillSlice<'a> = dyn Fn(Range<usize>, &mut [u8], &mut Vec<u8>) -> std::io::Result<()> + Sync + 'a;

/// Fills `data`, units of `unit_rows` rows, slice by slice: each worker takes the next slice when it is done
/// with one. Stops early after the first failure and reports it.
fn fill(
    pool: &Pool,
    data: &mut [u8],
    unit_rows: usize,
    rows: usize,
    row_bytes: usize,
    fill_slice: &FillSlice<'_>,
) -> Result<(), KernelError> {
    let unit_bytes = unit_rows * row_bytes;
    let units = (READ_BYTES / unit_bytes).max(1);
    let slices = Mutex::new(data.chunks_mut(units * unit_bytes).enumerate());
    let failure: Mutex<Option<KernelError>> = Mutex::new(None);
    pool.run(&|_worker| {
        let mut buffer = Vec::new();
        loop {
            let next = slices.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((i, slice)) = next else { return };
            let first_row = i * units * unit_rows;
            let end_row = rows.min(first_row + units * unit_rows);
            if let Err(source) = fill_slice(first_row..end_row, slice, &mut buffer) {
                let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
                failure.get_or_insert(KernelError::Read { first_row, end_row, source });
                // Leave nothing for the others to take.
                slices.lock().unwrap_or_else(PoisonError::into_inner).by_ref().for_each(drop);
                return;
            }
        }
    })?;
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}
