//! Large zeroed buffers whose pages appear only when written.
#![expect(unsafe_code, reason = "the safe ways write every page twice, and know nothing of large pages")]

use crate::KernelError;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Bytes of keys and values from which on large pages are asked for. Processors remember the addresses of about as
/// many small ones, and memory in use is rounded up to whole pages.
const LARGE_PAGES_FROM: usize = 16 << 20;

/// A mapping of its own, zero at first. Pages come from the system as they are touched, so workers that fill the
/// buffer in parallel also share the cost of faulting them in; where the system allows it they may be large ones,
/// which spares the reader of many megabytes most of its address translations.
pub(crate) struct Memory {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the value alone, as a boxed slice would.
unsafe impl Send for Memory {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for Memory {}

impl Memory {
    /// `bytes` zero bytes, aligned to a page; in large pages, if the system gives them.
    ///
    /// # Errors
    /// [`KernelError::OutOfMemory`].
    pub(crate) fn zeroed(bytes: usize, large: bool, what: &'static str) -> Result<Self, KernelError> {
        if bytes == 0 {
            return Ok(Self { start: NonNull::<u64>::dangling().cast(), bytes });
        }
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new anonymous mapping at a place of the system's choice.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, flags) };
        let start = start.ok().and_then(|start| NonNull::new(start.cast::<u8>()));
        let Some(start) = start else { return Err(KernelError::OutOfMemory { what, bytes }) };
        if !large {
            return Ok(Self { start, bytes });
        }
        // SAFETY: the mapping just made. The advice may be refused; pages are then small.
        let _ = unsafe { madvise(start.as_ptr().cast::<c_void>(), bytes, Advice::LinuxHugepage) };
        Ok(Self { start, bytes })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: the whole mapping, of which nothing is borrowed any more.
            let _ = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), self.bytes) };
        }
    }
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: mapped and initialised to zero by the system, for as long as the value lives.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

/// A zeroed buffer of f16 bit patterns for an arena of keys and values. Pages come as they are first written, large
/// ones if there are many: attention jumps from block to block and would otherwise wait for an address
/// translation at each.
pub struct KvMemory(Memory);

impl KvMemory {
    /// `len` zeros.
    ///
    /// # Errors
    /// [`KernelError::OutOfMemory`].
    pub fn zeroed(len: usize) -> Result<Self, KernelError> {
        let bytes = len.saturating_mul(size_of::<u16>());
        Memory::zeroed(bytes, bytes >= LARGE_PAGES_FROM, "the KV memory").map(Self)
    }
}

impl std::fmt::Debug for KvMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KvMemory").field("bytes", &self.0.bytes).finish()
    }
}

impl Deref for KvMemory {
    type Target = [u16];

    fn deref(&self) -> &[u16] {
        // SAFETY: the mapping (or, of no bytes, the cast pointer) is aligned to more than two bytes, initialised, and
        // holds this many numbers; any bits are a number.
        unsafe { std::slice::from_raw_parts(self.0.start.as_ptr().cast(), self.0.bytes / size_of::<u16>()) }
    }
}

impl DerefMut for KvMemory {
    fn deref_mut(&mut self) -> &mut [u16] {
        // SAFETY: as above, and exclusive.
        unsafe {
            std::slice::from_raw_parts_mut(self.0.start.as_ptr().cast(), self.0.bytes / size_of::<u16>())
        }
    }
}
