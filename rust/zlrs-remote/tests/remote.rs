//! A remote store over real servers: shared, withdrawn, poisoned, stopped, read-only, killed.
//!
//! Needs `redis-server` or `valkey-server` and their `-cli` on the path (Debian: `apt-get install redis-server`);
//! without them the tests are skipped and say so. All servers listen on loopback and end with the test.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test stops at what is wrong")]

#[path = "support/servers.rs"]
mod servers;

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use servers::{Server, cluster, has_server};
use zlrs_graph::{Digest, LookupFacts, Route};
use zlrs_remote::{RemoteSettings, RemoteStore};
use zlrs_store::{Draft, Entry, Lookup, MemoryStore, Purge, Secrets, Stats, Store, StoreError, Written};

const NOW_MS: u64 = 1_800_000_000_000;
const WAIT: Duration = Duration::from_secs(5);

fn digest(name: &str, id: u64) -> Digest {
    Digest::of(format!("{name} {id}").as_bytes())
}

fn entry(id: u64, secrets: &Secrets) -> Entry {
    let draft = Draft {
        key: digest("key", id),
        scope: digest("scope", id % 7),
        node: digest("node", id),
        tenant: digest("tenant", id % 3),
        route: Route::Same,
        created_ms: NOW_MS,
        expires_ms: NOW_MS + 86_400_000,
        body: format!("answer {id}").into_bytes(),
    };
    Entry::seal(draft, secrets).with_tags(vec![id % 5])
}

/// A machine: an embedded tier of its own before the shared store.
fn machine(settings: &RemoteSettings, secrets: &Secrets) -> RemoteStore {
    let front = Arc::new(MemoryStore::new(100_000, 1 << 30));
    // Busy machines take longer than the 25 ms of the default; the tests that are about lateness say so.
    let settings =
        RemoteSettings { deadline: settings.deadline.max(Duration::from_millis(25)), ..settings.clone() };
    RemoteStore::new(front, secrets.verifier(), &settings).unwrap()
}

fn patient(settings: RemoteSettings) -> RemoteSettings {
    RemoteSettings { deadline: Duration::from_secs(2), ..settings }
}

fn said(store: &dyn Store, id: u64) -> Option<Vec<u8>> {
    match store.get(&digest("key", id), NOW_MS + 1) {
        Lookup::Found(entry) => Some(entry.body.clone()),
        Lookup::Nothing(_) => None,
    }
}

/// Waits for something that another thread does.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < give_up, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn count(counter: &std::sync::atomic::AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[test]
fn machines_share_answers_withdrawals_and_purges() {
    if !has_server() {
        return;
    }
    let server = Server::start();
    let secrets = Secrets::ephemeral().unwrap();
    let settings = patient(RemoteSettings::single(&server.address()));
    let (one, two) = (machine(&settings, &secrets), machine(&settings, &secrets));
    for id in 0..50 {
        assert_eq!(one.put(entry(id, &secrets), WAIT).unwrap(), Written::Committed);
    }
    one.flush().unwrap();
    for id in 0..50 {
        assert_eq!(said(&two, id), Some(format!("answer {id}").into_bytes()));
    }
    assert_eq!(count(&two.counts().found), 50);
    assert_eq!(said(&two, 51), None);

    // Withdrawn here: not served there, neither from the remote store nor, soon, from what is embedded there.
    one.tombstone(&digest("key", 7), NOW_MS, "test").unwrap();
    let three = machine(&settings, &secrets);
    assert_eq!(said(&three, 7), None);
    eventually("the withdrawal is heard", || said(&two, 7).is_none());

    one.purge(Purge::Tenant(digest("tenant", 1)), NOW_MS).unwrap();
    one.purge(Purge::Tag(2), NOW_MS).unwrap();
    let four = machine(&settings, &secrets);
    eventually("the purges are heard", || said(&two, 1).is_none() && said(&two, 2).is_none());
    eventually("a new machine has read them", || said(&four, 1).is_none() && said(&four, 2).is_none());
    for id in (0..50).filter(|id| id % 3 != 1 && id % 5 != 2 && *id != 7) {
        assert!(said(&two, id).is_some(), "{id}");
    }
}

