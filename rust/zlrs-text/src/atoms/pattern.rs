//! Compiling fixed patterns.

use regex::Regex;

/// The compiled pattern. A pattern that is wrong finds nothing; tests find something with each one.
pub(crate) fn compiled(pattern: &str) -> Option<Regex> {
    let compiled = Regex::new(pattern);
    debug_assert!(compiled.is_ok(), "{compiled:?}");
    compiled.ok()
}
