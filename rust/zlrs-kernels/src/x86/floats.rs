//! Vectors of floats, as attention needs them.

use super::product::{Product, Stored};
use crate::naive::attention::TILE;

/// # Safety
/// The functions need the set's features; pointers have as many values as are read or written, at any alignment.
pub(crate) trait Floats {
    /// A vector.
    type Vector: Copy;
    /// Floats of a vector.
    const LANES: usize;
    /// Sums that leave registers for what they are made of.
    const SUMS: usize;
    /// The most queries with which a pass takes four vectors side by side instead of two.
    const FOUR_VECTORS_UP_TO: usize;

    /// A number in all lanes.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn set(value: f32) -> Self::Vector;
    /// A vector from `p`.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn load(p: *const f32) -> Self::Vector;
    /// A vector of f16 from `p`, exactly.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn load_half(p: *const u16) -> Self::Vector;
    /// A vector to `p`.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn store(p: *mut f32, v: Self::Vector);
    /// `a x b`.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn multiply(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `fma(a, b, c)`.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn fused(a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    /// Turns a query's scores into weights; updates its maximum and sum; the correction for what came before.
    ///
    /// # Safety
    /// As the trait states.
    unsafe fn weigh(weights: &mut [f32; TILE], max: &mut f32, sum: &mut f32) -> f32;
    /// [`Product::add_queries`], compiled once for each shape.
    ///
    /// # Safety
    /// As that function states.
    unsafe fn add_queries<T: Stored, const VECTORS: usize, const QUERIES: usize>(
        product: &Product<'_, T, VECTORS>,
    );
}
