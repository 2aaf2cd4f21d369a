//! KV memory, plan, step, sampling, generation.
//!
//! A request goes admit, plan, step, emit: [`scheduler`] holds the queue and the engine thread, [`prefix`] knows
//! what has been computed before, [`plan`] says what a step computes, a [`backend::Backend`] computes it for all
//! running requests together, [`sampling`] chooses tokens, [`text`] turns them into text that never splits a
//! character.
#![forbid(unsafe_code)]

mod alone;
pub mod backend;
pub mod clock;
mod compute;
pub mod cpu;
pub mod draft;
mod engine;
mod error;
pub mod exit;
pub mod governor;
pub mod kv;
pub mod perplexity;
pub mod plan;
pub mod prefix;
pub mod profile;
pub mod ring;
pub mod sampling;
pub mod scheduler;
pub mod session;
pub mod text;
pub mod vocabulary;

pub use compute::{Compute, Skipped};
pub use draft::Drafting;
pub use engine::{
    DEFAULT_KV_BYTES_LIMIT, DRAFT_VOCABULARY, DeviceChoice, Engine, Facts, Hardware, KvChoice, LayerParts,
    LoadOptions, MaskUse, mask_sum,
};
pub use error::EngineError;
pub use exit::{ExitError, ExitHeads};
pub use prefix::{Pin, Tenant};
pub use scheduler::{
    Canceller, Event, FinishReason, Finished, Generation, Priority, Request, Statistics, Timings, Usage,
};
pub use zlrs_model::mask::{LayerMask, Mask};
pub use zlrs_model::neurons::Neurons;
pub use zlrs_model::template::Message;
