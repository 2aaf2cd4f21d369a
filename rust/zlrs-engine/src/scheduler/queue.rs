//! Requests that wait for the engine thread: bounded, in order of arrival.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::chore::Chore;
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
    /// Counts requests in order of arrival; set by the queue.
    pub arrival: u64,
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
    chores: Vec<Chore>,
    arrivals: u64,
    closed: bool,
}

impl Queue {
    pub fn new(limit: usize) -> Self {
        let state = State { jobs: VecDeque::new(), chores: Vec::new(), arrivals: 0, closed: false };
        Self { state: Mutex::new(state), arrived: Condvar::new(), limit }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins the line. Requests whose callers have gone do not count.
    pub fn push(&self, mut job: Job) -> Result<(), EngineError> {
        let mut state = self.lock();
        if state.closed {
            return Err(EngineError::Closed);
        }
        if state.jobs.iter().filter(|job| !job.ring.is_cancelled()).count() >= self.limit {
            return Err(EngineError::QueueFull { limit: self.limit });
        }
        state.arrivals += 1;
        job.arrival = state.arrivals;
        state.jobs.push_back(job);
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    /// Waits until a request or a chore is there or the queue is closed.
    pub fn wait(&self) {
        let nothing = |state: &mut State| state.jobs.is_empty() && state.chores.is_empty() && !state.closed;
        let _state = self.arrived.wait_while(self.lock(), nothing).unwrap_or_else(PoisonError::into_inner);
    }

    /// Asks the engine thread for something between two steps; false when the queue is closed.
    pub fn push_chore(&self, chore: Chore) -> bool {
        let mut state = self.lock();
        if state.closed {
            return false;
        }
        state.chores.push(chore);
        drop(state);
        self.arrived.notify_one();
        true
    }

    /// Takes what the engine thread is asked for, in order.
    pub fn take_chores(&self) -> Vec<Chore> {
        std::mem::take(&mut self.lock().chores)
    }

    /// What `look` says of the request that `rank` puts first.
    pub fn peek<R: Ord, T>(&self, rank: impl Fn(&Job) -> R, look: impl FnOnce(&Job) -> T) -> Option<T> {
        self.lock().jobs.iter().min_by_key(|job| rank(job)).map(look)
    }

    /// Takes the request that arrived as number `arrival`.
    pub fn take(&self, arrival: u64) -> Option<Job> {
        let mut state = self.lock();
        let index = state.jobs.iter().position(|job| job.arrival == arrival)?;
        state.jobs.remove(index)
    }

    /// Shows every request that waits.
    pub fn for_each(&self, look: impl FnMut(&Job)) {
        self.lock().jobs.iter().for_each(look);
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
        // Whoever waits for a chore learns it from the dropped reply.
        state.chores.clear();
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
