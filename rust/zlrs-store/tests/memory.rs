//! What an entry costs in memory: the index is to stay well under 40 bytes a key, whatever the number of keys.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test stops at what is wrong")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use zlrs_graph::Digest;
use zlrs_store::Index;

/// Counts the bytes that are allocated now.
struct Counting;

static HELD_BYTES: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[expect(unsafe_code, reason = "an allocator is unsafe by its trait; this one only counts and passes on")]
// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD_BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[test]
fn a_key_costs_about_thirty_bytes_at_every_size() {
    let before = HELD_BYTES.load(Ordering::Relaxed);
    let held = || HELD_BYTES.load(Ordering::Relaxed).saturating_sub(before);
    let mut index = Index::default();
    for number in 1..=200_000_u64 {
        index.insert(&Digest::of(&number.to_le_bytes()), number, number * 1000);
        if number % 10_000 == 0 {
            let each = held() as f64 / number as f64;
            assert!((26.0..=31.0).contains(&each), "{each:.1} bytes a key at {number} keys");
        }
    }
    let place = index.get(&Digest::of(&7_u64.to_le_bytes())).unwrap();
    assert_eq!((place.row, place.expiry_ms, place.verified), (7, 7000, false));
    index.retain(100_000, 0);
    assert_eq!(index.len(), 100_001);
    index.retain(0, 150_000_000);
    assert_eq!(index.len(), 50_000);
    let each = held() as f64 / 50_000.0;
    assert!(each < 45.0, "{each:.1} bytes a key when three of four are gone");
    index.clear();
    // What runs the tests holds a few bytes too.
    assert!(index.is_empty() && held() < 4096, "{} bytes", held());
}
