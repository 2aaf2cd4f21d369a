//! Loading weights holds them once. A test binary of its own, because it counts allocations of all threads.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering};

use zlrs_kernels::{Isa, Pool};
use zlrs_model::decoder::Decoder;
use zlrs_model::gguf::File;
use zlrs_model::synthetic::Settings;
use zlrs_model::weights::Weights;

struct Counting;

static LIVE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

fn count(change: i64) {
    let live = LIVE.fetch_add(change, Ordering::Relaxed) + change;
    PEAK.fetch_max(live, Ordering::Relaxed);
}

// SAFETY: every call goes to the system's allocator unchanged; counting does not allocate.
#[expect(unsafe_code, reason = "an allocator is unsafe by definition")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the caller's promise, handed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Buffers of slices that are being read, a few for each worker.
const BUFFERS: i64 = 16 << 20;

fn peak_of_loading(file: &File) -> (i64, usize) {
    let decoder = Decoder::from_metadata(file.metadata(), file).unwrap();
    let pool = Pool::new(2).unwrap();
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let weights = Weights::load(&decoder, file, Isa::detect(), &pool, &|_, _| {}).unwrap();
    (PEAK.load(Ordering::Relaxed) - before, weights.bytes())
}

#[test]
fn weights_are_held_once() {
    let settings = Settings { width: 1024, mlp_width: 4096, heads: 16, layers: 4, ..Settings::default() };
    let mut files = vec![common::synthetic(&settings)];
    files.extend(common::real_model(common::SMOLLM2).map(|path| File::open(&path).unwrap()));
    for file in files {
        let (peak, packed) = peak_of_loading(&file);
        let data: u64 = file.tensors().iter().map(|tensor| tensor.bytes).sum();
        assert!(packed as i64 >= 30 << 20 && packed as f64 <= 1.02 * data as f64, "{packed} of {data}");
        assert!(peak <= packed as i64 + BUFFERS, "peak {peak}, packed {packed}");
    }
}
