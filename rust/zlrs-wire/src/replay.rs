//! A stored final message back onto the wire: one JSON body, or a natural stream of events.
//!
//! Identifiers are fresh (an upstream's old ones are never sent twice), everything else is as stored, token counts
//! included: they are the upstream's own counts of this very request.

mod chat;
mod messages;
mod slices;

use crate::json;
use crate::reason::{Reason, Refusal};
use crate::request::{Protocol, RequestView};

pub use slices::slices;

/// The form that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One JSON body.
    Json,
    /// An event stream; `include_usage` adds the Chat protocol's usage chunk (Messages always carries usage).
    Stream {
        /// Whether `stream_options.include_usage` was set.
        include_usage: bool,
    },
}

impl Form {
    /// The form that `view` asks for.
    #[must_use]
    pub fn of(view: &RequestView<'_>) -> Form {
        if view.stream { Form::Stream { include_usage: view.include_usage } } else { Form::Json }
    }

    /// The `content-type` of the answer.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Form::Json => "application/json",
            Form::Stream { .. } => "text/event-stream; charset=utf-8",
        }
    }
}

/// What is fresh in a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fresh {
    /// Unique bytes (a UUIDv7); shown as 32 hexadecimal digits behind the protocol's prefix.
    pub unique: [u8; 16],
    /// The time of the replay, seconds since 1970, for the Chat protocol's `created`.
    pub created_s: u64,
}

impl Fresh {
    fn id(&self, prefix: &str) -> String {
        use std::fmt::Write as _;
        self.unique.iter().fold(prefix.to_owned(), |mut id, byte| {
            // Writing to a String cannot fail.
            let _ = write!(id, "{byte:02x}");
            id
        })
    }
}

/// The pieces to send: one body, or one piece per event, in order.
///
/// `stored` is [`crate::Answer::message`] as JSON, of an answer without a [`crate::AnswerFacts::barrier`].
/// Linear in its length.
///
/// # Errors
/// [`Reason::UsageUnknown`] where the form needs token counts that were not stored (a Chat answer that came as a
/// stream without the usage chunk); [`Reason::StoreCorrupt`] where `stored` is not such a message. Both are misses.
pub fn replay(protocol: Protocol, stored: &[u8], form: Form, fresh: Fresh) -> Result<Vec<Vec<u8>>, Refusal> {
    let message = json::parse(stored).map_err(|refusal| Refusal::new(Reason::StoreCorrupt, refusal.path))?;
    match protocol {
        Protocol::Messages => messages::replay(message, form, fresh),
        Protocol::Chat => chat::replay(message, form, fresh),
    }
}

/// A stored value that is not what was stored.
fn corrupt(path: &str) -> Refusal {
    Refusal::new(Reason::StoreCorrupt, path)
}