#[test]
fn what_comes_from_there_is_checked_like_a_strangers() {
    if !has_server() {
        return;
    }
    let server = Server::start();
    let secrets = Secrets::ephemeral().unwrap();
    let settings = patient(RemoteSettings::single(&server.address()));
    let one = machine(&settings, &secrets);
    for id in 0..8 {
        one.put(entry(id, &secrets), WAIT).unwrap();
    }
    one.flush().unwrap();
    let name = |id: u64| {
        let found = server.cli(&["KEYS", &format!("*e:{{{}}}", digest("key", id).to_hex())]);
        found.trim().to_owned()
    };
    let stranger = Secrets::ephemeral().unwrap();
    let good = server.cli(&["GET", &name(5)]);
    server.cli(&["SET", &name(0), "garbage"]);
    server.cli(&["SET", &name(1), ""]);
    server.cli(&["DEL", &name(2)]);
    server.cli(&["LPUSH", &name_of(&name(0), 2), "a list"]);
    server.cli(&["SET", &name(3), &entry(3, &stranger).to_line()]);
    server.cli(&["SET", &name(4), good.trim()]);
    server.cli(&["SET", &name(6), &good.trim().replace("\"created_ms\":18", "\"created_ms\":17")]);
    // Lists where news is expected, and news that is none.
    server.cli(&["XADD", &format!("{}news", prefix(&name(0))), "*", "x", "withdrawn zero zero"]);
    let two = machine(&settings, &secrets);
    for id in [0, 1, 2, 3, 4, 6] {
        assert_eq!(said(&two, id), None, "{id}");
    }
    assert_eq!(said(&two, 5), Some(b"answer 5".to_vec()));
    assert_eq!(said(&two, 7), Some(b"answer 7".to_vec()));
    assert!(count(&two.counts().corrupt) >= 5, "{:?}", two.counts());
    assert!(two.is_asked(), "values are no reason to leave the server out");
}

/// A tier whose writes are never done in time.
struct Unhurried {
    store: MemoryStore,
    longest_wait: Mutex<Duration>,
}

impl Store for Unhurried {
    fn get(&self, key: &Digest, now_ms: u64) -> Lookup {
        self.store.get(key, now_ms)
    }

    fn get_now(&self, key: &Digest, now_ms: u64) -> Option<Lookup> {
        self.store.get_now(key, now_ms)
    }

    fn put(&self, _: Entry, wait: Duration) -> Result<Written, StoreError> {
        let mut longest = self.longest_wait.lock().unwrap();
        *longest = wait.max(*longest);
        Ok(Written::Queued)
    }

    fn refuses(&self, entry: &Arc<Entry>) -> bool {
        self.store.refuses(entry)
    }

    fn tombstone(&self, key: &Digest, at_ms: u64, reason: &str) -> Result<(), StoreError> {
        self.store.tombstone(key, at_ms, reason)
    }

    fn purge(&self, what: Purge, at_ms: u64) -> Result<u64, StoreError> {
        self.store.purge(what, at_ms)
    }

    fn purge_until(&self, what: Purge, at_ms: u64) -> Result<u64, StoreError> {
        self.store.purge_until(what, at_ms)
    }

    fn tags_of(&self, what: Purge) -> Result<BTreeSet<u64>, StoreError> {
        self.store.tags_of(what)
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.store.flush()
    }

    fn stats(&self) -> Stats {
        self.store.stats()
    }

    fn broken(&self) -> Option<String> {
        self.store.broken()
    }

    fn close(&self) {
        self.store.close();
    }
}

#[test]
fn a_lookup_waits_for_no_write_of_the_embedded_tier_and_hears_its_withdrawals() {
    if !has_server() {
        return;
    }
    let server = Server::start();
    let secrets = Secrets::ephemeral().unwrap();
    let settings = patient(RemoteSettings::single(&server.address()));
    let one = machine(&settings, &secrets);
    for id in 0..4 {
        one.put(entry(id, &secrets), WAIT).unwrap();
    }
    one.flush().unwrap();
    let front = Arc::new(Unhurried { store: MemoryStore::new(100, 1 << 20), longest_wait: Mutex::default() });
    // What was withdrawn and purged here in an earlier run, and never told.
    front.tombstone(&digest("key", 1), NOW_MS, "test").unwrap();
    front.purge(Purge::Node(digest("node", 2)), NOW_MS).unwrap();
    let two = RemoteStore::new(Arc::clone(&front) as Arc<dyn Store>, secrets.verifier(), &settings).unwrap();
    for id in 0..4 {
        let expected = (id != 1 && id != 2).then(|| format!("answer {id}").into_bytes());
        assert_eq!(said(&two, id), expected, "{id}");
    }
    assert_eq!(*front.longest_wait.lock().unwrap(), Duration::ZERO);
}

