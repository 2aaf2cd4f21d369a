//! `answer_plain`: a whole request in, the whole answer out.

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use zlrs_store::PlainTerms;

use crate::graph::{PyDecision, PyGraph};

/// The decision; for a hit also what to send, and what is equal for answers that are.
type Answered<'py> = (Option<PyDecision>, Option<Bound<'py, PyBytes>>, Option<Bound<'py, PyBytes>>);

/// Decides about a request that is here whole and plain; None where it is not. Without a decision something has to be
/// read first, or the host is not known.
/// The interpreter is not let go: it takes microseconds, and getting it back may take longer than that.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "a request, and what is the same for all requests of a time")]
pub fn answer_plain<'py>(
    py: Python<'py>,
    graph: &Bound<'py, PyGraph>,
    data: &[u8],
    hosts: Vec<PyBackedBytes>,
    upstream: &str,
    now_ms: u64,
    date: &str,
    receipts: bool,
) -> Option<Answered<'py>> {
    let hosts: Vec<&[u8]> = hosts.iter().map(|host| &**host).collect();
    let terms = PlainTerms { hosts: &hosts, upstream, date, receipts };
    let plain = graph.get().graph.answer_plain(data, &terms, now_ms)?;
    let (sent, mark) = plain.answer.map_or((None, None), |answer| {
        (Some(PyBytes::new(py, &answer.sent)), Some(PyBytes::new(py, &answer.mark)))
    });
    Some((plain.decision.map(|decision| PyDecision { decision }), sent, mark))
}
