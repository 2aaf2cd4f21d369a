//! Whether an answer's form allows it to be kept.

use zlrs_wire::{Answer, Protocol, Reason, Refusal};

use crate::settings::Settings;

/// An answer as it came from the upstream, without content encoding.
#[derive(Clone, Copy, Debug)]
pub struct Response<'r> {
    /// The HTTP status.
    pub status: u16,
    /// All headers, in order.
    pub headers: &'r [(&'r [u8], &'r [u8])],
    /// The body.
    pub body: &'r [u8],
    /// Whether the upstream ended it properly: the whole length, the last chunk, no abort by us.
    pub complete: bool,
}

impl Response<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        let (_, value) =
            self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes()))?;
        std::str::from_utf8(value).ok().map(|value| value.trim_matches([' ', '\t']))
    }
}

/// Checks the form of an answer and gives the final message as it is kept: one JSON body, whatever the form it came
/// in. Linear in its length.
///
/// # Errors
/// The first reason against keeping it.
pub fn storable(
    settings: &Settings,
    protocol: Protocol,
    response: &Response<'_>,
) -> Result<Vec<u8>, Refusal> {
    if !(200..300).contains(&response.status) {
        return Err(Refusal::whole(Reason::Status));
    }
    if !response.complete {
        return Err(Refusal::whole(Reason::Incomplete));
    }
    // A stream is several times as long as its message; past this it is not even read.
    if response.body.len() as u64 > settings.max_answer_bytes.saturating_mul(64) {
        return Err(Refusal::whole(Reason::TooLarge));
    }
    from_a_graph(response)?;
    let answer = match media_type(response).as_deref() {
        Some("application/json") => Answer::from_json(protocol, response.body),
        Some("text/event-stream") => Answer::from_stream(protocol, response.body),
        _ => return Err(Refusal::new(Reason::Malformed, "content-type")),
    };
    if let Some(barrier) = answer.facts.barrier() {
        return Err(barrier);
    }
    let message = answer.message.to_json();
    if message.len() as u64 > settings.max_answer_bytes {
        return Err(Refusal::whole(Reason::TooLarge));
    }
    Ok(message)
}

/// A replay is not the upstream's answer to this request: kept again, it would outlive its time.
fn from_a_graph(response: &Response<'_>) -> Result<(), Refusal> {
    let hit = response.header("x-zlrs-decision").is_some_and(|value| value.starts_with("hit"));
    let bypass =
        response.header("x-zero-layer-bypass").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    if hit || bypass {
        return Err(Refusal::whole(Reason::UpstreamReplay));
    }
    Ok(())
}

fn media_type(response: &Response<'_>) -> Option<String> {
    let value = response.header("content-type")?;
    Some(value.split(';').next().unwrap_or("").trim().to_ascii_lowercase())
}
