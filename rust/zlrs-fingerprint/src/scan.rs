//! The two inner loops, compiled for wider registers too. Sums of integers: any order gives the same.
//!
//! They are written with wrapping operations because checked ones keep the compiler from using vectors. Nothing wraps:
//! a row is at most 480 products of 8-bit numbers beside a bias below 2²⁴, far below 2³¹.

/// Whether this machine has the wider registers.
pub fn is_wide() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled into each of its callers' instruction sets")]
fn dot_words(left: &[i16], right: &[i16]) -> i32 {
    left.iter()
        .zip(right)
        .map(|(left, right)| i32::from(*left).wrapping_mul(i32::from(*right)))
        .fold(0, i32::wrapping_add)
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled into each of its callers' instruction sets")]
fn products_plain(window: &[i16], rows: &[i16], bias: &[i32], out: &mut [i32]) {
    for ((row, bias), out) in rows.chunks_exact(window.len()).zip(bias).zip(out) {
        *out = bias.wrapping_add(dot_words(window, row));
    }
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled into each of its callers' instruction sets")]
fn dots_plain(query: &[i8; 64], rows: &[[i8; 64]], out: &mut [i32]) {
    for (row, out) in rows.iter().zip(out) {
        let mut sum = 0_i32;
        for (left, right) in query.iter().zip(row) {
            sum = sum.wrapping_add(i32::from(i16::from(*left).wrapping_mul(i16::from(*right))));
        }
        *out = sum;
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn products_wide(window: &[i16], rows: &[i16], bias: &[i32], out: &mut [i32]) {
    products_plain(window, rows, bias, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn dots_wide(query: &[i8; 64], rows: &[[i8; 64]], out: &mut [i32]) {
    dots_plain(query, rows, out);
}

/// `out[i] = bias[i] + window · rows[i]`, rows as long as the window. `wide` as [`is_wide`] says.
pub fn products(wide: bool, window: &[i16], rows: &[i16], bias: &[i32], out: &mut [i32]) {
    #[cfg(target_arch = "x86_64")]
    if wide && is_wide() {
        // SAFETY: the instructions are there, as was asked on this line's condition.
        #[expect(unsafe_code, reason = "the one way to reach code of another instruction set")]
        unsafe {
            products_wide(window, rows, bias, out);
        }
        return;
    }
    let _ = wide;
    products_plain(window, rows, bias, out);
}

/// `out[i] = query · rows[i]`. `wide` as [`is_wide`] says.
pub fn dots(wide: bool, query: &[i8; 64], rows: &[[i8; 64]], out: &mut [i32]) {
    #[cfg(target_arch = "x86_64")]
    if wide && is_wide() {
        // SAFETY: the instructions are there, as was asked on this line's condition.
        #[expect(unsafe_code, reason = "the one way to reach code of another instruction set")]
        unsafe {
            dots_wide(query, rows, out);
        }
        return;
    }
    let _ = wide;
    dots_plain(query, rows, out);
}
