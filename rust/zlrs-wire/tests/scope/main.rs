//! Keys: what must differ differs, what is ignored does not.
#![expect(clippy::unwrap_used, reason = "helpers of tests stand outside the test functions")]

mod fields;
mod parts;
mod properties;
mod samples;
