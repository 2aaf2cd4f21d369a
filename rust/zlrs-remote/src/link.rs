//! The connection: one server, or a Cluster.

use std::time::Duration;

use redis::cluster::{ClusterClient, ClusterConnection};
use redis::{Client, Connection, ConnectionLike, ErrorKind, FromRedisValue, IntoConnectionInfo, RedisError};

/// Where the remote store is, and how long it may take.
#[derive(Clone)]
pub struct RemoteSettings {
    /// `redis://…` or `unix://…`; of a Cluster, some of its nodes.
    pub addresses: Vec<String>,
    /// Whether they are a Cluster.
    pub is_cluster: bool,
    /// Longest a call may take; past it a lookup is a miss.
    pub deadline: Duration,
    /// The user, where the server wants one.
    pub username: Option<String>,
    /// The password, where the server wants one. Not in the addresses, which are shown.
    pub password: Option<String>,
    /// Begins every name there: graphs that share a server and no entries have different ones.
    pub prefix: String,
}

impl RemoteSettings {
    /// One server, 25 ms.
    pub fn single(address: &str) -> Self {
        Self {
            addresses: vec![address.to_owned()],
            is_cluster: false,
            deadline: Duration::from_millis(25),
            username: None,
            password: None,
            prefix: "zlrs".to_owned(),
        }
    }

    /// A Cluster, 25 ms.
    pub fn cluster(addresses: Vec<String>) -> Self {
        Self { addresses, is_cluster: true, ..Self::single("") }
    }
}

/// Why the remote store cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// No address, or one that is none. The address may hold a password, so it is not repeated.
    #[error("a remote store's address cannot be used: {0}; it is redis://HOST:PORT/ or unix:///PATH")]
    Address(String),
    /// The thread could not be started.
    #[error("the thread of the remote store could not be started: {0}")]
    Thread(#[from] std::io::Error),
}

/// Dials again when it has to.
pub(crate) struct Link {
    settings: RemoteSettings,
    open: Option<Open>,
}

enum Open {
    Single(Box<Connection>),
    Cluster(Box<ClusterConnection>),
}

/// What went wrong with a call, as far as anybody cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The value there is of another kind; the connection is good.
    WrongType,
    /// It cannot be written there now.
    ReadOnly,
    /// Late, broken off, refused.
    Gone,
}

impl Link {
    /// Checks the addresses; dials nothing.
    pub fn new(settings: RemoteSettings) -> Result<Self, RemoteError> {
        // The client's own words may repeat what was given, a password among it.
        let unusable = |error: RedisError| RemoteError::Address(error.category().to_owned());
        if settings.addresses.is_empty() {
            return Err(RemoteError::Address("there is none".to_owned()));
        }
        for address in &settings.addresses {
            Client::open(address.as_str()).map_err(unusable)?;
        }
        Ok(Self { settings, open: None })
    }

    fn dial(&self) -> Result<Open, RedisError> {
        // Dialling may take longer than a call: it is on nobody's time.
        let patience = self.settings.deadline * 10;
        if self.settings.is_cluster {
            let client = ClusterClient::builder(self.settings.addresses.clone())
                .connection_timeout(patience)
                .response_timeout(self.settings.deadline)
                .retries(1)
                .max_retry_wait(1)
                .min_retry_wait(1);
            let client = match &self.settings.username {
                Some(name) => client.username(name),
                None => client,
            };
            let client = match &self.settings.password {
                Some(password) => client.password(password),
                None => client,
            };
            let client = client.build()?;
            let connection = client.get_connection()?;
            connection.set_read_timeout(Some(self.settings.deadline))?;
            connection.set_write_timeout(Some(self.settings.deadline))?;
            return Ok(Open::Cluster(Box::new(connection)));
        }
        let first = self.settings.addresses.first().map_or("", String::as_str);
        let info = first.into_connection_info()?;
        let mut redis = info.redis_settings().clone();
        if let Some(name) = &self.settings.username {
            redis = redis.set_username(name);
        }
        if let Some(password) = &self.settings.password {
            redis = redis.set_password(password);
        }
        let connection =
            Client::open(info.set_redis_settings(redis))?.get_connection_with_timeout(patience)?;
        connection.set_read_timeout(Some(self.settings.deadline))?;
        connection.set_write_timeout(Some(self.settings.deadline))?;
        Ok(Open::Single(Box::new(connection)))
    }

    /// Makes a call. A connection that is late is given up: what it still answers belongs to nobody.
    pub fn call<T: FromRedisValue>(&mut self, command: &redis::Cmd) -> Result<T, Fault> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.dial().map_err(|_| Fault::Gone)?,
        };
        let connection: &mut dyn ConnectionLike = match &mut open {
            Open::Single(connection) => connection.as_mut(),
            Open::Cluster(connection) => connection.as_mut(),
        };
        match command.query(connection) {
            Ok(value) => {
                self.open = Some(open);
                Ok(value)
            }
            Err(error) => {
                let fault = fault_of(&error);
                if fault == Fault::WrongType {
                    self.open = Some(open);
                }
                Err(fault)
            }
        }
    }
}

fn fault_of(error: &RedisError) -> Fault {
    match (error.code(), error.kind()) {
        (Some("WRONGTYPE"), _) | (_, ErrorKind::UnexpectedReturnType) => Fault::WrongType,
        (Some("READONLY"), _) => Fault::ReadOnly,
        _ => Fault::Gone,
    }
}
