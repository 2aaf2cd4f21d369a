//! The kernels on the host as a [`Device`].
#![allow(dead_code, reason = "each test file uses a part of this")]
#![expect(unsafe_code, reason = "calls into the library of host-compiled kernels")]

pub mod model;
pub mod sealed;

use std::ffi::{CString, c_char, c_int, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use libloading::Library;
use zlrs_cuda::{Address, Argument, CudaError, Device, Launch};
use zlrs_kernels::TensorType;
use zlrs_kernels::naive::kv::to_half;

type LaunchFunction =
    unsafe extern "C" fn(*const c_char, *const u32, *const u32, usize, u32, *mut *mut c_void) -> c_int;

/// The order in which threads of a block take their turns.
#[derive(Debug, Clone, Copy)]
pub enum Order {
    Ascending = 0,
    Descending = 1,
    Shuffled = 2,
}

fn lost(call: &'static str) -> CudaError {
    CudaError::Driver { call, what: "the device was lost".to_owned() }
}

/// One launch at a time in the process: the shim keeps its block in global memory.
static TURN: Mutex<()> = Mutex::new(());

/// Host memory and host-compiled kernels.
pub struct Host {
    pub order: Order,
    /// Calls of `allocate` so far.
    pub allocations: Arc<AtomicUsize>,
    /// Whether the device fails from now on.
    pub lost: Arc<AtomicBool>,
    /// A kernel that does nothing here.
    off: Option<&'static str>,
    /// Bytes that may still be allocated.
    room: usize,
    memory: Vec<Vec<u128>>,
}

impl Host {
    pub fn new(order: Order) -> Self {
        Self {
            order,
            allocations: Arc::default(),
            lost: Arc::default(),
            off: None,
            room: usize::MAX,
            memory: Vec::new(),
        }
    }

    /// A device on which a kernel does nothing.
    pub fn without(kernel: &'static str) -> Self {
        Self { off: Some(kernel), ..Self::new(Order::Ascending) }
    }

    /// Memory that is full after so many bytes.
    pub fn with_room(bytes: usize) -> Self {
        Self { room: bytes, ..Self::new(Order::Ascending) }
    }

    /// New memory with these values.
    pub fn upload_all<T: Copy>(&mut self, values: &[T]) -> Address {
        // SAFETY: plain numbers without padding; the slice covers exactly them.
        let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)) };
        let memory = self.allocate(bytes.len().max(1)).unwrap();
        self.upload(bytes, memory).unwrap();
        memory
    }

    /// `count` values from memory.
    pub fn download_all<T: Copy + Default>(&self, from: Address, count: usize) -> Vec<T> {
        let mut values = vec![T::default(); count];
        // SAFETY: plain numbers without padding, for which every bit pattern is a value.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(values.as_mut_ptr().cast::<u8>(), size_of_val(&*values))
        };
        self.download(from, bytes).unwrap();
        values
    }
}

impl Host {
    /// Runs a kernel; its arguments are as its header says.
    pub fn run(
        &mut self,
        kernel: &'static str,
        grid: [u32; 3],
        threads: u32,
        shared_bytes: u32,
        arguments: &[Argument],
    ) {
        let launch = Launch { kernel, grid, block: [threads, 1, 1], shared_bytes, arguments };
        // SAFETY: tests give parameters and memory as the kernels' headers say.
        unsafe { self.launch(&launch) }.unwrap();
    }
}

/// A small generator: tests need spread, not quality.
pub struct Random(pub u64);

impl Random {
    /// 31 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// Between -2 and 2.
    pub fn float(&mut self) -> f32 {
        (self.next() as f32 / (1_u64 << 31) as f32 - 0.5) * 4.0
    }
}

/// Random blocks whose f16 fields are ordinary numbers.
pub fn random_weights(random: &mut Random, tensor_type: TensorType, rows: usize, cols: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        (0..rows * tensor_type.row_bytes(cols).unwrap()).map(|_| random.next() as u8).collect();
    if tensor_type.is_float() {
        let values = (0..rows * cols).map(|_| random.float());
        return match tensor_type {
            TensorType::F32 => values.flat_map(f32::to_le_bytes).collect(),
            TensorType::F16 => values.flat_map(|value| to_half(value).to_le_bytes()).collect(),
            _ => values.flat_map(|value| (value.to_bits() >> 16).to_le_bytes()[..2].to_vec()).collect(),
        };
    }
    let fields: &[usize] = match tensor_type {
        TensorType::Q6K => &[208],
        TensorType::Q4_1 | TensorType::Q4K | TensorType::Q5K => &[0, 2],
        _ => &[0],
    };
    for block in bytes.chunks_exact_mut(tensor_type.block_bytes()) {
        for &field in fields {
            // Between 2^-8 and 2^-4, either sign.
            block[field + 1] = (block[field + 1] & 0x8f) | 0x20 | (block[field + 1] & 0x0c);
        }
    }
    bytes
}

