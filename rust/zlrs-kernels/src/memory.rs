//! Large zeroed buffers whose pages appear only when written.
#![expect(unsafe_code, reason = "the safe ways either abort when memory runs out or write every page twice")]

use crate::KernelError;
use std::alloc::Layout;

/// `bytes` zero bytes. Pages come from the system untouched, so workers that fill the buffer in parallel also
/// share the cost of faulting them in.
///
/// # Errors
/// [`KernelError::OutOfMemory`].
pub(crate) fn zeroed(bytes: usize, what: &'static str) -> Result<Vec<u8>, KernelError> {
    let layout = Layout::array::<u8>(bytes).map_err(|_| KernelError::OutOfMemory { what, bytes })?;
    if bytes == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the layout has a size above zero.
    let start = unsafe { std::alloc::alloc_zeroed(layout) };
    if start.is_null() {
        return Err(KernelError::OutOfMemory { what, bytes });
    }
    // SAFETY: allocated by the global allocator with the layout of a Vec<u8> of this capacity; all bytes are
    // initialised to zero.
    Ok(unsafe { Vec::from_raw_parts(start, bytes, bytes) })
}
