//! The caller's end of one generation.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use super::ring::Ring;
use super::{Event, check_process};
use crate::EngineError;

/// How long one wait of [`Generation::next_blocking`] lasts; the end of the process behind a fork shows then.
const WAIT: Duration = Duration::from_secs(1);

/// A generation that was submitted. Dropping it cancels: within a layer of a prompt, within a step otherwise.
#[derive(Debug)]
pub struct Generation {
    ring: Arc<Ring>,
    waiting: VecDeque<Event>,
    input_tokens: usize,
    owner_process: u32,
    ended: bool,
}

impl Generation {
    pub(super) fn new(ring: Arc<Ring>, input_tokens: usize, owner_process: u32) -> Self {
        Self { ring, waiting: VecDeque::new(), input_tokens, owner_process, ended: false }
    }

    /// Tokens of the prompt.
    pub fn input_tokens(&self) -> usize {
        self.input_tokens
    }

    /// The next event, waiting for it; `None` after the last.
    ///
    /// # Errors
    /// [`EngineError::Forked`].
    pub fn next_blocking(&mut self) -> Result<Option<Event>, EngineError> {
        while self.waiting.is_empty() && !self.ended {
            self.waiting = self.wait(WAIT)?;
        }
        Ok(self.waiting.pop_front())
    }

    /// The events that wait, without waiting for any.
    ///
    /// # Errors
    /// [`EngineError::Forked`].
    pub fn drain(&mut self) -> Result<VecDeque<Event>, EngineError> {
        self.wait(Duration::ZERO)
    }

    /// The events that wait; if there are none, waits up to `timeout` for the first. Empty after the last
    /// event, and when time is over.
    ///
    /// # Errors
    /// [`EngineError::Forked`].
    pub fn wait(&mut self, timeout: Duration) -> Result<VecDeque<Event>, EngineError> {
        check_process(self.owner_process)?;
        let mut events = std::mem::take(&mut self.waiting);
        if events.is_empty() && !self.ended {
            events = if timeout.is_zero() { self.ring.take() } else { self.ring.wait(timeout) };
            self.ended = matches!(events.back(), Some(Event::Finished(_) | Event::Failed(_)));
        }
        Ok(events)
    }

    /// An eventfd that becomes readable when events wait; [`Generation::drain`] and [`Generation::wait`] make
    /// it unreadable again. Only for polling: reading it would lose wake-ups.
    pub fn event_fd(&self) -> BorrowedFd<'_> {
        self.ring.event_fd()
    }

    /// Asks the engine to end this generation; its last event says `Cancelled`.
    pub fn cancel(&self) {
        self.ring.cancel();
    }

    /// A handle that can cancel while another thread waits here.
    pub fn canceller(&self) -> Canceller {
        Canceller(Arc::clone(&self.ring))
    }

    /// Whether the last event has been taken.
    pub fn is_ended(&self) -> bool {
        self.ended && self.waiting.is_empty()
    }
}

/// Cancels a generation from anywhere; holding it keeps nothing running.
#[derive(Debug, Clone)]
pub struct Canceller(Arc<Ring>);

impl Canceller {
    /// As [`Generation::cancel`].
    pub fn cancel(&self) {
        self.0.cancel();
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.ring.cancel();
    }
}
