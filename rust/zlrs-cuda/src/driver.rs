//! A GPU through the driver that is on the machine.
//!
//! Nothing is linked: the driver's library is opened when it is first asked for, so the same package runs where there
//! is none. Each kernel file's PTX becomes a module; the driver compiles it for the device and keeps the result.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::Mutex;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use cudarc::driver::sys::CUdevice_attribute::{
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID as PCI_BUS,
    CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID as PCI_DEVICE, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID as PCI_DOMAIN,
};
use cudarc::driver::sys::CUresult::{CUDA_ERROR_NOT_FOUND, CUDA_ERROR_OUT_OF_MEMORY};

use zlrs_engine::governor::Sensor;

use crate::{Address, Argument, CudaError, Device, Launch, Nvml};

/// The least compute capability, major number: the integer matrix instructions and the PTX ask for it.
const LEAST_CAPABILITY: i32 = 8;
/// Page-locked memory for what steps copy: sixteen rows of the logits of large vocabularies fit.
const STAGING_BYTES: usize = 16 << 20;
/// Most parameters of a kernel.
const MAX_ARGUMENTS: usize = 24;

/// The kernels, compiled by `scripts/compile_ptx.py` from `cuda/kernels`.
const MODULES: [&[u8]; 14] = [
    include_bytes!("../../../cuda/ptx/attention.ptx"),
    include_bytes!("../../../cuda/ptx/bandwidth.ptx"),
    include_bytes!("../../../cuda/ptx/elementwise.ptx"),
    include_bytes!("../../../cuda/ptx/exit_head.ptx"),
    include_bytes!("../../../cuda/ptx/float_product.ptx"),
    include_bytes!("../../../cuda/ptx/gemv.ptx"),
    include_bytes!("../../../cuda/ptx/matmul.ptx"),
    include_bytes!("../../../cuda/ptx/norm.ptx"),
    include_bytes!("../../../cuda/ptx/quantise.ptx"),
    include_bytes!("../../../cuda/ptx/rope.ptx"),
    include_bytes!("../../../cuda/ptx/rows.ptx"),
    include_bytes!("../../../cuda/ptx/seal_kv.ptx"),
    include_bytes!("../../../cuda/ptx/store_kv.ptx"),
    include_bytes!("../../../cuda/ptx/unfused.ptx"),
];

/// What is known of a GPU before anything is put on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuFacts {
    /// Its name.
    pub name: String,
    /// Compute capability, major and minor.
    pub capability: (i32, i32),
    /// Bytes of its memory.
    pub memory_bytes: usize,
}

/// Looks for a GPU that can be used, and changes nothing. Quick where there is no driver.
///
/// # Errors
/// [`CudaError::NoDriver`] without a driver or a GPU, [`CudaError::Unsupported`] for a GPU that is too old,
/// [`CudaError::Driver`].
pub fn probe() -> Result<GpuFacts, CudaError> {
    first_device().map(|(_, facts)| facts)
}

fn first_device() -> Result<(sys::CUdevice, GpuFacts), CudaError> {
    // SAFETY: opens the driver's library and runs its initialisers, which is what loading a driver is.
    if !unsafe { sys::is_culib_present() } {
        return Err(CudaError::NoDriver { what: "no CUDA driver".to_owned() });
    }
    let no_driver = |error: DriverError| CudaError::NoDriver { what: words(error) };
    result::init().map_err(no_driver)?;
    if result::device::get_count().map_err(no_driver)? == 0 {
        return Err(CudaError::NoDriver { what: "a CUDA driver, but no GPU".to_owned() });
    }
    let device = result::device::get(0).map_err(failed("cuDeviceGet"))?;
    // SAFETY: the device comes from the driver.
    let (major, minor, memory_bytes) = unsafe {
        (
            result::device::get_attribute(device, MAJOR).map_err(failed("cuDeviceGetAttribute"))?,
            result::device::get_attribute(device, MINOR).map_err(failed("cuDeviceGetAttribute"))?,
            result::device::total_mem(device).map_err(failed("cuDeviceTotalMem"))?,
        )
    };
    let name = result::device::get_name(device).map_err(failed("cuDeviceGetName"))?;
    if major < LEAST_CAPABILITY {
        return Err(CudaError::Unsupported {
            name,
            capability: (major, minor),
            least: (LEAST_CAPABILITY, 0),
        });
    }
    Ok((device, GpuFacts { name, capability: (major, minor), memory_bytes }))
}

/// The first GPU, with one stream: everything on it happens in the order it was asked for.
pub struct Gpu {
    device: sys::CUdevice,
    context: sys::CUcontext,
    stream: sys::CUstream,
    modules: Vec<sys::CUmodule>,
    functions: HashMap<&'static str, sys::CUfunction>,
    memory: Vec<u64>,
    staging: Mutex<Staging>,
    facts: GpuFacts,
}

/// Page-locked memory, and whether the device may still be reading it.
struct Staging {
    memory: *mut u8,
    in_flight: bool,
}

