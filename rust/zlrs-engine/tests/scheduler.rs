//! The scheduler over a backend that follows a script: queue, limits, endings, cancellation, recovery.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use support::scripted::*;
use zlrs_engine::kv::BLOCK_TOKENS;
use zlrs_engine::sampling::{Sampling, SamplingError};
use zlrs_engine::scheduler::{Scheduler, SchedulerOptions};
use zlrs_engine::{Compute, EngineError, Event, FinishReason, Request, Skipped};

fn over(scripts: Vec<Vec<Say>>) -> Scheduler {
    scheduler(Scripted::new(scripts), SchedulerOptions::default())
}

#[test]
fn an_answer_ends_with_the_turn() {
    let scheduler = over(vec![says("Hello é😀!")]);
    let (text, ids, finished) = finished(scheduler.submit(request(0)).unwrap());
    assert_eq!(text, "Hello é😀!");
    assert_eq!(ids, text.bytes().map(u32::from).collect::<Vec<_>>());
    assert_eq!(finished.reason, FinishReason::Stop);
    assert_eq!((finished.usage.input_tokens, finished.usage.output_tokens), (3, ids.len()));
    let statistics = scheduler.statistics().unwrap();
    assert_eq!((statistics.tokens_prefilled, statistics.tokens_decoded), (3, ids.len() as u64 + 1));
    assert_eq!((statistics.requests, statistics.finished, statistics.kv_blocks_used), (1, 1, 0));
}

#[test]
fn control_tokens_are_tokens_but_not_text() {
    let mut script = says("ab");
    script.insert(1, Say::Token(CONTROL));
    let (text, ids, _) = finished(over(vec![script]).submit(request(0)).unwrap());
    assert_eq!((text.as_str(), ids), ("ab", vec![97, CONTROL, 98]));
}

#[test]
fn a_stop_sequence_is_never_shown() {
    let scheduler = over(vec![says("one two STOP three"), says("ends in STO")]);
    let with_stop = |script| Request { stop: vec!["x".into(), "STOP".into()], ..request(script) };
    let (text, ids, finished_one) = finished(scheduler.submit(with_stop(0)).unwrap());
    assert_eq!(text, "one two ");
    assert_eq!(ids.len(), "one two STOP".len());
    assert_eq!(finished_one.reason, FinishReason::StopSequence);
    assert_eq!(finished_one.stop_sequence.as_deref(), Some("STOP"));
    let (text, _, finished_two) = finished(scheduler.submit(with_stop(1)).unwrap());
    assert_eq!((text.as_str(), finished_two.reason), ("ends in STO", FinishReason::Stop));
}

#[test]
fn half_a_character_at_the_end_becomes_a_replacement() {
    let script = vec![Say::Token(97), Say::Token(0xF0), Say::Token(0x9F)];
    let (text, ids, _) = finished(over(vec![script]).submit(request(0)).unwrap());
    assert_eq!((text.as_str(), ids), ("a\u{FFFD}", vec![97, 0xF0, 0x9F]));
    let (text, ids, finished) =
        finished(over(vec![says("aé")]).submit(Request { max_tokens: 2, ..request(0) }).unwrap());
    assert_eq!((text.as_str(), ids), ("a\u{FFFD}", vec![97, 0xC3]));
    assert_eq!(finished.reason, FinishReason::MaxTokens);
}

#[test]
fn max_tokens_and_the_window_end_an_answer() {
    let endless = vec![Say::Token(97); 1000];
    let mut backend = Scripted::new(vec![endless]);
    backend.shape.blocks = 256 / BLOCK_TOKENS;
    let scheduler = scheduler(backend, SchedulerOptions::default());
    for (max_tokens, expected, reason) in [
        (1, 1, FinishReason::MaxTokens),
        (40, 40, FinishReason::MaxTokens),
        (253, 253, FinishReason::MaxTokens),
        (254, 253, FinishReason::Context),
        (usize::MAX, 253, FinishReason::Context),
    ] {
        let generation = scheduler.submit(Request { max_tokens, ..request(0) }).unwrap();
        let (text, ids, finished) = finished(generation);
        assert_eq!((text.len(), ids.len(), finished.reason), (expected, expected, reason));
        assert_eq!(finished.usage.output_tokens, expected);
    }
    assert_eq!(scheduler.statistics().unwrap().kv_blocks_peak, 16);
}

