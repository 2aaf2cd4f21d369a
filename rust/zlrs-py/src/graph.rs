//! `Graph` and `Decision`: the decision graph.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use zlrs_graph::{Digest, Response, Settings, SettingsError};
use zlrs_remote::{RemoteSettings, RemoteStore};
use zlrs_store::{
    Appointed, Behind, Decision, Factors, Graph, GraphRequest, Imported, Purge, Store, StoreError, Topic,
    Verifier,
};
use zlrs_wire::replay::Form;

use crate::error::{Catalogued, detached};
use crate::graph_files::pools_json;
use crate::judge::PyJudge;

/// Addresses, Cluster or not, deadline in milliseconds, prefix, user, password.
type RemoteArguments = (Vec<String>, bool, u64, String, Option<String>, Option<String>);

/// Headers as every Python HTTP library has them.
type Headers = Vec<(PyBackedBytes, PyBackedBytes)>;

impl Catalogued for StoreError {
    fn catalogue_type(&self) -> &'static str {
        "api_error"
    }
}

impl Catalogued for SettingsError {
    fn catalogue_type(&self) -> &'static str {
        "configuration_error"
    }
}

/// A decision graph. Safe to use from several threads; not after a fork.
#[pyclass(frozen, name = "Graph", module = "zlrs._core")]
pub struct PyGraph {
    pub(crate) graph: Graph,
}

