//! What a quantised type supplies to the products.
//!
//! A *strip* is 8 weight rows. In a packed strip a 32-byte vector holds four consecutive weights (a *group*)
//! of each of the 8 rows: a dword lane is a row, so a sum over weights never crosses lanes, and the strip is
//! exactly as long as its 8 rows in the file. The block-level f16 scales of the 8 rows lie side by side.
//!
//! Products run in two stages that every caller shares, so that they are equal by construction: packed
//! bytes are expanded to one byte a weight, 32 weights (a *chunk*) at a time; expanded chunks meet the
//! activations. A product with few columns expands into a local that lives in registers; one with many
//! expands a stretch of two strips once and reuses it for all columns.
//!
//! Activations of a tile of C columns are one stream of dwords, `[block][word][column]`: the bytes of a block
//! by groups of four, then the format's auxiliary words, the last of which is `d`.

use super::lanes::{Accumulators, Sums, accumulate};
use super::task::Task;
use super::vector::{Packed, Vector};
use crate::TensorType;
use std::ops::Range;

/// Rows in a strip.
pub(crate) const STRIP_ROWS: usize = 8;

/// # Safety
/// The unsafe functions need AVX2, FMA and F16C, and what `V` needs. Of pointers, `packed` are the starts of one
/// packed strip block of `STRIP_BLOCK` bytes for each strip of a vector; `expanded` of one expanded chunk
/// (`CHUNK_BYTES` a strip) or of the expanded scales (`SCALE_BYTES` a strip), their vectors being `V`'s;
/// `activations` of one block of a tile's stream, `WORDS * C` dwords.
pub(crate) trait Format {
    /// The type it packs.
    const TENSOR_TYPE: TensorType;
    /// Bytes of an expanded chunk: 32 a group, then what the chunk needs of sub-block scales.
    const CHUNK_BYTES: usize;
    /// Bytes of a block's expanded scales.
    const SCALE_BYTES: usize;
    /// Auxiliary words of a block and column, `d` included.
    const AUXILIARY: usize;
    /// Blocks of a stretch: two strips of it, expanded, leave room in a first-level cache.
    const STRETCH: usize;
    /// Columns of a tile of the product with many columns.
    const TILE_COLUMNS: usize;

    /// Weights of a block.
    const BLOCK: usize = Self::TENSOR_TYPE.block_len();
    /// Chunks of a block.
    const CHUNKS: usize = Self::BLOCK / 32;
    /// Bytes of a packed block of a strip.
    const STRIP_BLOCK: usize = STRIP_ROWS * Self::TENSOR_TYPE.block_bytes();
    /// Bytes of an expanded block of a strip.
    const EXPANDED: usize = Self::CHUNKS * Self::CHUNK_BYTES + Self::SCALE_BYTES;
    /// Dwords of a block and column of activations.
    const WORDS: usize = Self::BLOCK / 4 + Self::AUXILIARY;

    /// Puts one row's block (file bytes) into its lanes of a packed strip block.
    fn pack(block: &[u8], row: usize, strip: &mut [u8]);
    /// The inverse of [`pack`](Self::pack): exactly the file's bytes.
    fn unpack(strip: &[u8], row: usize, block: &mut [u8]);
    /// The auxiliary words of a block of activations.
    fn auxiliary(q: &[i8], d: f32, words: &mut [u32]);

    /// Expands chunk `chunk`.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn expand_chunk<V: Vector>(packed: Packed, chunk: usize, expanded: *mut u8);
    /// Expands the block's scales.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn expand_scales<V: Vector>(packed: Packed, expanded: *mut u8);
    /// `isum += ` the exact integer dot of an expanded chunk of R strips with C columns.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn dot_chunk<const R: usize, const C: usize>(
        expanded: [*const u8; R],
        chunk: usize,
        activations: *const u32,
        isum: &mut Sums<R, C>,
    );
    /// The block's fused multiply-adds. `scales` are expanded scales.
    ///
    /// # Safety
    /// As the trait states.
    #[inline(always)]
    unsafe fn finish_block<const R: usize, const C: usize>(
        scales: [*const u8; R],
        activations: *const u32,
        isum: &Sums<R, C>,
        acc: &mut Accumulators<R, C>,
    ) {
        // SAFETY: the scales begin with eight f32; the last word of each column is d.
        unsafe { accumulate(scales, activations.add((Self::WORDS - 1) * C), isum, acc) }
    }
    /// The product with many columns over some strips, in tiles that suit the format.
    ///
    /// # Safety
    /// As the trait states; the strips are this worker's alone; weights and activations have the sizes that the
    /// task's counts ask for.
    unsafe fn multiply_many(task: &Task<'_>, strips: Range<usize>);
}