#[test]
fn requests_that_cannot_run_are_refused_with_numbers() {
    let scheduler = over(vec![]);
    let refuse = |request: Request| scheduler.submit(request).unwrap_err();
    let long = |tokens| Request { ids: vec![1; tokens], ..request(0) };
    let error = refuse(long(256));
    assert_eq!(error.to_string(), "prompt is too long: 256 tokens > 255 maximum");
    assert_eq!(error.catalogue_type(), "invalid_request_error");
    let error = refuse(Request { max_tokens: 30, ..long(190) });
    assert!(matches!(
        error,
        EngineError::ContextOverflow { tokens: 190, max_tokens: 30, capacity: 192, kv_bytes: 768 }
    ));
    assert_eq!(error.catalogue_type(), "context_overflow");
    assert!(matches!(refuse(long(0)), EngineError::EmptyPrompt));
    assert!(matches!(refuse(Request { max_tokens: 0, ..request(0) }), EngineError::NoTokens));
    assert_eq!(
        refuse(Request { ids: vec![1, 260], ..request(0) }).to_string(),
        "prompt token 1 is 260, but the model has tokens 0 to 259"
    );
    let wild = Sampling { temperature: 1e6, ..Sampling::default() };
    assert!(matches!(refuse(Request { sampling: wild, ..request(0) }), EngineError::Sampling(_)));
    assert!(matches!(refuse(Request { stop: vec![String::new()], ..request(0) }), EngineError::Stop(_)));
    assert_eq!(scheduler.statistics().unwrap().requests, 0);
}

#[test]
fn logits_that_are_not_finite_fail_the_request_only() {
    let mut script = says("ok");
    script.push(Say::NotANumber(77));
    let scheduler = over(vec![script, says("fine")]);
    let (text, _, last) = collect(scheduler.submit(request(0)).unwrap());
    assert_eq!(text, "ok");
    let Event::Failed(EngineError::Sampling(SamplingError::NotFinite { id, position, .. })) = last else {
        panic!("{last:?}")
    };
    assert_eq!((id, position), (77, 5));
    assert_eq!(finished(scheduler.submit(request(1)).unwrap()).0, "fine");
}

#[test]
fn a_panic_or_a_failure_in_a_step_loses_its_requests_and_no_others() {
    let mut panics = says("a");
    panics.push(Say::Panic);
    let mut backend = Scripted::new(vec![panics, says("abc"), vec![Say::Fail], says("fine")]);
    let recovered = Arc::clone(&backend.recovered);
    backend.gate = Arc::new(Gate::default());
    let gate = Arc::clone(&backend.gate);
    let scheduler = scheduler(backend, SchedulerOptions::default());
    let first = scheduler.submit(request(0)).unwrap();
    wait_until(|| gate.steps.load(Ordering::SeqCst) == 1);
    let second = scheduler.submit(request(1)).unwrap();
    gate.open();
    let (text, _, last) = collect(first);
    assert_eq!(text, "a");
    let Event::Failed(error) = last else { panic!("{last:?}") };
    assert!(error.to_string().contains("the script says panic"), "{error}");
    // It was in the same step.
    assert!(matches!(collect(second).2, Event::Failed(EngineError::Panicked { .. })));
    assert_eq!(finished(scheduler.submit(request(1)).unwrap()).0, "abc");
    let failing = scheduler.submit(request(2)).unwrap();
    assert!(matches!(collect(failing).2, Event::Failed(EngineError::Step { .. })));
    assert_eq!(finished(scheduler.submit(request(3)).unwrap()).0, "fine");
    assert_eq!(recovered.load(Ordering::SeqCst), 2);
    let statistics = scheduler.statistics().unwrap();
    assert_eq!((statistics.failed, statistics.finished, statistics.recoveries), (3, 2, 2));
    assert_eq!(statistics.kv_blocks_used, 0);
}

