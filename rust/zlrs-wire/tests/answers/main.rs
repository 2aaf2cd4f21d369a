//! Answers off the wire, and back onto it.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests stand outside the test functions"
)]

mod assemble;
mod replay;
mod samples;
