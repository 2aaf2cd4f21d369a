//! Servers of a test, on loopback, gone with it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test stops at what is wrong")]

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The two spellings of one protocol.
const NAMES: [(&str, &str); 2] = [("redis-server", "redis-cli"), ("valkey-server", "valkey-cli")];
const PATIENCE: Duration = Duration::from_secs(30);

fn names() -> Option<(&'static str, &'static str)> {
    NAMES.into_iter().find(|(server, _)| {
        Command::new(server).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    })
}

/// Whether there is one to be had; says so where there is none.
pub fn has_server() -> bool {
    if names().is_none() {
        eprintln!("skipped: neither redis-server nor valkey-server is on the path");
    }
    names().is_some()
}

/// One server.
pub struct Server {
    child: Child,
    pub port: u16,
    _folder: tempfile::TempDir,
}

impl Server {
    pub fn start() -> Self {
        Self::with(&[])
    }

    fn with(more: &[&str]) -> Self {
        // A Cluster's own port is ten thousand above this one, so it must be a low one.
        let port = (0..1000)
            .map(|_| free_port())
            .find(|port| *port < 50_000 && TcpListener::bind(("127.0.0.1", port + 10_000)).is_ok())
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let child = Command::new(names().unwrap().0)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--dir", folder.path().to_str().unwrap(), "--protected-mode", "yes"])
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { child, port, _folder: folder };
        wait("the server answers", || server.cli(&["PING"]).contains("PONG"));
        server
    }

    pub fn address(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// What a command says.
    pub fn cli(&self, arguments: &[&str]) -> String {
        let output = Command::new(names().unwrap().1)
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string()])
            .args(arguments)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(status.unwrap().success());
    }

    pub fn is_master(&self) -> bool {
        self.cli(&["ROLE"]).starts_with("master")
    }

    /// Whether its replica has everything that it has.
    pub fn is_replicated(&self) -> bool {
        !self.is_master() || self.cli(&["WAIT", "1", "100"]).trim() == "1"
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Three masters with a replica each; none where this machine cannot run them.
pub fn cluster() -> Option<Vec<Server>> {
    let options =
        ["--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-config-file", "nodes.conf"];
    let nodes: Vec<Server> = (0..6).map(|_| Server::with(&options)).collect();
    let addresses: Vec<String> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
    let made = Command::new(names()?.1)
        .args(["--cluster", "create"])
        .args(&addresses)
        .args(["--cluster-replicas", "1", "--cluster-yes"])
        .output()
        .unwrap();
    if !made.status.success() {
        eprintln!("skipped: no cluster could be made here: {}", String::from_utf8_lossy(&made.stdout));
        return None;
    }
    wait("the cluster is up", || {
        nodes.iter().all(|node| node.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok"))
            && nodes.iter().filter(|node| !node.is_master()).count() == 3
    });
    Some(nodes)
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < give_up, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