#[test]
fn an_old_purge_empties_no_store_at_a_later_start_and_a_lost_list_is_read_anew() {
    if !has_server() {
        return;
    }
    let server = Server::start();
    let secrets = Secrets::ephemeral().unwrap();
    let settings = patient(RemoteSettings::single(&server.address()));
    let one = machine(&settings, &secrets);
    for what in [Purge::Tag(7), Purge::Tag(8), Purge::All] {
        one.purge(what, NOW_MS).unwrap();
    }
    let since = |id: u64| {
        let draft = Draft {
            key: digest("key", id),
            scope: digest("scope", 0),
            node: digest("node", id),
            tenant: digest("tenant", 0),
            route: Route::Same,
            created_ms: NOW_MS + 1,
            expires_ms: NOW_MS + 86_400_000,
            body: b"since".to_vec(),
        };
        Entry::seal(draft, &secrets)
    };
    let front = Arc::new(MemoryStore::new(100, 1 << 20));
    front.put(since(1), WAIT).unwrap();
    front.put(entry(2, &secrets), WAIT).unwrap();
    let two = RemoteStore::new(Arc::clone(&front) as Arc<dyn Store>, secrets.verifier(), &settings).unwrap();
    let is_kept = |id: u64| matches!(front.get(&digest("key", id), NOW_MS + 1), Lookup::Found(_));
    eventually("the purge is read", || !is_kept(2));
    assert!(is_kept(1), "it was asked for after the purge");
    // The server forgets everything, and its list is shorter than what was read of it.
    server.cli(&["FLUSHALL"]);
    front.put(since(3), WAIT).unwrap();
    one.purge(Purge::All, NOW_MS + 1).unwrap();
    eventually("the purge after the loss is read", || !is_kept(1) && !is_kept(3));
    two.close();
}

#[test]
fn a_withdrawn_answer_is_gone_from_there() {
    if !has_server() {
        return;
    }
    let server = Server::start();
    let secrets = Secrets::ephemeral().unwrap();
    let store = machine(&patient(RemoteSettings::single(&server.address())), &secrets);
    store.put(entry(1, &secrets), WAIT).unwrap();
    store.flush().unwrap();
    let names = || server.cli(&["KEYS", "*e:*"]);
    assert!(names().contains(&digest("key", 1).to_hex()));
    store.tombstone(&digest("key", 1), NOW_MS, "test").unwrap();
    eventually("it is removed", || !names().contains(&digest("key", 1).to_hex()));
    assert!(server.cli(&["KEYS", "*t:*"]).contains(&digest("key", 1).to_hex()));
}

fn prefix(name: &str) -> &str {
    name.split_once("e:{").map_or("", |(prefix, _)| prefix)
}

fn name_of(other: &str, id: u64) -> String {
    format!("{}e:{{{}}}", prefix(other), digest("key", id).to_hex())
}

#[test]
fn a_stopped_server_costs_the_deadline_a_few_times_and_then_nothing() {
    if !has_server() {
        return;
    }
    let server = Server::start();
    let secrets = Secrets::ephemeral().unwrap();
    let settings = RemoteSettings::single(&server.address());
    let store = machine(&settings, &secrets);
    store.put(entry(1, &secrets), WAIT).unwrap();
    store.flush().unwrap();
    server.signal("STOP");
    for id in 100..160 {
        assert_eq!(said(&store, id), None);
    }
    assert!(!store.is_asked(), "the breaker is open");
    assert_eq!(store.broken(), None);
    assert_eq!(said(&store, 1), Some(b"answer 1".to_vec()), "the embedded tier answers");
    assert_eq!(store.put(entry(2, &secrets), WAIT).unwrap(), Written::Committed);
    assert_eq!(said(&store, 2), Some(b"answer 2".to_vec()));
    store.tombstone(&digest("key", 1), NOW_MS, "test").unwrap();
    assert_eq!(said(&store, 1), None);
    server.signal("CONT");
    eventually("it is asked again", || store.is_asked());
    let other = machine(&patient(settings), &secrets);
    eventually("the withdrawal has been written", || {
        server.cli(&["KEYS", "*t:*"]).contains(&digest("key", 1).to_hex())
    });
    assert_eq!(said(&other, 1), None);
}

