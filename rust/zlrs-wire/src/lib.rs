//! Strict views of request bodies and event streams, scope encoding, header values, the error catalogue.
//!
//! The crate does no I/O, holds no clock and draws no random numbers: what varies is an argument.
//! A request goes through [`RequestView::parse`] (is it understood, what is asked, what must be equal),
//! [`scope`] (keys) and [`header`] (what the client asked of us); an answer through [`assemble`] (is it
//! complete, what is the final message) and back out through [`replay`].
#![forbid(unsafe_code)]

pub mod assemble;
pub mod catalogue;
pub mod error_body;
pub mod header;
pub mod http;
pub mod json;
pub mod places;
pub mod reason;
pub mod replay;
pub mod request;
pub mod scope;
pub mod sse;

pub use assemble::{Answer, AnswerFacts, Assembler};
pub use catalogue::ErrorKind;
pub use places::{Places, places};
pub use reason::{Reason, Refusal};
pub use request::{Protocol, RequestView, Temperature};
