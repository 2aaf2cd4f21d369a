//! A thread whose arithmetic is not the specification's gets no pool.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

use zlrs_kernels::{KernelError, Pool};

/// Sets the control register of vector arithmetic for a call.
#[expect(unsafe_code, reason = "there is no other way to set the mode")]
fn with_mode<T>(bits: u32, call: impl FnOnce() -> T) -> T {
    let mut before = 0_u32;
    // SAFETY: stores the control register to a local.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut before, options(nostack)) };
    let changed = before | bits;
    // SAFETY: loads it with a mode added; restored below, and nothing between relies on the default.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const changed, options(nostack)) };
    let result = call();
    // SAFETY: the value from before.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const before, options(nostack)) };
    result
}

#[test]
fn flushing_and_other_roundings_are_refused() {
    Pool::new(2).unwrap();
    // Flush to zero, denormals are zero, round down, round up, truncate.
    for bits in [1 << 15, 1 << 6, 1 << 13, 1 << 14, 3 << 13] {
        let refused = with_mode(bits, || matches!(Pool::new(2), Err(KernelError::FloatMode)));
        assert!(refused, "{bits:#x}");
    }
    Pool::new(2).unwrap();
}
