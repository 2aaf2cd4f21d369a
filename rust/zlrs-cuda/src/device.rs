//! A place where kernels run.

use crate::CudaError;

/// An address in a device's memory; 0 is no memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Address(pub u64);

impl Address {
    /// The address `bytes` further on.
    #[must_use]
    pub const fn offset(self, bytes: usize) -> Self {
        Self(self.0 + bytes as u64)
    }
}

/// One parameter of a kernel, as the kernel declares it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Argument {
    /// A pointer.
    Address(Address),
    /// An `int`.
    Int(i32),
    /// A `float`.
    Float(f32),
    /// A `size_t`.
    Size(u64),
}

/// One launch of a kernel.
#[derive(Debug, Clone, Copy)]
pub struct Launch<'a> {
    /// The kernel's symbol.
    pub kernel: &'static str,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
    /// The kernel's parameters in order.
    pub arguments: &'a [Argument],
}

/// Memory and kernels, in one order of execution: what is asked later happens later.
pub trait Device: Send {
    /// New memory of `bytes`, which lives until [`Device::free`]. Its contents are anything.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`], [`CudaError::Driver`].
    fn allocate(&mut self, bytes: usize) -> Result<Address, CudaError>;

    /// Gives memory back that [`Device::allocate`] gave; nothing is launched on it any more.
    fn free(&mut self, memory: Address);

    /// Fills memory with zeros.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    fn clear(&mut self, memory: Address, bytes: usize) -> Result<(), CudaError>;

    /// Copies host bytes to device memory.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    fn upload(&mut self, bytes: &[u8], to: Address) -> Result<(), CudaError>;

    /// Copies device memory to host bytes, after everything launched so far has ended.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    fn download(&self, from: Address, bytes: &mut [u8]) -> Result<(), CudaError>;

    /// Waits for everything launched so far, and says whether the device can still be used.
    ///
    /// # Errors
    /// [`CudaError::Driver`]: what went wrong with it, now or before.
    fn probe(&mut self) -> Result<(), CudaError>;

    /// Runs a kernel.
    ///
    /// # Safety
    /// The arguments fit the kernel's parameters in number and kind, and every address among them has the memory
    /// behind it that the kernel's header asks for.
    ///
    /// # Errors
    /// [`CudaError::NoKernel`], [`CudaError::Driver`].
    unsafe fn launch(&mut self, launch: &Launch<'_>) -> Result<(), CudaError>;
}
