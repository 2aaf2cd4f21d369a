//! What this machine gives: plain reading, the clock, and each weight type's product, as JSON on standard output.
//!
//! ```sh
//! cargo run --release -p zlrs-kernels --example machine_speed -- [THREADS [MILLISECONDS_PER_FIGURE [TYPE]]]
//! cargo run --release -p zlrs-kernels --example machine_speed -- THREADS MILLISECONDS_PER_FIGURE read BYTES
//! ```
//!
//! Figures are the best of short rounds: other processes only ever make a round slower. `read` reads as many bytes
//! as named, again and again, and reports the median too: what a token's weights are to be compared with, which are
//! read again and again as well and lie in caches in part where the caches are not much smaller.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program for measuring")]

use std::hint::black_box;
use std::time::{Duration, Instant};
use zlrs_kernels::{Isa, Matrix, Pool, Scratch, TensorType, matmul};

/// Bytes that no cache holds.
const MEMORY_BYTES: usize = 256 << 20;
const ROWS: usize = 4864;
const COLS: usize = 1024;

/// The times of the calls of `job` in about `time`, in seconds, ascending.
fn rounds(time: Duration, mut job: impl FnMut()) -> Vec<f64> {
    job();
    let start = Instant::now();
    let mut rounds = Vec::new();
    while rounds.is_empty() || start.elapsed() < time {
        let round = Instant::now();
        job();
        rounds.push(round.elapsed().as_secs_f64());
    }
    rounds.sort_by(f64::total_cmp);
    rounds
}

/// The shortest time of one call of `job` in about `time`.
fn best(time: Duration, job: impl FnMut()) -> f64 {
    rounds(time, job)[0]
}

/// So many bytes, none of them zero pages that the system shares, in large pages where it allows them: as the
/// weights lie.
fn memory(bytes: usize) -> Vec<u64> {
    const PAGE: usize = 2 << 20;
    let mut memory: Vec<u64> = Vec::with_capacity((bytes + PAGE) / 8);
    let skipped = memory.as_ptr().align_offset(4096);
    #[expect(unsafe_code, reason = "no safe way to ask for large pages")]
    // SAFETY: whole pages inside the vector's own allocation; the advice changes no content. It may be refused.
    let _ = unsafe {
        let start = memory.as_mut_ptr().wrapping_add(skipped).cast();
        rustix::mm::madvise(start, bytes / 4096 * 4096, rustix::mm::Advice::LinuxHugepage)
    };
    memory.resize(bytes / 8, 1);
    memory
}

/// Cycles a nanosecond, by a chain of additions that depend on one another.
fn cycles_per_ns(time: Duration) -> f64 {
    const STEPS: u32 = 1 << 16;
    let seconds = best(time, || {
        let mut x = black_box(1_u64);
        for _ in 0..STEPS / 8 {
            // Eight steps of one cycle each that no compiler merges.
            for _ in 0..8 {
                x = black_box_register(x).wrapping_add(3);
            }
        }
        black_box(x);
    });
    f64::from(STEPS) / seconds / 1e9
}

/// Hides a value from the optimiser without sending it through memory.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a call would be longer than what is measured")]
#[expect(unsafe_code, reason = "an empty statement that names a register")]
fn black_box_register(mut x: u64) -> u64 {
    // SAFETY: no instruction at all.
    unsafe { std::arch::asm!("/* {0} */", inout(reg) x, options(nomem, nostack, preserves_flags)) };
    x
}

/// How far ahead the faster way of reading asks for memory, in bytes: what the products do.
const PREFETCH: usize = 4096;

