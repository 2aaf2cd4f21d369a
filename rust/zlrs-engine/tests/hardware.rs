//! A device that is lost is known before the next request comes; lower precision is for those who ask for it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use support::scripted::*;
use zlrs_engine::scheduler::SchedulerOptions;
use zlrs_engine::{Compute, EngineError, Event, Request};

#[test]
fn a_lost_device_is_known_before_the_next_request() {
    let backend = Scripted::new(vec![says("never"), says("again"), says("back")]);
    let lost = Arc::clone(&backend.lost);
    let scheduler = scheduler(backend, SchedulerOptions::default());
    let is_lost = || scheduler.statistics().unwrap().backend_lost == 1;
    assert!(!is_lost());
    lost.store(true, Ordering::SeqCst);
    let (_, _, last) = collect(scheduler.submit(request(0)).unwrap());
    assert!(matches!(last, Event::Failed(EngineError::Step { .. })), "{last:?}");
    let begun = Instant::now();
    while !is_lost() {
        assert!(begun.elapsed() < Duration::from_secs(30), "nobody was told");
        std::thread::yield_now();
    }
    let (_, _, last) = collect(scheduler.submit(request(1)).unwrap());
    assert!(matches!(last, Event::Failed(_)) && is_lost(), "{last:?}");
    lost.store(false, Ordering::SeqCst);
    assert_eq!(finished(scheduler.submit(request(2)).unwrap()).0, "back");
    assert!(!is_lost());
}

#[test]
fn lower_precision_is_for_aggressive_requests_and_is_no_exit_head() {
    for (lower_kv, expected) in [(false, Compute::Exact), (true, Compute::Aggressive)] {
        let options = SchedulerOptions { lower_kv, ..SchedulerOptions::default() };
        let scheduler = scheduler(Scripted::new(vec![says("a")]), options);
        assert_eq!(scheduler.effective(Compute::Aggressive), expected);
        assert_eq!(scheduler.effective(Compute::Exact), Compute::Exact);
        let wanted = Request { compute: Compute::Aggressive, require_exits: true, ..request(0) };
        assert!(matches!(scheduler.submit(wanted), Err(EngineError::NoExits { .. })));
    }
}
