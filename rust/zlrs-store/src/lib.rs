//! SQLite store, audit chain, writer thread; one trait for every store.
#![forbid(unsafe_code)]