#[test]
fn a_read_only_server_loses_what_is_written_and_no_withdrawal() {
    if !has_server() {
        return;
    }
    let server = Server::start();
    let secrets = Secrets::ephemeral().unwrap();
    let settings = patient(RemoteSettings::single(&server.address()));
    let store = machine(&settings, &secrets);
    store.put(entry(1, &secrets), WAIT).unwrap();
    store.flush().unwrap();
    server.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    store.put(entry(2, &secrets), WAIT).unwrap();
    store.tombstone(&digest("key", 1), NOW_MS, "test").unwrap();
    assert_eq!(said(&store, 2), Some(b"answer 2".to_vec()));
    assert_eq!(said(&store, 1), None);
    server.cli(&["REPLICAOF", "NO", "ONE"]);
    eventually("the withdrawal is written once it can be", || {
        server.cli(&["KEYS", "*t:*"]).contains(&digest("key", 1).to_hex())
    });
    assert!(count(&store.counts().dropped) >= 1);
    let other = machine(&settings, &secrets);
    assert_eq!(said(&other, 1), None);
}

#[test]
fn a_server_that_was_never_there_is_left_out() {
    let secrets = Secrets::ephemeral().unwrap();
    let store = machine(&RemoteSettings::single("redis://127.0.0.1:1/"), &secrets);
    store.put(entry(1, &secrets), WAIT).unwrap();
    assert_eq!(said(&store, 1), Some(b"answer 1".to_vec()));
    assert_eq!(store.get(&digest("key", 2), NOW_MS).facts(), LookupFacts::Absent);
    eventually("it is left out", || !store.is_asked());
    for address in ["", "http://127.0.0.1/", "redis://user:secret@/x y"] {
        let front = Arc::new(MemoryStore::new(10, 1 << 20));
        let error = RemoteStore::new(front, secrets.verifier(), &RemoteSettings::single(address)).err();
        assert!(error.is_some_and(|error| !error.to_string().contains("secret")), "{address}");
    }
}

#[test]
fn a_cluster_of_six_loses_a_master_and_goes_on() {
    if !has_server() {
        return;
    }
    let Some(nodes) = cluster() else { return };
    let secrets = Secrets::ephemeral().unwrap();
    let addresses = nodes.iter().map(Server::address).collect();
    let settings = patient(RemoteSettings::cluster(addresses));
    let one = machine(&settings, &secrets);
    for id in 0..200 {
        one.put(entry(id, &secrets), WAIT).unwrap();
    }
    one.tombstone(&digest("key", 3), NOW_MS, "test").unwrap();
    one.flush().unwrap();
    assert_eq!(count(&one.counts().dropped), 0);
    let two = machine(&settings, &secrets);
    let known = |store: &RemoteStore| (0..200).filter(|id| said(store, *id).is_some()).count();
    assert_eq!(known(&two), 199);
    // Replication is asynchronous; what the replica has not seen is a miss, never another answer.
    eventually("replicas have everything", || nodes.iter().all(Server::is_replicated));
    let dead = nodes.iter().find(|node| node.is_master()).unwrap();
    dead.signal("KILL");
    let three = machine(&settings, &secrets);
    eventually("a replica has taken over", || {
        three.purge(Purge::Expired(0), 0).unwrap();
        known(&three) == 199
    });
    assert_eq!(said(&three, 3), None);
    // Writing goes on as well.
    eventually("entries are written again", || {
        let id = 1000 + three.counts().dropped.load(Ordering::Relaxed);
        three.put(entry(id, &secrets), WAIT).unwrap();
        three.flush().unwrap();
        said(&machine(&settings, &secrets), id).is_some()
    });
}
