//! Checking an audit chain.

use std::collections::HashMap;
use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use zlrs_store::{Verifier, VerifyError, verify_audit as verify};

use crate::error::{Catalogued, detached};

impl Catalogued for VerifyError {
    fn catalogue_type(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "not_found_error",
            Self::Fault(_) => "conflict_error",
        }
    }
}

/// Checks a chain: counts, and 0 or 1 for `ended` and `cut_line`. `key` is the public key it must be signed with.
#[pyfunction]
#[pyo3(signature = (path, key=None))]
pub fn verify_audit(
    py: Python<'_>,
    path: PathBuf,
    key: Option<&str>,
) -> PyResult<HashMap<&'static str, u64>> {
    let bad_key = || PyValueError::new_err("a public key has 64 hexadecimal digits");
    let expected = key.map(|text| Verifier::from_hex(text).ok_or_else(bad_key)).transpose()?;
    let report = detached(py, || verify(&path, expected.as_ref()))?;
    Ok(HashMap::from([
        ("records", report.records),
        ("signed_records", report.signed_records),
        ("dropped_records", report.dropped_records),
        ("ended", report.ended.into()),
        ("cut_line", report.cut_line.into()),
    ]))
}
