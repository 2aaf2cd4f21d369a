//! Activations as signed bytes with one f32 scale per block.

/// Below this largest magnitude the values are lifted first: `127 / amax` would overflow for the smallest
/// normal numbers.
pub const LIFT_BELOW: f32 = f32::from_bits(27 << 23); // 2^-100
/// The lift, a power of two, so that it changes no rounding.
pub const LIFT: f32 = f32::from_bits(227 << 23); // 2^100

/// Quantises one block: `q = round(x * (127 / amax))`, ties to even, clamped to +-127; returns the scale
/// `d = amax / 127`, so that `x` is about `d * q`.
///
/// An `amax` below the smallest normal number gives `d = 0` and zeros. A NaN or an infinity among the values
/// gives `d = NaN` and zeros: every product with the block is then NaN, which the engine reports, where a
/// silent zero would go unnoticed. `q` is as long as `x`.
pub fn quantise_block(x: &[f32], q: &mut [i8]) -> f32 {
    // The bit patterns of magnitudes order like the numbers, with infinity and then NaN above all.
    let amax = f32::from_bits(x.iter().map(|v| v.abs().to_bits()).max().unwrap_or(0));
    if !amax.is_finite() || amax < f32::MIN_POSITIVE {
        q.fill(0);
        return if amax.is_finite() { 0.0 } else { f32::NAN };
    }
    let lift = if amax < LIFT_BELOW { LIFT } else { 1.0 };
    let inverse = 127.0 / (amax * lift);
    for (q, x) in q.iter_mut().zip(x) {
        *q = (x * lift * inverse).round_ties_even().clamp(-127.0, 127.0) as i8;
    }
    amax / 127.0
}

/// The quantised rows of one call.
#[derive(Debug, Default)]
pub struct Activations {
    cols: usize,
    block_len: usize,
    quants: Vec<i8>,
    scales: Vec<f32>,
}

impl Activations {
    /// Quantises `x`, `[rows][cols]`, in blocks of `block_len`, which divides `cols`. Keeps its memory from
    /// call to call.
    pub fn quantise(&mut self, x: &[f32], cols: usize, block_len: usize) {
        self.cols = cols;
        self.block_len = block_len;
        self.quants.resize(x.len(), 0);
        self.scales.resize(x.len() / block_len, 0.0);
        let blocks = x.chunks_exact(block_len).zip(self.quants.chunks_exact_mut(block_len));
        for ((x, q), d) in blocks.zip(&mut self.scales) {
            *d = quantise_block(x, q);
        }
    }

    /// The bytes of block `block` of row `row`.
    pub fn quants(&self, row: usize, block: usize) -> &[i8] {
        let start = row * self.cols + block * self.block_len;
        &self.quants[start..start + self.block_len]
    }

    /// Its scale.
    pub fn scale(&self, row: usize, block: usize) -> f32 {
        self.scales[row * (self.cols / self.block_len) + block]
    }
}
