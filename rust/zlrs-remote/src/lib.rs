//! A store that several machines share: Redis or Valkey, one server or a Cluster, behind an embedded tier.
//!
//! The embedded tier answers first and keeps everything that comes through. What it does not know is asked for
//! remotely, by a thread of its own, within a deadline (25 ms); past it the lookup is a miss. A breaker that trips on
//! failures and on slowness leaves the remote tier out until it answers again, so that a slow server costs no more
//! than a dead one.
//!
//! Nothing that comes from there is trusted: each entry carries the signature of the graph's key and is checked before
//! it is used. Machines that share a remote store share the key file.
//!
//! A withdrawal is written beside the entry and into a list of news that every machine reads twice a second; one that
//! cannot be written waits and is tried again, and a machine that has too many waiting stops serving.

mod breaker;
mod link;
mod remote;
mod wire;
mod worker;

pub use breaker::{Breaker, BreakerRules};
pub use link::{RemoteError, RemoteSettings};
pub use remote::{RemoteCounts, RemoteStore};
