//! The graph at work: decisions, a store, credentials, an audit log. Everything that varies comes in: time, requests,
//! answers. A store that cannot be used never stops a request; the graph then decides "skipped" and says why.

mod canonical;
mod clean;
mod compare;
mod counts;
mod decision;
mod edge;
mod envelope;
mod forms;
mod judge;
mod learning;
mod plain;
mod purge;
mod recheck;
mod rechecks;
pub(crate) mod record;
mod replay;
mod request;
mod settle;
mod tags;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use zlrs_fingerprint::Network;
use zlrs_graph::{Credential, Credentials, Digest, Mode, Settings};
use zlrs_text::Extractor;
use zlrs_wire::scope::Secret;

pub use decision::Decision;
pub use judge::{Appointed, Judge, Verdict};
pub use plain::{Plain, PlainAnswer, PlainTerms};
pub use replay::{Repeated, ReplayError, repeat};
pub use request::{Factors, GraphRequest};
pub use settle::Settled;
pub use tags::Topic;

use clean::CleanAsks;
use counts::Counts;
use forms::FormMemory;
use rechecks::Rechecks;

use crate::audit::Audit;
use crate::evidence::{Evidence, LabelledPool};
use crate::notices::Notices;
use crate::secrets::{Secrets, Verifier};
use crate::{Directory, Limits, MemoryStore, SqliteStore, Store, StoreError};

/// Puts another store before or behind one; entries carry the signature of the key.
pub type Behind<'b> = &'b dyn Fn(Arc<dyn Store>, Verifier) -> Result<Box<dyn Store>, StoreError>;

/// A decision graph. All methods may be called from any thread.
pub struct Graph {
    settings: Settings,
    secrets: Arc<Secrets>,
    /// Keys scopes, tenants and nodes.
    scope_secret: Secret,
    /// Keys what a tenant is to an upstream.
    credential_key: [u8; 32],
    /// Keys hashes of answers in the audit log: an answer like "yes" is easily guessed from a plain one.
    audit_key: [u8; 32],
    /// Keys canonical entries, names of pools, draws.
    form_key: [u8; 32],
    evidence_key: [u8; 32],
    wording_key: [u8; 32],
    draw_key: [u8; 32],
    tag_key: [u8; 32],
    /// Finds the values in asks.
    extractor: Extractor,
    evidence: Evidence,
    rechecks: Rechecks,
    clean: CleanAsks,
    /// Finds near forms. None where it does not load.
    network: Option<&'static Network>,
    network_name: Digest,
    forms: FormMemory,
    /// What the operator said of the load, as the bits of a float.
    load_bits: AtomicU64,
    judge: RwLock<Option<Appointed>>,
    store: Option<Box<dyn Store>>,
    audit: Option<Audit>,
    /// Why it was never in service.
    unusable: Option<String>,
    credentials: Mutex<Credentials>,
    latest_ms: AtomicU64,
    counts: Counts,
    notices: Notices,
    /// The process that opened it.
    process: u32,
    closed: AtomicBool,
}

impl Graph {
    /// Opens the graph of a directory, or one in memory. A store that cannot be used gives a graph in bypass, whose
    /// reason [`Graph::state`] and the notices tell.
    ///
    /// # Errors
    /// [`StoreError::Random`], and [`StoreError::Settings`] for settings that were not read by
    /// [`Settings::from_json`].
    pub fn open(directory: Option<&Path>, settings: Settings, now_ms: u64) -> Result<Self, StoreError> {
        Self::open_behind(directory, settings, now_ms, None)
    }

    /// The same with another store before or behind the directory's own, which `behind` is given.
    ///
    /// # Errors
    /// As for [`Graph::open`].
    pub fn open_behind(
        directory: Option<&Path>,
        settings: Settings,
        now_ms: u64,
        behind: Option<Behind<'_>>,
    ) -> Result<Self, StoreError> {
        let notices = Notices::default();
        let extractor = settings.extractor()?;
        let opened = match directory {
            Some(path) => open_directory(path, &settings, &notices, now_ms),
            None => Ok(Parts {
                secrets: Arc::new(Secrets::ephemeral()?),
                store: Box::new(MemoryStore::new(settings.max_entries, settings.max_bytes)),
                audit: None,
                evidence: Evidence::memory(),
            }),
        };
        let opened = opened.and_then(|parts| match behind {
            Some(behind) => {
                let store = behind(Arc::from(parts.store), parts.secrets.verifier())?;
                Ok(Parts { store, ..parts })
            }
            None => Ok(parts),
        });
        let (secrets, store, audit, evidence, unusable) = match opened {
            Ok(Parts { secrets, store, audit, evidence }) => (secrets, Some(store), audit, evidence, None),
            Err(error) => {
                notices.push(format!("the graph is bypassed: {error}"));
                (Arc::new(Secrets::ephemeral()?), None, None, Evidence::memory(), Some(error.to_string()))
            }
        };
        let (network, network_name) = edge::network();
        let forms = FormMemory::new(settings.max_forms as usize);
        if settings.edge != Mode::Off {
            for kept in evidence.forms(&network_name) {
                forms.add(&kept.scope, &kept.fingerprint, kept.form);
            }
        }
        Ok(Self {
            network,
            network_name,
            forms,
            load_bits: AtomicU64::new(0),
            judge: RwLock::new(None),
            scope_secret: Secret::new(secrets.derived("scope")),
            credential_key: secrets.derived("credential"),
            audit_key: secrets.derived("audit"),
            form_key: secrets.derived("form"),
            wording_key: secrets.derived("wording"),
            evidence_key: secrets.derived("evidence"),
            draw_key: secrets.derived("draw"),
            tag_key: secrets.derived("tag"),
            extractor,
            evidence,
            rechecks: Rechecks::new(&settings),
            clean: CleanAsks::default(),
            settings,
            secrets,
            store,
            audit,
            unusable,
            credentials: Mutex::default(),
            latest_ms: AtomicU64::new(0),
            counts: Counts::default(),
            notices,
            process: std::process::id(),
            closed: AtomicBool::new(false),
        })
    }

