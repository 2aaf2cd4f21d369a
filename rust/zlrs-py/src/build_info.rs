//! What this binary is: version, profile, instruction set in use, source revision.

use std::collections::BTreeMap;

use pyo3::prelude::*;

/// Facts about this build, all as text.
#[pyfunction]
pub fn build_info() -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("profile", env!("ZLRS_PROFILE").to_owned()),
        ("revision", env!("ZLRS_REVISION").to_owned()),
    ])
}
