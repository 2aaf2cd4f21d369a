//! What this binary is: version, profile, instruction sets, source revision.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use zlrs_kernels::{Isa, NUMERICS_VERSION};

/// Facts about this build and the machine it runs on, all as text. `isa` is the instruction set an engine would
/// use now, `isa_available` all that it could.
#[pyfunction]
pub fn build_info() -> BTreeMap<&'static str, String> {
    let available: Vec<_> = Isa::ALL.into_iter().filter(|isa| isa.is_available()).map(Isa::name).collect();
    let selected = Isa::select().map_or_else(|error| error.to_string(), |isa| isa.name().to_owned());
    BTreeMap::from([
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("profile", env!("ZLRS_PROFILE").to_owned()),
        ("revision", env!("ZLRS_REVISION").to_owned()),
        ("isa", selected),
        ("isa_available", available.join(",")),
        ("features", "cpu,cuda".to_owned()),
        ("numerics_version", NUMERICS_VERSION.to_string()),
    ])
}