#[test]
fn what_a_device_changed_by_half_is_read_by_nobody() {
    let scheduler = over(vec![says("abc"), vec![Say::Full]]);
    let cached = || {
        let (text, _, last) = finished(scheduler.submit(request(0)).unwrap());
        assert_eq!(text, "abc");
        last.usage.cached_tokens
    };
    assert_eq!(cached(), 0);
    assert!(cached() > 0);
    let Event::Failed(error) = collect(scheduler.submit(request(1)).unwrap()).2 else { panic!("it is full") };
    assert!(matches!(error, EngineError::StepFull { .. }), "{error}");
    assert_eq!(error.catalogue_type(), "context_overflow");
    assert_eq!(cached(), 0);
    assert_eq!(scheduler.statistics().unwrap().recoveries, 1);
}

/// A scheduler whose first step waits until the test opens the gate.
fn shut(scripts: Vec<Vec<Say>>, queue_limit: usize) -> (Scheduler, Arc<Gate>, Arc<ManualClock>) {
    let mut backend = Scripted::new(scripts);
    backend.gate = Arc::new(Gate::default());
    let gate = Arc::clone(&backend.gate);
    let clock = Arc::new(ManualClock::default());
    let options = SchedulerOptions { queue_limit, clock: clock.clone(), ..SchedulerOptions::default() };
    (scheduler(backend, options), gate, clock)
}

#[test]
fn the_queue_is_bounded_and_gone_callers_do_not_count() {
    let (scheduler, gate, _) = shut(vec![says("a")], 2);
    let running = scheduler.submit(request(0)).unwrap();
    wait_until(|| gate.steps.load(Ordering::SeqCst) == 1);
    let waiting = scheduler.submit(request(0)).unwrap();
    let gone = scheduler.submit(request(0)).unwrap();
    let error = scheduler.submit(request(0)).unwrap_err();
    assert!(matches!(error, EngineError::QueueFull { limit: 2 }));
    assert_eq!(error.catalogue_type(), "overloaded_error");
    drop(gone);
    let last = scheduler.submit(request(0)).unwrap();
    gate.open();
    for generation in [running, waiting, last] {
        assert_eq!(finished(generation).0, "a");
    }
    assert_eq!(scheduler.statistics().unwrap().cancelled, 1);
}

#[test]
fn dropping_ends_the_step_and_frees_the_blocks() {
    let (scheduler, gate, _) = shut(vec![says("a")], 4);
    let generation = scheduler.submit(request(0)).unwrap();
    wait_until(|| gate.steps.load(Ordering::SeqCst) == 1);
    drop(generation);
    wait_until(|| scheduler.statistics().unwrap().cancelled == 1);
    assert!(gate.interrupted.load(Ordering::SeqCst));
    assert_eq!(scheduler.statistics().unwrap().kv_blocks_used, 0);
    gate.open();
    assert_eq!(finished(scheduler.submit(request(0)).unwrap()).0, "a");
}

#[test]
fn cancelling_a_waiting_request_leaves_the_running_one_alone() {
    let (scheduler, gate, _) = shut(vec![says("long"), says("other")], 4);
    let running = scheduler.submit(request(0)).unwrap();
    wait_until(|| gate.steps.load(Ordering::SeqCst) == 1);
    let waiting = scheduler.submit(request(1)).unwrap();
    waiting.cancel();
    gate.open();
    assert_eq!(finished(running).0, "long");
    let (text, _, ending) = finished(waiting);
    assert_eq!((text.as_str(), ending.reason), ("", FinishReason::Cancelled));
    assert!(!gate.interrupted.load(Ordering::SeqCst));
}