// SAFETY: the driver's handles may be used from any thread in which their context is current, which every call
// here makes sure of; the staging memory is reached through its lock.
unsafe impl Send for Gpu {}

impl Gpu {
    /// Opens the first GPU and loads the kernels, which takes a second or two the first time on a machine.
    ///
    /// # Errors
    /// As [`probe`].
    pub fn open() -> Result<Self, CudaError> {
        let (device, facts) = first_device()?;
        // SAFETY: the device comes from the driver.
        let context =
            unsafe { result::primary_ctx::retain(device) }.map_err(failed("cuDevicePrimaryCtxRetain"))?;
        let mut gpu = Self {
            device,
            context,
            stream: std::ptr::null_mut(),
            modules: Vec::with_capacity(MODULES.len()),
            functions: HashMap::new(),
            memory: Vec::new(),
            staging: Mutex::new(Staging { memory: std::ptr::null_mut(), in_flight: false }),
            facts,
        };
        gpu.enter()?;
        gpu.stream = result::stream::create(result::stream::StreamKind::NonBlocking)
            .map_err(failed("cuStreamCreate"))?;
        // SAFETY: the memory is only written and read through the driver and as bytes.
        let staging = unsafe { result::malloc_host(STAGING_BYTES, 0) }.map_err(failed("cuMemHostAlloc"))?;
        gpu.staging = Mutex::new(Staging { memory: staging.cast(), in_flight: false });
        for ptx in MODULES {
            let text = CString::new(ptx)
                .map_err(|error| CudaError::Driver { call: "cuModuleLoadData", what: error.to_string() })?;
            // SAFETY: PTX as text that ends in a zero byte.
            let module = unsafe { result::module::load_data(text.as_ptr().cast()) };
            gpu.modules.push(module.map_err(failed("cuModuleLoadData"))?);
        }
        Ok(gpu)
    }

    /// What is known of it.
    #[must_use]
    pub fn facts(&self) -> &GpuFacts {
        &self.facts
    }

    /// Its sensors, where the driver's management library is on the machine.
    #[must_use]
    pub fn sensor(&self) -> Option<Box<dyn Sensor>> {
        let attribute = |attribute| {
            // SAFETY: the device comes from the driver.
            unsafe { result::device::get_attribute(self.device, attribute) }.ok()
        };
        let (domain, bus, slot) = (attribute(PCI_DOMAIN)?, attribute(PCI_BUS)?, attribute(PCI_DEVICE)?);
        Nvml::open(&format!("{domain:08x}:{bus:02x}:{slot:02x}.0"))
            .map(|nvml| Box::new(nvml) as Box<dyn Sensor>)
    }

    /// Makes the context current in this thread.
    fn enter(&self) -> Result<(), CudaError> {
        // Another library in this thread may have made its own context current, so that is asked each time; the
        // driver keeps it in the thread and answers without a call into the system.
        if result::ctx::get_current().ok().flatten() == Some(self.context) {
            return Ok(());
        }
        // SAFETY: the context is retained until this value is dropped.
        unsafe { result::ctx::set_current(self.context) }.map_err(failed("cuCtxSetCurrent"))
    }

    fn wait(&self, staging: &mut Staging) -> Result<(), CudaError> {
        // SAFETY: the stream lives as long as this value.
        unsafe { result::stream::synchronize(self.stream) }.map_err(failed("cuStreamSynchronize"))?;
        staging.in_flight = false;
        Ok(())
    }

    fn function(&mut self, name: &'static str) -> Result<sys::CUfunction, CudaError> {
        if let Some(&function) = self.functions.get(name) {
            return Ok(function);
        }
        for &module in &self.modules {
            let symbol = CString::new(name).map_err(|_| CudaError::NoKernel { name })?;
            // SAFETY: the module is loaded.
            match unsafe { result::module::get_function(module, symbol) } {
                Ok(function) => {
                    self.functions.insert(name, function);
                    return Ok(function);
                }
                Err(DriverError(CUDA_ERROR_NOT_FOUND)) => {}
                // A driver that loads late compiles here: it may want memory, or tell of an error before.
                Err(error) => return Err(failed(name)(error)),
            }
        }
        Err(CudaError::NoKernel { name })
    }
}

impl Device for Gpu {
    fn allocate(&mut self, bytes: usize) -> Result<Address, CudaError> {
        self.enter()?;
        // SAFETY: what the memory holds at first is nobody's.
        let memory = unsafe { result::malloc_sync(bytes.max(1)) }.map_err(|error| match error.0 {
            CUDA_ERROR_OUT_OF_MEMORY => CudaError::bytes(bytes),
            _ => failed("cuMemAlloc")(error),
        })?;
        self.memory.push(memory);
        Ok(Address(memory))
    }

    fn free(&mut self, memory: Address) {
        let Some(index) = self.memory.iter().position(|&known| known == memory.0) else { return };
        self.memory.swap_remove(index);
        if self.enter().is_ok() {
            // SAFETY: memory of this device, forgotten above. The driver waits for what still uses it.
            let _ = unsafe { result::free_sync(memory.0) };
        }
    }

