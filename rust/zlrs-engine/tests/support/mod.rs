//! What several tests share.
#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may fail anywhere")]

pub mod model;
pub mod reference;
pub mod scripted;
pub mod wild;
pub mod world;
