//! How near two forms must be before the graph explores whether they share answers, by load.
//!
//! Exploring compares what is forwarded anyway, and finds the most where there is the most to save: a busy upstream is
//! a reason to look further. The bound on what may be served does not know the load.

/// τ at rest and above [`BUSY`].
const AT_REST: f64 = 0.85;
const AT_BUSY: f64 = 0.72;
/// Load from which on τ stays.
const BUSY: f64 = 0.75;

/// τ at `load`, the used part of the capacity from 0 to 1: falls evenly from 0.85 at rest to 0.72 at 75 %, and stays
/// there. A load that is not a number counts as rest.
pub fn explore_threshold(load: f64) -> f64 {
    let used = if load.is_nan() { 0.0 } else { load.clamp(0.0, BUSY) / BUSY };
    (AT_BUSY - AT_REST).mul_add(used, AT_REST)
}
