//! Whose turn it is when many requests ask for the same steps and the same memory.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use support::scripted::*;
use zlrs_engine::scheduler::SchedulerOptions;
use zlrs_engine::{EngineError, Event, FinishReason, Priority, Request, Tenant};

/// Holds the first step, queues `requests` behind it in their order and returns the scripts in the order in which
/// the engine took them up, one at a time. The first step is of script 0 and tenant 9.
fn order_of(requests: Vec<Request>) -> Vec<u32> {
    let mut backend = Scripted::new((0..10).map(|_| says("ab")).collect());
    backend.gate = Arc::new(Gate::default());
    let (gate, log) = (Arc::clone(&backend.gate), Arc::clone(&backend.log));
    let options = SchedulerOptions { running_limit: 1, ..SchedulerOptions::default() };
    let scheduler = scheduler(backend, options);
    let first = scheduler.submit(Request { tenant: Tenant([9; 32]), ..request(0) }).unwrap();
    wait_until(|| gate.steps.load(Ordering::SeqCst) == 1);
    let rest: Vec<_> = requests.into_iter().map(|request| scheduler.submit(request).unwrap()).collect();
    gate.open();
    for generation in std::iter::once(first).chain(rest) {
        assert_eq!(finished(generation).0, "ab");
    }
    let log = log.lock().unwrap();
    log.0[1..].to_vec()
}

#[test]
fn interactive_requests_go_before_batches() {
    let batch = |script| Request { priority: Priority::Batch, ..request(script) };
    assert_eq!(order_of(vec![batch(1), batch(2), request(3), request(4)]), [3, 4, 1, 2]);
}

#[test]
fn tenants_take_turns() {
    let of = |tenant, script| Request { tenant: Tenant([tenant; 32]), ..request(script) };
    let order = order_of(vec![of(1, 1), of(1, 2), of(1, 3), of(2, 4), of(2, 5)]);
    assert_eq!(order, [1, 4, 2, 5, 3]);
}

#[test]
fn requests_share_steps() {
    let mut backend = Scripted::new((0..8).map(|_| says("together")).collect());
    backend.gate = Arc::new(Gate::default());
    backend.shape.blocks = 40;
    let (gate, log) = (Arc::clone(&backend.gate), Arc::clone(&backend.log));
    let scheduler = scheduler(backend, SchedulerOptions::default());
    let all: Vec<_> = (0..8).map(|script| scheduler.submit(request(script)).unwrap()).collect();
    wait_until(|| gate.steps.load(Ordering::SeqCst) == 1);
    gate.open();
    for generation in all {
        assert_eq!(finished(generation).0, "together");
    }
    let statistics = scheduler.statistics().unwrap();
    assert!(log.lock().unwrap().1 >= 7, "{statistics:?}");
    assert!(statistics.steps <= 20, "{statistics:?}");
}

#[test]
fn a_step_that_is_half_for_nobody_ends_and_is_taken_again_for_the_others() {
    let mut backend = Scripted::new(vec![says("warm"), says("stays"), says("goes")]);
    backend.gate = Arc::new(Gate::default());
    let gate = Arc::clone(&backend.gate);
    let scheduler = scheduler(backend, SchedulerOptions::default());
    let first = scheduler.submit(request(0)).unwrap();
    wait_until(|| gate.steps.load(Ordering::SeqCst) == 1);
    let stays = scheduler.submit(request(1)).unwrap();
    let goes = scheduler.submit(request(2)).unwrap();
    // The first step is for one request alone: it ends with it.
    drop(first);
    wait_until(|| gate.steps.load(Ordering::SeqCst) == 2);
    assert_eq!(scheduler.statistics().unwrap().running, 2);
    gate.interrupted.store(false, Ordering::SeqCst);
    goes.cancel();
    wait_until(|| gate.steps.load(Ordering::SeqCst) == 3);
    assert!(gate.interrupted.load(Ordering::SeqCst));
    assert_eq!(finished(goes).2.reason, FinishReason::Cancelled);
    gate.open();
    assert_eq!(finished(stays).0, "stays");
    assert_eq!(scheduler.statistics().unwrap().kv_blocks_used, 0);
}

#[test]
fn memory_is_waited_for_and_never_exceeded() {
    for count in [2, 3, 6] {
        let mut backend = Scripted::new((0..count).map(|_| vec![Say::Token(97); 100]).collect());
        // Each answer takes 7 blocks in the end.
        backend.shape.blocks = 9;
        backend.gate = Arc::new(Gate::default());
        let gate = Arc::clone(&backend.gate);
        let scheduler = scheduler(backend, SchedulerOptions::default());
        let of = |script| Request { max_tokens: 100, ..request(script) };
        let all: Vec<_> = (0..count).map(|script| scheduler.submit(of(script)).unwrap()).collect();
        gate.open();
        for generation in all {
            let (text, _, last) = finished(generation);
            assert_eq!((text.len(), last.reason), (100, FinishReason::MaxTokens));
        }
        let statistics = scheduler.statistics().unwrap();
        assert!(statistics.pauses > 0, "{statistics:?}");
        assert_eq!(statistics.kv_blocks_peak, 9);
        assert_eq!((statistics.kv_blocks_used, statistics.queued, statistics.running), (0, 0, 0));
    }
}

#[test]
fn paused_requests_end_by_deadline_and_by_close() {
    let mut backend = Scripted::new((0..3).map(|_| vec![Say::Token(97); 100]).collect());
    backend.shape.blocks = 9;
    backend.shut_after = 60;
    // Nobody runs ahead: the first step waits until all are there.
    backend.gate = Arc::new(Gate::default());
    let gate = Arc::clone(&backend.gate);
    let clock = Arc::new(ManualClock::default());
    let options = SchedulerOptions { clock: clock.clone(), ..SchedulerOptions::default() };
    let scheduler = scheduler(backend, options);
    let late = Request { deadline: Some(Duration::from_secs(5)), max_tokens: 100, ..request(1) };
    let first = scheduler.submit(Request { max_tokens: 100, ..request(0) }).unwrap();
    let second = scheduler.submit(late).unwrap();
    let third = scheduler.submit(Request { max_tokens: 100, ..request(2) }).unwrap();
    gate.open();
    // By now the three do not fit together any more.
    wait_until(|| gate.steps.load(Ordering::SeqCst) == 60);
    assert!(scheduler.statistics().unwrap().pauses > 0);
    clock.advance(Duration::from_secs(5));
    scheduler.close();
    for generation in [first, third] {
        assert!(matches!(collect(generation).2, Event::Failed(EngineError::Closed)));
    }
    assert_eq!(finished(second).2.reason, FinishReason::Deadline);
    let statistics = scheduler.statistics().unwrap();
    assert_eq!((statistics.kv_blocks_used, statistics.kv_blocks_cached), (0, 0));
}
