//! The decision graph, pure: eligibility, decisions, form checks. No clock and no input or output: every function
//! here gives the same result for the same arguments.
//!
//! A request goes through [`check_headers`] and [`check_body`] (may it be answered from the graph at all), a store
//! gives [`LookupFacts`], and [`decide`] says what is done. An answer goes through [`storable`].
#![forbid(unsafe_code)]

mod credential;
mod decide;
mod digest;
mod eligibility;
mod form;
mod lookup;
mod route;
mod settings;
mod volatile;

pub use credential::{Credential, Credentials};
pub use decide::{CLOCK_SLACK_MS, Inputs, Outcome, decide};
pub use digest::Digest;
pub use eligibility::{check_body, check_headers};
pub use form::{Response, storable};
pub use lookup::{EntryFacts, LookupFacts};
pub use route::{Versions, route_code, route_of_code};
pub use settings::{AbsentTemperature, Settings, SettingsError};
pub use volatile::volatile_words;
pub use zlrs_wire::header::Route;