#[test]
fn deadlines_end_running_and_waiting_requests() {
    let (scheduler, gate, clock) = shut(vec![says("a")], 4);
    let deadline = Some(Duration::from_secs(5));
    let running = scheduler.submit(Request { deadline, ..request(0) }).unwrap();
    wait_until(|| gate.steps.load(Ordering::SeqCst) == 1);
    let waiting = scheduler.submit(Request { deadline, ..request(0) }).unwrap();
    let patient = scheduler.submit(request(0)).unwrap();
    clock.advance(Duration::from_secs(5));
    assert_eq!(finished(running).2.reason, FinishReason::Deadline);
    let waited = finished(waiting).2;
    assert_eq!((waited.reason, waited.timings.queue), (FinishReason::Deadline, Duration::from_secs(5)));
    gate.open();
    assert_eq!(finished(patient).2.reason, FinishReason::Stop);
}

#[test]
fn closing_fails_what_runs_and_what_waits() {
    let (scheduler, gate, _) = shut(vec![says("a")], 4);
    let running = scheduler.submit(request(0)).unwrap();
    wait_until(|| gate.steps.load(Ordering::SeqCst) == 1);
    let waiting = scheduler.submit(request(0)).unwrap();
    scheduler.close();
    for generation in [running, waiting] {
        assert!(matches!(collect(generation).2, Event::Failed(EngineError::Closed)));
    }
    assert!(matches!(scheduler.submit(request(0)), Err(EngineError::Closed)));
    scheduler.close();
}

#[test]
fn a_slow_reader_gets_everything_in_few_events() {
    let text = "x".repeat(180);
    let scheduler = over(vec![says(&text)]);
    let mut generation = scheduler.submit(Request { max_tokens: 189, ..request(0) }).unwrap();
    wait_until(|| scheduler.statistics().unwrap().finished == 1);
    let events = generation.drain().unwrap();
    assert!(events.len() <= 68, "{}", events.len());
    let joined: String = events
        .iter()
        .filter_map(|event| if let Event::Delta { text, .. } = event { Some(text.as_str()) } else { None })
        .collect();
    assert_eq!(joined, text);
    assert!(generation.is_ended());
    assert!(generation.drain().unwrap().is_empty());
}

#[test]
fn the_eventfd_is_readable_exactly_while_events_wait() {
    let scheduler = over(vec![says("a")]);
    let mut generation = scheduler.submit(request(0)).unwrap();
    wait_until(|| scheduler.statistics().unwrap().finished == 1);
    let readable = |generation: &zlrs_engine::Generation| {
        let fd = generation.event_fd();
        let mut poll = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut poll, Some(&now)).unwrap() == 1
    };
    wait_until(|| readable(&generation));
    assert!(!generation.drain().unwrap().is_empty());
    assert!(!readable(&generation));
}

#[test]
fn the_same_seed_gives_the_same_text() {
    // Flat logits: the scripted model prefers one token slightly, temperature does the rest.
    let scheduler = over(vec![says(&"abc".repeat(5))]);
    let sampled = |seed| {
        let sampling = Sampling { temperature: 1.0, seed, ..Sampling::default() };
        let (_, ids, finished) =
            finished(scheduler.submit(Request { sampling, max_tokens: 12, ..request(0) }).unwrap());
        (ids, finished.seed)
    };
    let (ids, seed) = sampled(None);
    assert_eq!(sampled(Some(seed)), (ids.clone(), seed));
    assert_ne!(sampled(Some(seed.wrapping_add(1))).0, ids);
}

#[test]
fn without_anything_to_leave_out_an_aggressive_request_runs_exact_and_says_so() {
    let scheduler = over(vec![says("abc")]);
    let asked = Request { compute: Compute::Aggressive, ..request(0) };
    let (text, _, last) = finished(scheduler.submit(asked.clone()).unwrap());
    assert_eq!((text.as_str(), last.compute, last.skipped), ("abc", Compute::Exact, Skipped::default()));
    // It is one of the exact ones in all it does.
    let exact = Request { compute: Compute::Exact, ..asked };
    assert!(finished(scheduler.submit(exact).unwrap()).2.usage.cached_tokens > 0);
}