pub fn assert_bits(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: length");
    let differs = found.iter().zip(expected).position(|(a, b)| a.to_bits() != b.to_bits());
    if let Some(index) = differs {
        panic!("{what}: value {index} is {}, expected {}", found[index], expected[index]);
    }
}

impl Device for Host {
    fn allocate(&mut self, bytes: usize) -> Result<Address, CudaError> {
        self.allocations.fetch_add(1, Ordering::Relaxed);
        self.room = self.room.checked_sub(bytes).ok_or_else(|| CudaError::bytes(bytes))?;
        // Exactly as long as asked, rounded to the alignment of the largest word: overruns are seen.
        let memory = vec![u128::MAX; bytes.div_ceil(16)];
        let address = Address(memory.as_ptr() as u64);
        self.memory.push(memory);
        Ok(address)
    }

    fn free(&mut self, memory: Address) {
        self.memory.retain(|kept| kept.as_ptr() as u64 != memory.0);
    }

    fn clear(&mut self, memory: Address, bytes: usize) -> Result<(), CudaError> {
        // SAFETY: memory of this device with at least as many bytes.
        unsafe { std::ptr::write_bytes(memory.0 as *mut u8, 0, bytes) };
        Ok(())
    }

    fn upload(&mut self, bytes: &[u8], to: Address) -> Result<(), CudaError> {
        if self.lost.load(Ordering::Relaxed) {
            return Err(lost("an upload"));
        }
        // SAFETY: `to` is memory of this device that the caller sized for these bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.0 as *mut u8, bytes.len()) };
        Ok(())
    }

    fn download(&self, from: Address, bytes: &mut [u8]) -> Result<(), CudaError> {
        // SAFETY: `from` is memory of this device with at least as many bytes.
        unsafe { std::ptr::copy_nonoverlapping(from.0 as *const u8, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    fn probe(&mut self) -> Result<(), CudaError> {
        if self.lost.load(Ordering::Relaxed) { Err(lost("a probe")) } else { Ok(()) }
    }

    unsafe fn launch(&mut self, launch: &Launch<'_>) -> Result<(), CudaError> {
        if self.lost.load(Ordering::Relaxed) {
            return Err(lost(launch.kernel));
        }
        if self.off == Some(launch.kernel) {
            return Ok(());
        }
        let mut words: Vec<u64> = launch
            .arguments
            .iter()
            .map(|argument| match *argument {
                Argument::Address(address) => address.0,
                Argument::Int(value) => u64::from(value as u32),
                Argument::Float(value) => u64::from(value.to_bits()),
                Argument::Size(value) => value,
            })
            .collect();
        let mut pointers: Vec<*mut c_void> =
            words.iter_mut().map(|word| std::ptr::from_mut(word).cast()).collect();
        let name = CString::new(launch.kernel).unwrap();
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the library's function has this type; the caller vouches for the arguments.
        let known = unsafe {
            let function = library().get::<LaunchFunction>(b"zlrs_shim_launch").unwrap();
            function(
                name.as_ptr(),
                launch.grid.as_ptr(),
                launch.block.as_ptr(),
                launch.shared_bytes as usize,
                self.order as u32,
                pointers.as_mut_ptr(),
            )
        };
        if known == 0 { Ok(()) } else { Err(CudaError::NoKernel { name: launch.kernel }) }
    }
}

/// The library of `cuda/`, compiled once a process for the machine that runs the test.
fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let path = compile();
        // SAFETY: its initialisers fill a table of kernels and do nothing else.
        unsafe { Library::new(path) }.unwrap()
    })
}

/// Compiles the sources unless they have been compiled as they are.
fn compile() -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cuda");
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let mut flags =
        vec!["-std=c++20", "-O2", "-ffp-contract=off", "-fno-strict-aliasing", "-fPIC", "-shared"];
    if cfg!(target_arch = "x86_64") {
        flags.extend(["-mfma", "-mf16c"]);
    }
    if std::env::var_os("ZLRS_SHIM_SANITIZE").is_some() {
        // Less optimisation: checked code of the larger kernels otherwise compiles for minutes.
        flags.extend(["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]);
    }
    let mut hasher = DefaultHasher::new();
    (&compiler, &flags).hash(&mut hasher);
    for folder in ["kernels", "shim"] {
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(sources.join(folder)).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        for file in files {
            std::fs::read(file).unwrap().hash(&mut hasher);
        }
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let output = folder.join(format!("libzlrs_shim_{:016x}.so", hasher.finish()));
    if output.exists() {
        return output;
    }
    // Written under another name first: a build that is broken off leaves nothing that looks finished.
    let unfinished = folder.join(format!("shim_{}.so", std::process::id()));
    let library = sources.join("shim/library.cpp");
    let status = Command::new(&compiler)
        .args(&flags)
        .arg(&library)
        .arg("-o")
        .arg(&unfinished)
        .status()
        .unwrap_or_else(|error| {
            panic!("{compiler} cannot be run ({error}): install a C++20 compiler or set CXX")
        });
    assert!(status.success(), "{compiler} does not compile {}", library.display());
    std::fs::rename(&unfinished, &output).unwrap();
    output
}
