//! Names on the wire, for the tests that hold Python to the tables, and for documentation.

use pyo3::prelude::*;
use zlrs_wire::catalogue::ErrorKind;
use zlrs_wire::header::HEADERS;

/// Every error type: name, HTTP status (0 for what is never sent), when it is raised.
#[pyfunction]
pub fn error_catalogue() -> Vec<(&'static str, u16, &'static str)> {
    ErrorKind::ALL.iter().map(|kind| (kind.name(), kind.status(), kind.entry().when)).collect()
}

/// What an error type's Python class must say: type, class, suggestion, code.
#[pyfunction]
pub fn error_classes() -> Vec<(&'static str, &'static str, &'static str, Option<&'static str>)> {
    use zlrs_wire::catalogue::Code;
    ErrorKind::ALL
        .iter()
        .map(|kind| {
            let entry = kind.entry();
            let code = entry.code.map(|code| match code {
                Code::Historical(code) | Code::Chat(code) => code,
            });
            (entry.name, entry.python, entry.suggestion, code)
        })
        .collect()
}

/// Every header of ours: canonical and historical spelling.
#[pyfunction]
pub fn header_names() -> Vec<(&'static str, Option<&'static str>)> {
    HEADERS.iter().map(|header| (header.name, header.historical)).collect()
}

/// Every reason why something is not served or not stored: its name and what it means.
#[pyfunction]
pub fn reasons() -> Vec<(&'static str, &'static str)> {
    zlrs_wire::Reason::ALL.iter().map(|reason| (reason.name(), reason.meaning())).collect()
}