#[pymethods]
impl PyGraph {
    /// Opens the graph of a directory; `None` keeps it in memory. `settings` is a JSON object. `remote` has addresses,
    /// whether they are a Cluster, deadline in milliseconds, prefix, user and password.
    #[new]
    #[pyo3(signature = (path, settings, remote = None))]
    fn new(
        py: Python<'_>,
        path: Option<PathBuf>,
        settings: &[u8],
        remote: Option<RemoteArguments>,
    ) -> PyResult<Self> {
        let settings = detached(py, || Settings::from_json(settings))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let remote = remote.map(|(addresses, is_cluster, deadline_ms, prefix, username, password)| {
            let deadline = Duration::from_millis(deadline_ms);
            RemoteSettings { addresses, is_cluster, deadline, username, password, prefix }
        });
        let graph = detached(py, || {
            let behind = |front: Arc<dyn Store>, key: Verifier| -> Result<Box<dyn Store>, StoreError> {
                let Some(remote) = &remote else { return Err(StoreError::Closed) };
                let store = RemoteStore::new(front, key, remote);
                Ok(Box::new(store.map_err(|error| StoreError::Broken(error.to_string()))?))
            };
            let behind = remote.is_some().then_some(&behind as Behind<'_>);
            Graph::open_behind(path.as_deref(), settings, now.as_millis() as u64, behind)
        })?;
        Ok(Self { graph })
    }

    /// Decides about a request. Waits for the store a few milliseconds at most.
    #[expect(clippy::too_many_arguments, reason = "a request line, its headers and body, and the time")]
    #[pyo3(signature = (method, path, query, headers, body, upstream, now_ms, factors = None, unknown_factor = None))]
    fn decide(
        &self,
        py: Python<'_>,
        method: &str,
        path: &str,
        query: &str,
        headers: Headers,
        body: PyBackedBytes,
        upstream: &str,
        now_ms: u64,
        factors: Option<Vec<(String, String)>>,
        unknown_factor: Option<&str>,
    ) -> PyDecision {
        let decision = py.detach(|| {
            let headers = slices(&headers);
            let known = factors.as_deref().unwrap_or_default();
            let factors = unknown_factor.map_or(Factors::Known(known), Factors::Unknown);
            let request =
                GraphRequest { method, path, query, headers: &headers, body: &body, upstream, factors };
            self.graph.decide(&request, now_ms)
        });
        PyDecision { decision }
    }

    /// `decide` without a wait; None where something has to be read first.
    #[expect(clippy::too_many_arguments, reason = "a request line, its headers and body, and the time")]
    #[pyo3(signature = (method, path, query, headers, body, upstream, now_ms, factors = None, unknown_factor = None))]
    fn decide_now(
        &self,
        py: Python<'_>,
        method: &str,
        path: &str,
        query: &str,
        headers: Headers,
        body: PyBackedBytes,
        upstream: &str,
        now_ms: u64,
        factors: Option<Vec<(String, String)>>,
        unknown_factor: Option<&str>,
    ) -> Option<PyDecision> {
        py.detach(|| {
            let headers = slices(&headers);
            let known = factors.as_deref().unwrap_or_default();
            let factors = unknown_factor.map_or(Factors::Known(known), Factors::Unknown);
            let request =
                GraphRequest { method, path, query, headers: &headers, body: &body, upstream, factors };
            self.graph.decide_now(&request, now_ms)
        })
        .map(|decision| PyDecision { decision })
    }

    /// Takes in the upstream's answer: `stored`, or why it is not. Blocks up to a second.
    #[expect(clippy::too_many_arguments, reason = "an answer's head and body, and how it ended")]
    fn settle(
        &self,
        py: Python<'_>,
        decision: &PyDecision,
        status: u16,
        headers: Headers,
        body: PyBackedBytes,
        complete: bool,
        now_ms: u64,
    ) -> String {
        py.detach(|| {
            let headers = slices(&headers);
            let response = Response { status, headers: &headers, body: &body, complete };
            self.graph.settle(&decision.decision, &response, now_ms).name()
        })
    }

    /// Makes sure that the stored answer to this request is never served again.
    fn withdraw(&self, py: Python<'_>, decision: &PyDecision, now_ms: u64, reason: &str) -> PyResult<()> {
        detached(py, || self.graph.withdraw(&decision.decision, now_ms, reason))
    }

    /// Removes entries; returns how many. `what` is `all`, `tenant`, `scope`, `node`, `entry`, `written_before` or
    /// `expired`; `which` the name of 64 hexadecimal digits, or the Unix milliseconds.
    #[pyo3(signature = (what = "all", which = ""))]
    fn purge(&self, py: Python<'_>, what: &str, which: &str) -> PyResult<u64> {
        let unknown = || PyValueError::new_err(format!("cannot purge {what} {which:?}"));
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        if let Some(topic) = topic_of(what) {
            return detached(py, || self.graph.purge_topic(topic, which, now_ms))?.ok_or_else(unknown);
        }
        let what = purge_of(what, which).ok_or_else(unknown)?;
        detached(py, || self.graph.purge(what, now_ms))
    }

    /// Adds to the audit log what was changed in a request before it was decided about: JSON without any text of it.
    fn note_changes(&self, py: Python<'_>, decision: &PyDecision, changes: &str) -> PyResult<()> {
        let changes =
            serde_json::from_str(changes).map_err(|error| PyValueError::new_err(error.to_string()))?;
        py.detach(|| self.graph.note_changes(&decision.decision, &changes));
        Ok(())
    }

    /// Takes in a line of an export that `trusted` has signed (64 hexadecimal digits; empty for this graph's own key):
    /// `stored`, or why not.
    fn import_entry(&self, py: Python<'_>, line: &str, trusted: &str, now_ms: u64) -> PyResult<&'static str> {
        let unreadable = || PyValueError::new_err(format!("not a public key: {trusted:?}"));
        let trusted = match trusted {
            "" => None,
            text => Some(Verifier::from_hex(text).ok_or_else(unreadable)?),
        };
        detached(py, || self.graph.import(line, trusted.as_ref(), now_ms).map(Imported::name))
    }

    /// Appoints a judge for answers that the rules cannot compare: a callable of the ask and two answers that returns
    /// `equivalent`, `different` or `unsure`; `None` dismisses it. It runs in the threads that settle.
    #[pyo3(signature = (judge, name = "", false_equivalent = None))]
    fn appoint(&self, judge: Option<Py<PyAny>>, name: &str, false_equivalent: Option<f64>) {
        self.graph.appoint(judge.map(|judge| Appointed {
            judge: Arc::new(PyJudge::new(judge)),
            name: name.to_owned(),
            false_equivalent,
        }));
    }

    /// Notes the load, 0 to 1: it moves how far the edge route looks, and nothing else.
    fn note_load(&self, load: f64) {
        self.graph.note_load(load);
    }

    /// What trials have shown, by class: a JSON array.
    fn pools(&self, py: Python<'_>) -> String {
        py.detach(|| pools_json(&self.graph.pools()))
    }

    /// Waits until everything settled before is committed and the audit log is signed.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.graph.flush())
    }

    /// `ready`, or `bypass: ` and the reason.
    fn state(&self, py: Python<'_>) -> String {
        py.detach(|| self.graph.state())
    }

    /// Counters and sizes.
    fn stats(&self, py: Python<'_>) -> HashMap<&'static str, u64> {
        py.detach(|| self.graph.stats()).into_iter().collect()
    }

    /// Lines for the operator's log since the last call.
    fn notices(&self, py: Python<'_>) -> Vec<String> {
        py.detach(|| self.graph.notices())
    }

    /// Commits and signs what waits, and stops the threads.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.graph.close());
    }
}

fn topic_of(what: &str) -> Option<Topic> {
    Some(match what {
        "model" => Topic::Model,
        "entity" => Topic::Entity,
        "factor" => Topic::Factor,
        _ => return None,
    })
}

fn purge_of(what: &str, which: &str) -> Option<Purge> {
    let name = || Digest::from_hex(which);
    Some(match what {
        "all" => Purge::All,
        "tenant" => Purge::Tenant(name()?),
        "scope" => Purge::Scope(name()?),
        "node" => Purge::Node(name()?),
        "entry" => Purge::Entry(name()?),
        "written_before" => Purge::WrittenBefore(which.parse().ok()?),
        "expired" => Purge::Expired(which.parse().ok()?),
        _ => return None,
    })
}

fn slices(headers: &Headers) -> Vec<(&[u8], &[u8])> {
    headers.iter().map(|(name, value)| (&**name, &**value)).collect()
}

/// What was decided about one request.
#[pyclass(frozen, name = "Decision", module = "zlrs._core")]
pub struct PyDecision {
    pub(crate) decision: Decision,
}

#[pymethods]
impl PyDecision {
    /// `hit`, `miss` or `skipped`.
    #[getter]
    fn kind(&self) -> &'static str {
        self.decision.kind().name()
    }

