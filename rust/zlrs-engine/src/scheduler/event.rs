//! What a generation tells its caller.

use std::time::Duration;

use crate::ring::{Note, TokenEvent};
use crate::{Compute, EngineError, Skipped};

/// Why a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FinishReason {
    /// The model ended its turn.
    Stop,
    /// A stop sequence came.
    StopSequence,
    /// `max_tokens` were generated.
    MaxTokens,
    /// The model's window is full.
    Context,
    /// The caller cancelled.
    Cancelled,
    /// The deadline passed.
    Deadline,
}

impl FinishReason {
    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::StopSequence => "stop_sequence",
            Self::MaxTokens => "max_tokens",
            Self::Context => "context",
            Self::Cancelled => "cancelled",
            Self::Deadline => "deadline",
        }
    }
}

/// Tokens counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Tokens of the prompt.
    pub input_tokens: usize,
    /// Tokens of the prompt whose keys and values were there already.
    pub cached_tokens: usize,
    /// Tokens generated; the token that ended the turn is not counted.
    pub output_tokens: usize,
    /// Tokens that were guessed and verified.
    pub drafted_tokens: usize,
    /// Guesses that were right: each saved a step.
    pub accepted_tokens: usize,
}

/// Where the time went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timings {
    /// From submission until work began.
    pub queue: Duration,
    /// From the beginning of work until the first token was chosen.
    pub prefill: Duration,
    /// From the first token until the end.
    pub decode: Duration,
    /// From submission until the first token; zero if there was none.
    pub first_token: Duration,
    /// Looking up, copying, reserving and keeping blocks of the request.
    pub kv: Duration,
    /// Unpacking weights while they are needed; zero as long as they lie in memory in the kernels' own form.
    pub decompress: Duration,
    /// Steps that computed rows of the request, and choosing its tokens. Steps are shared: requests that run
    /// together all count them.
    pub compute: Duration,
    /// Making text of tokens and handing it over.
    pub io: Duration,
}

/// The last event of a generation that did not fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Why it ended.
    pub reason: FinishReason,
    /// The stop sequence that came.
    pub stop_sequence: Option<String>,
    /// Tokens counted.
    pub usage: Usage,
    /// The seed used, drawn or given; 0 if the request ended before one was drawn. Greedy decoding uses none
    /// but reports it all the same.
    pub seed: u64,
    /// Where the time went.
    pub timings: Timings,
    /// How it was computed.
    pub compute: Compute,
    /// What was left out.
    pub skipped: Skipped,
    /// What was marked in the answer, and what became of it.
    pub notes: Vec<Note>,
}

/// One event. Exactly one [`Event::Finished`] or [`Event::Failed`] ends every generation.
#[derive(Debug)]
pub enum Event {
    /// Work has begun.
    Started {
        /// Tokens of the prompt.
        input_tokens: usize,
        /// Those whose keys and values were there already. Final: the same number is in the usage.
        cached_tokens: usize,
    },
    /// More of the answer. Joined texts are the answer's text, joined ids its tokens. Text may come later than
    /// its tokens' computation: half a character, or the beginning of a stop sequence, waits.
    Delta {
        /// Whole characters.
        text: String,
        /// Tokens generated since the last delta.
        ids: Vec<u32>,
    },
    /// What is new about one token; see [`TokenEvents`](crate::ring::TokenEvents).
    Token(TokenEvent),
    /// The end.
    Finished(Finished),
    /// The end by an error.
    Failed(EngineError),
}
