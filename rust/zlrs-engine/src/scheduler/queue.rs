//! Requests that wait for the engine thread: a bounded line, first come first served.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::request::{Budget, Request};
use super::ring::Ring;
use crate::EngineError;

/// A request that passed all checks.
#[derive(Debug)]
pub(super) struct Job {
    pub request: Request,
    pub budget: Budget,
    pub ring: Arc<Ring>,
    pub submitted: Duration,
}

impl Job {
    /// Whether the request's time is over.
    pub fn is_late(&self, now: Duration) -> bool {
        self.request.deadline.is_some_and(|deadline| now.saturating_sub(self.submitted) >= deadline)
    }
}

#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
    limit: usize,
}

#[derive(Debug)]
struct State {
    jobs: VecDeque<Job>,
    closed: bool,
}

impl Queue {
    pub fn new(limit: usize) -> Self {
        let state = State { jobs: VecDeque::new(), closed: false };
        Self { state: Mutex::new(state), arrived: Condvar::new(), limit }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins the line. Requests whose callers have gone do not count.
    pub fn push(&self, job: Job) -> Result<(), EngineError> {
        let mut state = self.lock();
        if state.closed {
            return Err(EngineError::Closed);
        }
        if state.jobs.iter().filter(|job| !job.ring.is_cancelled()).count() >= self.limit {
            return Err(EngineError::QueueFull { limit: self.limit });
        }
        state.jobs.push_back(job);
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    /// The first in line, waiting for one; `None` when the queue is closed.
    pub fn next(&self) -> Option<Job> {
        let mut state = self
            .arrived
            .wait_while(self.lock(), |state| state.jobs.is_empty() && !state.closed)
            .unwrap_or_else(PoisonError::into_inner);
        if state.closed { None } else { state.jobs.pop_front() }
    }

    /// The first in line, if there is one.
    pub fn try_next(&self) -> Option<Job> {
        self.lock().jobs.pop_front()
    }

    /// Takes out every request that has no more reason to wait: cancelled or late.
    pub fn sweep(&self, now: Duration) -> Vec<Job> {
        let mut state = self.lock();
        let leaves = |job: &Job| job.ring.is_cancelled() || job.is_late(now);
        if !state.jobs.iter().any(leaves) {
            return Vec::new();
        }
        let (gone, stay) = std::mem::take(&mut state.jobs).into_iter().partition(leaves);
        state.jobs = stay;
        gone.into()
    }

    /// Refuses further requests and returns those that wait.
    pub fn close(&self) -> Vec<Job> {
        let mut state = self.lock();
        state.closed = true;
        let jobs = std::mem::take(&mut state.jobs).into();
        drop(state);
        self.arrived.notify_all();
        jobs
    }

    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    pub fn len(&self) -> usize {
        self.lock().jobs.len()
    }
}
