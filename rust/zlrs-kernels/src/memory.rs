//! Large zeroed buffers whose pages appear only when written.
#![expect(unsafe_code, reason = "the safe ways either abort when memory runs out or write every page twice")]

use crate::KernelError;
use std::alloc::Layout;

/// `bytes` zero bytes. Pages come from the system untouched, so workers that fill the buffer in parallel also
/// share the cost of faulting them in.
///
/// # Errors
/// [`KernelError::OutOfMemory`].
pub(crate) fn zeroed(bytes: usize, what: &'static str) -> Result<Box<[u8]>, KernelError> {
    let layout = Layout::array::<u8>(bytes).map_err(|_| KernelError::OutOfMemory { what, bytes })?;
    if bytes == 0 {
        return Ok(Box::default());
    }
    // SAFETY: the layout has a size above zero.
    let start = unsafe { std::alloc::alloc_zeroed(layout) };
    if start.is_null() {
        return Err(KernelError::OutOfMemory { what, bytes });
    }
    // SAFETY: allocated by the global allocator with the layout of a byte slice of this length; all bytes are
    // initialised to zero; nothing else owns them.
    Ok(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(start, bytes)) })
}
