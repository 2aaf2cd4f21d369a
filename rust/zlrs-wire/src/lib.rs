//! Strict views of request bodies and event streams, scope encoding, header values, the error catalogue.
#![forbid(unsafe_code)]