    /// `same`, `canonical` or `edge`; empty for a skipped request.
    #[getter]
    fn route(&self) -> &'static str {
        self.decision.route().map_or("", |route| route.name())
    }

    /// Why not; empty for a hit.
    #[getter]
    fn reason(&self) -> &'static str {
        self.decision.refusal().map_or("", |refusal| refusal.reason.name())
    }

    /// The node, 64 hexadecimal digits; empty for a skipped request.
    #[getter]
    fn node(&self) -> String {
        self.decision.node().map_or_else(String::new, |node| node.to_hex())
    }

    /// `messages`, `chat` or `other`.
    #[getter]
    fn protocol(&self) -> &'static str {
        self.decision.protocol().map_or("other", |protocol| protocol.name())
    }

    /// Whether an event stream is asked for.
    #[getter]
    fn stream(&self) -> bool {
        self.decision.form() != Form::Json
    }

    /// The model asked for; empty where the request is not understood.
    #[getter]
    fn model(&self) -> &str {
        self.decision.model()
    }

    /// The value of `X-ZLRS-Decision`.
    #[getter]
    fn header(&self) -> String {
        self.decision.header()
    }

    /// The id of the audit record; empty without an audit log.
    #[getter]
    fn audit(&self) -> &str {
        self.decision.audit()
    }

    /// The media type of what `replay` gives.
    #[getter]
    fn content_type(&self) -> &'static str {
        self.decision.form().content_type()
    }

    /// For a hit: whether upstream is to be asked again, not on the client's time, and its answer settled with this
    /// decision.
    #[getter]
    fn recheck(&self) -> bool {
        self.decision.recheck()
    }

    /// For a hit, how old the stored answer is.
    #[getter]
    fn age_ms(&self) -> Option<u64> {
        self.decision.age().map(|age| age.as_millis() as u64)
    }

    /// For a hit, what to send: one JSON body, or one piece per event. Empty for anything else.
    fn replay<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        self.decision.pieces().iter().map(|piece| PyBytes::new(py, piece)).collect()
    }

    fn __repr__(&self) -> String {
        format!("Decision({})", self.decision.header())
    }
}
