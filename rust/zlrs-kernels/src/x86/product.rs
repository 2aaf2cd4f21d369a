//! The one product of attention: a few weights a row times a matrix, lanes along the matrix's rows. For scores the
//! matrix is a tile's keys (rows are dimensions, lanes positions), for values a tile's values (rows are positions,
//! lanes dimensions). No lane is ever added to another.

use super::floats::Floats;
use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

/// The most queries that share a pass.
const MAX_QUERIES: usize = 6;

/// How the matrix is stored.
pub(crate) trait Stored: Copy {
    /// Whether it lies in the arena, where what comes next is worth asking for ahead.
    const ASK_AHEAD: bool;

    /// A vector from `p`.
    ///
    /// # Safety
    /// As [`Floats`] states.
    unsafe fn load<F: Floats>(p: *const Self) -> F::Vector;
}

/// f16, in the arena.
impl Stored for u16 {
    const ASK_AHEAD: bool = true;

    #[inline(always)]
    unsafe fn load<F: Floats>(p: *const u16) -> F::Vector {
        // SAFETY: the caller's promise.
        unsafe { F::load_half(p) }
    }
}

/// Converted, in working memory.
impl Stored for f32 {
    const ASK_AHEAD: bool = false;

    #[inline(always)]
    unsafe fn load<F: Floats>(p: *const f32) -> F::Vector {
        // SAFETY: the caller's promise.
        unsafe { F::load(p) }
    }
}

/// Rows of the matrix at one distance from each other.
#[derive(Clone, Copy)]
pub(crate) struct Stretch<T, const VECTORS: usize> {
    /// Where each vector's first row starts.
    pub(crate) rows: [*const T; VECTORS],
    /// Where the rows start that are wanted next.
    pub(crate) ahead: [*const T; VECTORS],
    /// The first row's weight among a query's weights.
    pub(crate) first: usize,
    pub(crate) steps: usize,
}

/// `out[q] = out[q] · factors[q] + Σ weights[q][i] · matrix[i]` over ascending rows `i`, in `VECTORS` vectors.
///
/// The shape (vectors and queries of a pass) changes which sums are computed side by side, never the order inside
/// one.
pub(crate) struct Product<'a, T, const VECTORS: usize> {
    pub(crate) weights: *const f32,
    /// Between the weights of one query and the next.
    pub(crate) weights_stride: usize,
    pub(crate) stretches: &'a [Stretch<T, VECTORS>],
    /// Between rows.
    pub(crate) stride: usize,
    /// One a query; none where sums start at zero.
    pub(crate) factors: Option<*const f32>,
    /// Sums of the first query; its vectors lie side by side.
    pub(crate) out: *mut f32,
    /// Between the sums of one query and the next.
    pub(crate) out_stride: usize,
    /// Whether to ask for the rows ahead.
    pub(crate) ask_ahead: bool,
}

impl<T: Stored, const VECTORS: usize> Product<'_, T, VECTORS> {
    /// # Safety
    /// Needs the features of `F`. For each of `queries` queries there are as many weights as the stretches tell,
    /// a factor, and sums of `VECTORS` vectors, at their strides; each vector has its stretches' rows.
    #[inline(always)]
    pub(crate) unsafe fn add<F: Floats>(&self, queries: usize) {
        // Passes of about equal size: one query alone would wait for its own sums.
        let most = MAX_QUERIES.min(F::SUMS / VECTORS);
        let passes = queries.div_ceil(most);
        for pass in 0..passes {
            let (first, end) = (pass * queries / passes, (pass + 1) * queries / passes);
            // SAFETY: the queries from `first` to `end` are among those the caller promised.
            unsafe {
                let part = Product {
                    weights: self.weights.add(first * self.weights_stride),
                    factors: self.factors.map(|factors| factors.add(first)),
                    out: self.out.add(first * self.out_stride),
                    ask_ahead: self.ask_ahead && pass == 0,
                    ..*self
                };
                match end - first {
                    1 => F::add_queries::<T, VECTORS, 1>(&part),
                    2 => F::add_queries::<T, VECTORS, 2>(&part),
                    3 => F::add_queries::<T, VECTORS, 3>(&part),
                    4 => F::add_queries::<T, VECTORS, 4>(&part),
                    5 => F::add_queries::<T, VECTORS, 5>(&part),
                    _ => F::add_queries::<T, VECTORS, MAX_QUERIES>(&part),
                }
            }
        }
    }

    /// # Safety
    /// As [`add`](Self::add) for `QUERIES` queries.
    #[inline(always)]
    pub(crate) unsafe fn add_queries<F: Floats, const QUERIES: usize>(&self) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut sums = [[F::set(0.0); VECTORS]; QUERIES];
            if let Some(factors) = self.factors {
                for (query, sums) in sums.iter_mut().enumerate() {
                    let factor = F::set(*factors.add(query));
                    for (vector, sum) in sums.iter_mut().enumerate() {
                        let before = F::load(self.out.add(query * self.out_stride + F::LANES * vector));
                        *sum = F::multiply(before, factor);
                    }
                }
            }
            for stretch in self.stretches {
                let mut step = 0;
                while step + 2 <= stretch.steps {
                    self.step::<F, QUERIES>(stretch, step, 0, &mut sums);
                    self.step::<F, QUERIES>(stretch, step + 1, 1, &mut sums);
                    step += 2;
                }
                if step < stretch.steps {
                    self.step::<F, QUERIES>(stretch, step, 0, &mut sums);
                }
            }
            for (query, sums) in sums.iter().enumerate() {
                for (vector, sum) in sums.iter().enumerate() {
                    F::store(self.out.add(query * self.out_stride + F::LANES * vector), *sum);
                }
            }
        }
    }

    /// One row. `parity` is the step's: by turns, even and odd vectors ask ahead. A line of memory holds two
    /// neighbouring rows of a vector of keys, or one row of two neighbouring vectors of values, so each is asked for
    /// once.
    ///
    /// # Safety
    /// As [`add_queries`](Self::add_queries); the stretch has the step.
    #[inline(always)]
    unsafe fn step<F: Floats, const QUERIES: usize>(
        &self,
        stretch: &Stretch<T, VECTORS>,
        step: usize,
        parity: usize,
        sums: &mut [[F::Vector; VECTORS]; QUERIES],
    ) {
        // SAFETY: the caller's promise; asking ahead reads nothing.
        unsafe {
            if T::ASK_AHEAD && self.ask_ahead {
                for vector in (parity % VECTORS..VECTORS).step_by(2) {
                    let line = stretch.ahead[vector].wrapping_add(step * self.stride);
                    _mm_prefetch::<_MM_HINT_T0>(line.cast());
                }
            }
            let rows = stretch.rows.map(|first| T::load::<F>(first.add(step * self.stride)));
            let weights = self.weights.add(stretch.first + step);
            for (query, sums) in sums.iter_mut().enumerate() {
                let weight = F::set(*weights.add(query * self.weights_stride));
                for (sum, row) in sums.iter_mut().zip(rows) {
                    *sum = F::fused(weight, row, *sum);
                }
            }
        }
    }
}