/// Asks for the memory a page further on, where the processor has an instruction for it.
#[inline(always)]
fn prefetch(at: &[u64]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = at.as_ptr().cast::<i8>().wrapping_add(PREFETCH);
        #[expect(unsafe_code, reason = "an instruction without a safe name")]
        // SAFETY: part of the architecture; no memory is read, so the address may lie anywhere.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(address);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Reading with nothing else to do. With `ahead` as the products read, which some processors need to reach their
/// memory's rate: a product is compared with the faster of both, or its share would be flattered.
/// Best and median.
fn read_gb_per_s(pool: &Pool, memory: &[u64], time: Duration, ahead: bool) -> [f64; 2] {
    let threads = pool.threads();
    let seconds = rounds(time, || {
        pool.run(&|worker| {
            let share = &memory[memory.len() * worker / threads..memory.len() * (worker + 1) / threads];
            // Two streams, as the products read.
            let (first, second) = share.split_at(share.len() / 2);
            let mut sums = [0_u64; 16];
            for (a, b) in first.chunks_exact(8).zip(second.chunks_exact(8)) {
                if ahead {
                    prefetch(a);
                    prefetch(b);
                }
                for lane in 0..8 {
                    sums[lane] ^= a[lane];
                    sums[lane + 8] ^= b[lane];
                }
            }
            black_box(sums);
        })
        .unwrap();
    });
    [seconds[0], seconds[seconds.len() / 2]].map(|seconds| (memory.len() * 8) as f64 / seconds / 1e9)
}

fn matrix(isa: Isa, pool: &Pool, tensor_type: TensorType) -> Matrix {
    Matrix::pack(isa, pool, tensor_type, ROWS, COLS, &|range, buffer: &mut [u8]| {
        let mut x = range.start as u64 + 88_172_645_463_325_252;
        for byte in buffer {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            // No byte that makes a huge scale.
            *byte = (x >> 32) as u8 & 0x3f;
        }
        Ok(())
    })
    .unwrap()
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let threads = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(2);
    let milliseconds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(300);
    let time = Duration::from_millis(milliseconds);
    let only = arguments.next();
    let pool = Pool::new(threads).unwrap();
    if only.as_deref() == Some("read") {
        let bytes = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(MEMORY_BYTES);
        let memory = memory(bytes);
        let [plain, ahead] = [false, true].map(|ahead| read_gb_per_s(&pool, &memory, time, ahead));
        let (best, median) = (plain[0].max(ahead[0]), plain[1].max(ahead[1]));
        println!("{{\"bytes\": {bytes}, \"best_gb_per_s\": {best:.2}, \"median_gb_per_s\": {median:.2}}}");
        return;
    }
    let isa = Isa::select().unwrap();
    let clock = cycles_per_ns(time);
    let memory = memory(MEMORY_BYTES);
    println!("{{\"threads\": {threads}, \"isa\": \"{}\", \"clock_ghz\": {clock:.3},", isa.name());
    let [plain, ahead] = [false, true].map(|ahead| read_gb_per_s(&pool, &memory, time, ahead)[0]);
    println!("\"read_gb_per_s\": {:.2}, \"read_without_prefetch_gb_per_s\": {plain:.2},", plain.max(ahead));
    drop(memory);
    println!("\"products\": {{");
    let types: Vec<TensorType> = TensorType::ALL
        .into_iter()
        .filter(|tensor_type| !tensor_type.is_float())
        .filter(|tensor_type| {
            only.as_deref().is_none_or(|only| tensor_type.name().eq_ignore_ascii_case(only))
        })
        .collect();
    for (index, &tensor_type) in types.iter().enumerate() {
        let one = matrix(isa, &pool, tensor_type);
        let count = MEMORY_BYTES / one.bytes() / 2;
        let matrices: Vec<Matrix> = (0..count).map(|_| matrix(isa, &pool, tensor_type)).collect();
        let mut scratch = Scratch::new();
        let mut figures: Vec<String> = Vec::new();
        for rows in [1, 2, 4, 8, 32, 256] {
            let x: Vec<f32> = (0..rows * COLS).map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0).collect();
            let mut out = vec![0.0; rows * ROWS];
            let mut next = 0;
            let seconds = best(time, || {
                let some = if rows <= 8 { 8 } else { 1 };
                for _ in 0..some {
                    let weights = &matrices[next % count];
                    next += 1;
                    matmul(&pool, weights, &x, rows, None, &mut out, &mut scratch).unwrap();
                }
            }) / if rows <= 8 { 8.0 } else { 1.0 };
            let macs = (ROWS * COLS * rows) as f64 / seconds / (clock * 1e9) / threads as f64;
            let gb = one.bytes() as f64 / seconds / 1e9;
            figures.push(format!(
                "\"{rows}\": {{\"us\": {:.1}, \"gb_per_s\": {gb:.2}, \"mac_per_cycle_and_core\": {macs:.2}}}",
                seconds * 1e6
            ));
        }
        let comma = if index + 1 == types.len() { "" } else { "," };
        println!("\"{}\": {{{}}}{comma}", tensor_type.name(), figures.join(", "));
    }
    println!("}}}}");
}
