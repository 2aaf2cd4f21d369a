//! The decision graph, pure: eligibility, scope, routes, form checks. No clock and no input or output:
//! every function here gives the same answer for the same arguments.
#![forbid(unsafe_code)]

mod digest;
mod lookup;
mod route;

pub use digest::Digest;
pub use lookup::{EntryFacts, LookupFacts};
pub use route::{Route, Versions};