    /// `ready`, or `bypass: ` and the reason.
    pub fn state(&self) -> String {
        self.out_of_service().map_or_else(|| "ready".to_owned(), |reason| format!("bypass: {reason}"))
    }

    fn out_of_service(&self) -> Option<String> {
        if self.process != std::process::id() {
            return Some("it was opened before a fork; open it in the new process".to_owned());
        }
        if self.closed.load(Ordering::Acquire) {
            return Some("it was closed".to_owned());
        }
        let store = self.store.as_ref();
        let broken = || store.and_then(|store| store.broken());
        let audit =
            || self.audit.as_ref().and_then(Audit::broken).map(|reason| format!("audit log: {reason}"));
        self.unusable.clone().or_else(broken).or_else(audit)
    }

    /// The store, when everything is in service.
    fn in_service(&self) -> Option<&dyn Store> {
        self.store.as_deref().filter(|_| self.out_of_service().is_none())
    }

    pub(crate) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    pub(crate) fn serving(&self) -> Result<&dyn Store, StoreError> {
        self.in_service()
            .ok_or_else(|| StoreError::Broken(self.out_of_service().unwrap_or_else(|| "closed".to_owned())))
    }

    /// Waits until everything settled before is committed and the audit log is signed.
    ///
    /// # Errors
    /// When something could not be written.
    pub fn flush(&self) -> Result<(), StoreError> {
        self.serving()?.flush()?;
        self.audit.as_ref().map_or(Ok(()), Audit::flush)
    }

    /// Makes sure that the answer of this decision is never served again, whoever stored it. Durable on return.
    ///
    /// # Errors
    /// When it could not be made durable; nothing is served then.
    pub fn withdraw(&self, decision: &Decision, now_ms: u64, reason: &str) -> Result<(), StoreError> {
        let Some(keys) = &decision.keys else { return Ok(()) };
        let store = self.serving()?;
        // A clock that was set back must not leave the entry outside.
        let at_ms = now_ms.max(self.latest_ms.load(Ordering::Relaxed));
        store.tombstone(&keys.entry, at_ms, reason)?;
        self.withdraw_form(keys, &decision.ask, at_ms)?;
        self.keep_record(&record::withdrawn(decision, reason));
        Ok(())
    }

    /// Adds to the audit log what was changed in a request before it was decided about. `changes` must hold no text of it.
    pub fn note_changes(&self, decision: &Decision, changes: &serde_json::Value) {
        if self.out_of_service().is_none() {
            self.add_record(&record::rewritten(decision, changes));
        }
    }

    /// Takes the lines for the operator's log that have come up since.
    pub fn notices(&self) -> Vec<String> {
        self.notices.take()
    }

    /// What trials have shown, by class.
    pub fn pools(&self) -> Vec<LabelledPool> {
        self.evidence.pools()
    }

    /// The audit log's file, where there is one.
    pub fn audit_path(&self) -> Option<&Path> {
        self.audit.as_ref().map(Audit::path)
    }

    /// Commits and signs what waits, and stops the threads. Later decisions are skipped.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        if let Some(store) = &self.store {
            store.close();
        }
        if let Some(audit) = &self.audit {
            audit.close();
        }
    }

    /// Notes the time; returns the latest seen.
    fn note_time(&self, now_ms: u64) -> u64 {
        self.latest_ms.fetch_max(now_ms, Ordering::Relaxed).max(now_ms)
    }

    fn credential(&self, who: &Digest) -> Credential {
        self.credentials.lock().unwrap_or_else(PoisonError::into_inner).of(who)
    }

    fn note_credential(&self, who: &Digest, status: u16, asked_ms: u64) {
        self.credentials.lock().unwrap_or_else(PoisonError::into_inner).note(who, status, asked_ms);
    }

    /// For evidence, withdrawals and purges: none of them is dropped. Blocks while the queue is full.
    pub(crate) fn keep_record(&self, body: &serde_json::Value) {
        if let Some(audit) = &self.audit {
            audit.keep(body);
        }
    }

    fn add_record(&self, body: &serde_json::Value) {
        self.add_text(body.to_string());
    }

    fn add_text(&self, body: String) {
        if let Some(audit) = &self.audit {
            audit.add_text(body);
        }
    }
}

struct Parts {
    secrets: Arc<Secrets>,
    store: Box<dyn Store>,
    audit: Option<Audit>,
    evidence: Evidence,
}

fn open_directory(
    path: &Path,
    settings: &Settings,
    notices: &Notices,
    now_ms: u64,
) -> Result<Parts, StoreError> {
    let directory = Directory::open(path)?;
    let secrets = Arc::new(Secrets::open(&directory.key())?);
    let limits = Limits {
        max_entries: settings.max_entries,
        max_bytes: settings.max_bytes,
        body_cache_bytes: settings.body_cache_bytes,
        read_deadline: Duration::from_millis(settings.read_deadline_ms),
    };
    let store = SqliteStore::open(&directory.database(), &secrets, limits, notices.clone(), now_ms)?;
    let audit = settings
        .audit
        .then(|| Audit::open(&directory.audit(), &secrets, notices.clone(), now_ms))
        .transpose()?;
    let evidence =
        Evidence::open(&directory.evidence(), secrets.derived("evidence rows"), notices.clone(), now_ms)?;
    Ok(Parts { secrets, store: Box::new(store), audit, evidence })
}
