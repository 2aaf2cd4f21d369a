//! Whether a request may be answered from the graph, and its answer be kept, at all.

use zlrs_wire::header::GraphHeaders;
use zlrs_wire::{Reason, Refusal, RequestView, Temperature, scope};

use crate::settings::{AbsentTemperature, Settings};
use crate::volatile::volatile_words;

/// Checks the headers: what the client asked of us, cookies, encodings. The reason that comes first in the list of
/// checks wins, whatever the order of headers.
///
/// # Errors
/// The first reason against it.
pub fn check_headers<N: AsRef<[u8]>, V: AsRef<[u8]>>(
    settings: &Settings,
    headers: &[(N, V)],
) -> Result<(), Refusal> {
    if !settings.same {
        return Err(Refusal::whole(Reason::GraphOff));
    }
    // A value that is not in its table is a 400 where we are the server; where it came this far it is not served.
    let asked = GraphHeaders::parse(headers, false)
        .map_err(|error| Refusal::new(Reason::UnknownValue, error.header.to_ascii_lowercase()))?;
    if asked.no_graph {
        return Err(Refusal::whole(Reason::NoGraphHeader));
    }
    if asked.multi_modal {
        return Err(Refusal::whole(Reason::MultiModalHeader));
    }
    // A historical spelling with a value that is not in its table runs as the default elsewhere; here the client
    // may have meant to keep away from the graph.
    if asked
        .degraded
        .iter()
        .any(|name| [zlrs_wire::header::NO_GRAPH, zlrs_wire::header::MULTI_MODAL].contains(name))
    {
        return Err(Refusal::whole(Reason::NoGraphHeader));
    }
    scope::header_barrier(headers).map_or(Ok(()), Err)
}

/// Checks the words of an ask, which takes longer than all other checks. It depends on the ask alone.
///
/// # Errors
/// [`Reason::Volatile`].
pub fn check_words(ask: &str) -> Result<(), Refusal> {
    // The word itself may be the client's secret: only the fact goes into headers and logs.
    volatile_words(ask).map_or(Ok(()), |_| Err(Refusal::whole(Reason::Volatile)))
}

/// Checks the body but for the words of the ask, which [`check_words`] reads. Returns the ask.
///
/// # Errors
/// The first reason against it.
pub fn check_form<'v>(settings: &Settings, view: &'v RequestView<'_>) -> Result<&'v str, Refusal> {
    if let Some(barrier) = &view.barrier {
        return Err(barrier.clone());
    }
    match view.temperature {
        Temperature::Absent if settings.absent_temperature == AbsentTemperature::NotEligible => {
            return Err(Refusal::whole(Reason::TemperatureDefault));
        }
        Temperature::Absent => {}
        Temperature::Given(given) if (0.0..=settings.temperature_limit).contains(&given) => {}
        Temperature::Given(_) => return Err(Refusal::whole(Reason::TemperatureHigh)),
    }
    let ask = view.ask.as_deref().ok_or_else(|| Refusal::whole(Reason::NoAsk))?;
    if ask.chars().count() as u64 > settings.max_ask_chars {
        return Err(Refusal::whole(Reason::AskTooLong));
    }
    Ok(ask)
}
