//! The decision graph, pure: eligibility, decisions, form checks. No clock and no input or output: every function
//! here gives the same result for the same arguments.
//!
//! A request goes through [`check_headers`], [`check_form`] and [`check_words`] (may it be answered from the graph at
//! all), a store gives [`LookupFacts`], and [`decide`] says what is done. An answer goes through [`storable`].
#![forbid(unsafe_code)]

mod alarm;
mod bound;
mod credential;
mod decide;
mod digest;
mod edge;
mod eligibility;
mod evidence;
mod form;
mod gates;
mod load;
mod lookup;
mod propose;
mod recheck;
mod route;
mod settings;
mod stages;
mod volatile;

pub use alarm::{ALARM_THRESHOLD, Alarm};
pub use bound::{ALPHA, Preset, largest_sum, printed, trials_needed, upper_limit};
pub use credential::{Credential, Credentials};
pub use decide::{CLOCK_SLACK_MS, Inputs, Outcome, decide};
pub use digest::Digest;
pub use edge::{EdgeEnds, EdgeInputs, propose_edge};
pub use eligibility::{check_form, check_headers, check_words};
pub use evidence::{Agreement, AnswerKind, Cause, Class, Policy, Pool, Trial};
pub use form::{Response, storable};
pub use gates::{EdgeRecord, Stability};
pub use load::explore_threshold;
pub use lookup::{EntryFacts, LookupFacts};
pub use propose::{Mode, Nothing, Proposal, ProposalInputs, Standing, propose};
pub use recheck::{Due, RecheckRules, Served, is_of_the_day, last_scheduled};
pub use route::{Versions, route_code, route_of_code};
pub use settings::{AbsentTemperature, Settings, SettingsError};
pub use stages::{CLEAN_NEEDED, Draw, FLOOR_AFTER, Observation, Progress, Step, falls_into};
pub use volatile::volatile_words;
pub use zlrs_wire::header::Route;
