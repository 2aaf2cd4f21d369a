//! Compiling fixed patterns.

use regex::Regex;

/// The compiled pattern. A pattern that is wrong finds nothing; a test compiles all of them.
pub(crate) fn compiled(pattern: &str) -> Option<Regex> {
    let compiled = Regex::new(pattern);
    debug_assert!(compiled.is_ok(), "{compiled:?}");
    compiled.ok()
}
