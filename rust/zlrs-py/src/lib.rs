//! `zlrs._core`: the only crate that knows Python. One file per exposed class; no logic of its own.

mod build_info;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    #[pymodule_export]
    use super::build_info::build_info;
}
