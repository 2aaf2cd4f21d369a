//! Canonical forms of a question's wording. No I/O.
#![forbid(unsafe_code)]