    fn clear(&mut self, memory: Address, bytes: usize) -> Result<(), CudaError> {
        self.enter()?;
        // SAFETY: the caller's memory has as many bytes.
        unsafe { result::memset_d8_async(memory.0, 0, bytes, self.stream) }.map_err(failed("cuMemsetD8Async"))
    }

    fn upload(&mut self, bytes: &[u8], to: Address) -> Result<(), CudaError> {
        self.enter()?;
        let mut staging = self.staging.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if bytes.len() > STAGING_BYTES {
            // SAFETY: the bytes live until the wait below.
            unsafe { result::memcpy_htod_async(to.0, bytes, self.stream) }
                .map_err(failed("cuMemcpyHtoDAsync"))?;
            return self.wait(&mut staging);
        }
        if staging.in_flight {
            self.wait(&mut staging)?;
        }
        // SAFETY: the staging memory has at least as many bytes, and the device is done with it.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), staging.memory, bytes.len());
            let staged = std::slice::from_raw_parts(staging.memory.cast_const(), bytes.len());
            result::memcpy_htod_async(to.0, staged, self.stream).map_err(failed("cuMemcpyHtoDAsync"))?;
        }
        staging.in_flight = true;
        Ok(())
    }

    fn download(&self, from: Address, bytes: &mut [u8]) -> Result<(), CudaError> {
        self.enter()?;
        let mut staging = self.staging.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if bytes.len() > STAGING_BYTES {
            // SAFETY: the bytes live until the wait below.
            unsafe { result::memcpy_dtoh_async(bytes, from.0, self.stream) }
                .map_err(failed("cuMemcpyDtoHAsync"))?;
            return self.wait(&mut staging);
        }
        if staging.in_flight {
            self.wait(&mut staging)?;
        }
        // SAFETY: the staging memory has at least as many bytes; it is read when the device is done with it.
        unsafe {
            let staged = std::slice::from_raw_parts_mut(staging.memory, bytes.len());
            result::memcpy_dtoh_async(staged, from.0, self.stream).map_err(failed("cuMemcpyDtoHAsync"))?;
        }
        self.wait(&mut staging)?;
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(staging.memory, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    fn probe(&mut self) -> Result<(), CudaError> {
        self.enter()?;
        let mut staging = self.staging.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // An error of a kernel that ran before is given here, and again for ever after.
        self.wait(&mut staging)
    }

    unsafe fn launch(&mut self, launch: &Launch<'_>) -> Result<(), CudaError> {
        self.enter()?;
        let function = self.function(launch.kernel)?;
        let mut words = [0_u64; MAX_ARGUMENTS];
        let mut pointers = [std::ptr::null_mut::<c_void>(); MAX_ARGUMENTS];
        let count = launch.arguments.len();
        if count > MAX_ARGUMENTS {
            let what = format!("{count} parameters, at most {MAX_ARGUMENTS} are passed");
            return Err(CudaError::Driver { call: launch.kernel, what });
        }
        for ((word, pointer), argument) in words.iter_mut().zip(&mut pointers).zip(launch.arguments) {
            // The machine is little-endian: a narrower parameter lies at the word's address.
            *word = match *argument {
                Argument::Address(address) => address.0,
                Argument::Int(value) => u64::from(value as u32),
                Argument::Float(value) => u64::from(value.to_bits()),
                Argument::Size(value) => value,
            };
            *pointer = std::ptr::from_mut(word).cast();
        }
        let [x, y, z] = launch.grid;
        let [threads_x, threads_y, threads_z] = launch.block;
        let (grid, block) = ((x, y, z), (threads_x, threads_y, threads_z));
        // SAFETY: the function is of a loaded module; the caller vouches for the parameters, which the driver copies
        // before it returns.
        unsafe {
            result::launch_kernel(
                function,
                grid,
                block,
                launch.shared_bytes,
                self.stream,
                &mut pointers[..count],
            )
        }
        .map_err(failed(launch.kernel))
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        if self.enter().is_err() {
            return;
        }
        let staging = self.staging.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner).memory;
        // SAFETY: everything is this value's own, and nothing is used afterwards. An error here has nobody to go to.
        unsafe {
            if !self.stream.is_null() {
                let _ = result::stream::synchronize(self.stream);
                let _ = result::stream::destroy(self.stream);
            }
            for &memory in &self.memory {
                let _ = result::free_sync(memory);
            }
            for &module in &self.modules {
                let _ = result::module::unload(module);
            }
            if !staging.is_null() {
                let _ = result::free_host(staging.cast());
            }
            let _ = result::primary_ctx::release(self.device);
        }
    }
}

fn failed(call: &'static str) -> impl Fn(DriverError) -> CudaError {
    move |error| match error.0 {
        CUDA_ERROR_OUT_OF_MEMORY => CudaError::OutOfMemory { what: format!("{call} needs some") },
        _ => CudaError::Driver { call, what: words(error) },
    }
}

/// The driver's words for an error, or its number where it has none.
fn words(error: DriverError) -> String {
    error.error_string().map_or_else(|_| format!("{:?}", error.0), |text| text.to_string_lossy().into_owned())
}
