//! The events of one generation on their way from the engine thread to the caller.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use super::Event;
use crate::EngineError;

/// Deltas that lie apart. Past this a slow reader's deltas are joined, so a ring never holds more events than
/// this and a few, and never more text than the answer has.
const SEPARATE_EVENTS: usize = 64;

/// Shared by the engine thread (which only adds) and the caller (which only takes).
#[derive(Debug)]
pub(super) struct Ring {
    events: Mutex<VecDeque<Event>>,
    arrived: Condvar,
    wake: OwnedFd,
    cancelled: AtomicBool,
}

impl Ring {
    pub fn new() -> Result<Self, EngineError> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| EngineError::System { what: "making an eventfd", source: error.into() })?;
        Ok(Self {
            events: Mutex::new(VecDeque::with_capacity(SEPARATE_EVENTS + 4)),
            arrived: Condvar::new(),
            wake,
            cancelled: AtomicBool::new(false),
        })
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event. The reader is woken by [`Ring::wake`].
    pub fn push(&self, event: Event) {
        let mut events = self.lock();
        if events.len() >= SEPARATE_EVENTS
            && let (Some(Event::Delta { text, ids }), Event::Delta { text: more_text, ids: more_ids }) =
                (events.back_mut(), &event)
        {
            text.push_str(more_text);
            ids.extend_from_slice(more_ids);
        } else {
            events.push_back(event);
        }
    }

    /// Whether the reader is so far behind that it gains nothing by seeing guesses.
    pub fn is_crowded(&self) -> bool {
        self.lock().len() >= SEPARATE_EVENTS
    }

    /// Wakes the reader, once a step.
    pub fn wake(&self) {
        self.arrived.notify_all();
        // Fails only when the counter is full, and then the descriptor is readable anyway.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Takes everything that waits.
    pub fn take(&self) -> VecDeque<Event> {
        self.take_from(&mut self.lock())
    }

    /// Takes everything that waits, waiting up to `timeout` for the first event.
    pub fn wait(&self, timeout: Duration) -> VecDeque<Event> {
        let events = self.lock();
        let (mut events, _) = self
            .arrived
            .wait_timeout_while(events, timeout, |events| events.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        self.take_from(&mut events)
    }

    /// A failure comes alone, after what was produced before it; until then the descriptor stays readable.
    fn take_from(&self, events: &mut VecDeque<Event>) -> VecDeque<Event> {
        let keep = usize::from(events.len() > 1 && matches!(events.back(), Some(Event::Failed(_))));
        if keep == 0 {
            self.clear_wake();
        }
        events.drain(..events.len() - keep).collect()
    }

    /// Events come before their wake-up, so a wake-up cleared before taking them is never lost.
    fn clear_wake(&self) {
        let mut counter = [0; 8];
        // Fails only when there is nothing to clear.
        let _ = rustix::io::read(&self.wake, &mut counter);
    }

    pub fn event_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }
}
