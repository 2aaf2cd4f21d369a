//! One product as its workers see it.

use super::format::STRIP_ROWS;
use crate::output::Columns;
use std::arch::x86_64::*;

/// Packed weights, packed activations, and where results go.
pub(crate) struct Task<'a> {
    /// Packed strips, `[strip][block]`.
    pub(crate) weights: &'a [u8],
    /// Weight rows, without those that fill up the last strip.
    pub(crate) rows: usize,
    /// Blocks of a row.
    pub(crate) blocks: usize,
    /// Tiles of activation columns.
    pub(crate) activations: &'a [u32],
    /// Activation columns (rows of the call).
    pub(crate) columns: usize,
    /// Added to each result, if any.
    pub(crate) bias: Option<&'a [f32]>,
    /// Where result (column, weight row) goes.
    pub(crate) out: Columns<'a>,
}

impl Task<'_> {
    /// Strips of the matrix.
    pub(crate) fn strips(&self) -> usize {
        self.rows.div_ceil(STRIP_ROWS)
    }

    /// Writes the results of one strip for one column, with the bias.
    ///
    /// # Safety
    /// Needs AVX2. The strip is this worker's alone.
    #[inline(always)]
    pub(crate) unsafe fn write(&self, column: usize, strip: usize, results: __m256) {
        let first = strip * STRIP_ROWS;
        let range = first..self.rows.min(first + STRIP_ROWS);
        // SAFETY: the range ends within the rows of the matrix, which are the width of the output; the strip
        // belongs to this worker. A full range has the 32 bytes that are read and written.
        unsafe {
            let out = self.out.segment(column, range.clone());
            if out.len() == STRIP_ROWS {
                let results = match self.bias {
                    Some(bias) => _mm256_add_ps(results, _mm256_loadu_ps(bias[range].as_ptr())),
                    None => results,
                };
                _mm256_storeu_ps(out.as_mut_ptr(), results);
            } else {
                let mut lanes = [0.0_f32; STRIP_ROWS];
                _mm256_storeu_ps(lanes.as_mut_ptr(), results);
                for (i, out) in out.iter_mut().enumerate() {
                    *out = self.bias.map_or(lanes[i], |bias| lanes[i] + bias[first + i]);
                }
            }
        }
    }
}
