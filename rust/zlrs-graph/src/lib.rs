//! The decision graph, pure: eligibility, scope, routes, form checks.
#![forbid(unsafe_code)]
