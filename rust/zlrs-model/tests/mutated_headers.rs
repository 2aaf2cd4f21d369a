//! 100,000 damaged headers: reading never panics and never uses more memory than the stated bound. A test
//! binary of its own, because it counts allocations.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Read as _;

use zlrs_kernels::TensorType;
use zlrs_model::gguf::limits::peak_header_heap_bytes;
use zlrs_model::gguf::{Array, Header, Strings, Value};
use zlrs_model::synthetic::{Settings, Writer, damage, model};

struct Counting;

thread_local! {
    static LIVE: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

/// Counts on this thread; during its end the counters are gone.
fn count(change: i64) {
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + change);
        PEAK.with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: every call goes to the system's allocator unchanged; counting does not allocate.
#[expect(unsafe_code, reason = "an allocator is unsafe by definition")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the caller's promise, handed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Peak of live heap bytes while `work` runs, above what was live before.
fn peak_of<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = LIVE.get();
    PEAK.set(before);
    let result = work();
    (result, (PEAK.get() - before) as u64)
}

/// Reads `count` damaged copies; how many were accepted all the same.
fn read_damaged(bytes: &[u8], header_bytes: usize, count: u64, seed: u64) -> u64 {
    let mut accepted = 0;
    for number in 0..count {
        let damaged = damage(bytes, header_bytes, seed + number);
        let (result, peak) = peak_of(|| Header::read(&damaged).map(drop));
        let bound = peak_header_heap_bytes(damaged.len() as u64);
        assert!(peak <= bound, "damage {} used {peak} bytes, the bound is {bound}", seed + number);
        accepted += u64::from(result.is_ok());
    }
    accepted
}

/// Every value type, small.
fn every_type() -> Vec<u8> {
    let strings: Strings = ["a", "bc", "", "def"].into_iter().collect();
    let mut writer = Writer::new(2);
    writer
        .entry("general.architecture", Value::String("llama".into()))
        .entry("u8", Value::U8(1))
        .entry("i16", Value::I16(-1))
        .entry("f64", Value::F64(1.0))
        .entry("bool", Value::Bool(true))
        .entry("strings", Value::Array(Array::Strings(Box::new(strings))))
        .entry("u64s", Value::Array(Array::U64(vec![1, 2, 3])))
        .entry("bools", Value::Array(Array::Bool(vec![true, false])))
        .entry("nested", Value::Array(Array::Nested(vec![Array::Nested(vec![Array::U8(vec![1])])])))
        .alignment(64);
    for tensor_type in TensorType::ALL {
        let data = vec![0; tensor_type.row_bytes(256).unwrap() * 2];
        writer.tensor(tensor_type.name(), &[256, 2], tensor_type, data);
    }
    writer.finish()
}

#[test]
fn damaged_headers_are_refused_within_the_bound() {
    let small = every_type();
    let header_bytes = Header::read(&small).unwrap().data_offset as usize;
    // Damage in the file's data changes nothing in the header; some in the header does not matter either.
    let accepted = read_damaged(&small[..header_bytes + 64], header_bytes, 60_000, 1);
    assert!(accepted < 6_000, "{accepted} of 60000 accepted");
    let accepted = read_damaged(&small, header_bytes, 30_000, 1_000_000);
    assert!((100..15_000).contains(&accepted), "{accepted} of 30000 accepted");
    let synthetic = model(&Settings::default());
    let header_bytes = Header::read(&synthetic).unwrap().data_offset as usize;
    // Without data, which would only be copied; the tensors then lie outside the file.
    assert_eq!(read_damaged(&synthetic[..header_bytes], header_bytes, 10_000, 2_000_000), 0);
}

#[test]
fn damaged_headers_of_real_models_are_refused_within_the_bound() {
    for name in [common::SMOLLM2, common::QWEN, common::GEMMA] {
        let Some(path) = common::real_model(name) else { continue };
        let mut start = vec![0; 8 << 20];
        let length = std::fs::File::open(path).unwrap().read(&mut start).unwrap();
        let accepted = read_damaged(&start[..length], 6 << 20, 100, 3_000_000);
        assert_eq!(accepted, 0, "the data of the tensors are not there");
    }
}

#[test]
fn files_made_of_nothing_but_structure_stay_within_the_bound() {
    let structures: [Vec<u8>; 4] = [
        // Many empty arrays in an array: 12 bytes each.
        Writer::new(3).entry("a", Value::Array(Array::Nested(vec![Array::U8(Vec::new()); 200_000]))).finish(),
        // Many empty strings: 8 bytes each.
        Writer::new(3)
            .entry("s", Value::Array(Array::Strings(Box::new(std::iter::repeat_n("", 200_000).collect()))))
            .finish(),
        // Many entries.
        {
            let mut writer = Writer::new(3);
            (0..60_000).for_each(|index: u32| {
                writer.entry(format!("{index:x}"), Value::U8(0));
            });
            writer.finish()
        },
        // Many tensors.
        {
            let mut writer = Writer::new(3);
            writer.alignment(4);
            (0..60_000).for_each(|index: u32| {
                writer.tensor(format!("{index:x}"), &[1], TensorType::F32, vec![0; 4]);
            });
            writer.finish()
        },
    ];
    for bytes in structures {
        let (header, peak) = peak_of(|| Header::read(&bytes).unwrap());
        let bound = peak_header_heap_bytes(bytes.len() as u64);
        assert!(peak <= bound, "{peak} of {bound}");
        assert!(peak > 0 && (!header.metadata.is_empty()));
    }
    // One long string is held twice while it is checked.
    let long = "x".repeat(16 << 20);
    let bytes = Writer::new(3).entry("s", Value::String(long.into())).finish();
    let (_, peak) = peak_of(|| Header::read(&bytes).unwrap());
    assert!(peak <= peak_header_heap_bytes(bytes.len() as u64));
}
