//! Many requests at once: every answer is what the request gets alone from the plainest code, whatever else runs,
//! in whatever order requests come, go and push each other out.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod support;

use std::sync::Arc;

use proptest::prelude::*;
use support::model::text_ids;
use support::scripted::{collect, finished};
use support::world::{World, request};
use zlrs_engine::Drafting;
use zlrs_engine::backend::{Backend, BackendError, Shape};
use zlrs_engine::plan::{ExactPlanner, Plan};
use zlrs_engine::scheduler::{Scheduler, SchedulerOptions};
use zlrs_engine::{Compute, Event, FinishReason, Generation, Priority, Request, Tenant};
use zlrs_kernels::{Isa, Pool};

const BLOCK: usize = 16;

#[derive(Debug, Clone)]
enum Action {
    Submit { prompt: usize, max_tokens: usize, seed: Option<u64>, batch: bool, tenant: u8 },
    Cancel(usize),
    Read(usize),
}

fn action() -> impl Strategy<Value = Action> {
    let submit = (0_usize..16, 1_usize..40, proptest::option::of(0_u64..2), any::<bool>(), 0_u8..2);
    prop_oneof![
        5 => submit.prop_map(|(prompt, max_tokens, seed, batch, tenant)| {
            Action::Submit { prompt, max_tokens, seed, batch, tenant }
        }),
        1 => (0_usize..8).prop_map(Action::Cancel),
        2 => (0_usize..8).prop_map(Action::Read),
    ]
}

/// Memory of so many blocks; the longest request wants 10.
const MEMORIES: [usize; 3] = [10, 21, 200];

#[test]
fn answers_are_those_of_requests_alone() {
    let mut world = World::new();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(400)
    });
    let mut seen = (0, 0, 0);
    let plans = (proptest::collection::vec(action(), 1..24), 0_usize..3, 1_usize..6, 1_usize..70);
    let world = std::cell::RefCell::new(&mut world);
    let totals = std::cell::RefCell::new(&mut seen);
    runner
        .run(&plans, |(actions, memory, running_limit, chunk_rows)| {
            let planner =
                ExactPlanner { chunk_rows: chunk_rows.max(running_limit), chunk_rows_beside_decoding: 11 };
            let options = SchedulerOptions {
                running_limit,
                drafting: if running_limit % 2 == 0 { Drafting::Off } else { Drafting::Always },
                self_drafting: [Drafting::Always, Drafting::Off, Drafting::Auto][running_limit % 3],
                planner: Box::new(planner),
                ..SchedulerOptions::default()
            };
            let scheduler = world.borrow().scheduler(MEMORIES[memory], options);
            let mut open: Vec<(Request, Generation, bool)> = Vec::new();
            let mut done = Vec::new();
            let mut submitted = 0;
            for action in actions {
                match action {
                    Action::Submit { prompt, max_tokens, seed, batch, tenant } => {
                        let priority = if batch { Priority::Batch } else { Priority::Interactive };
                        let tenant = Tenant([tenant; 32]);
                        let request = Request { priority, tenant, ..request(prompt, max_tokens, seed) };
                        let generation = scheduler.submit(request.clone()).unwrap();
                        open.push((request, generation, false));
                        submitted += 1;
                    }
                    Action::Cancel(index) if !open.is_empty() => {
                        let index = index % open.len();
                        open[index].1.cancel();
                        open[index].2 = true;
                    }
                    Action::Read(index) if !open.is_empty() => {
                        let (request, generation, cancelled) = open.swap_remove(index % open.len());
                        done.push((request, collect(generation), cancelled));
                    }
                    Action::Cancel(_) | Action::Read(_) => {}
                }
            }
            done.extend(
                open.into_iter()
                    .map(|(request, generation, cancelled)| (request, collect(generation), cancelled)),
            );
            prop_assert_eq!(done.len(), submitted);
            for (request, (_, ids, last), cancelled) in done {
                let (expected, reason) = world.borrow_mut().alone(&request);
                let Event::Finished(last) = last else { panic!("{last:?}") };
                if cancelled && last.reason == FinishReason::Cancelled {
                    prop_assert_eq!(&ids[..], &expected[..ids.len()]);
                    continue;
                }
                prop_assert_eq!(&ids, &expected);
                prop_assert_eq!(last.reason, reason);
                prop_assert_eq!(last.usage.output_tokens, ids.len());
                prop_assert!(last.usage.cached_tokens < request.ids.len());
            }
            let statistics = scheduler.statistics().unwrap();
            prop_assert_eq!((statistics.kv_blocks_used, statistics.running, statistics.queued), (0, 0, 0));
            prop_assert!(statistics.kv_blocks_peak <= MEMORIES[memory] as u64);
            let mut totals = totals.borrow_mut();
            totals.0 += statistics.pauses;
            totals.1 += statistics.kv_blocks_evicted;
            totals.2 += statistics.tokens_reused;
            Ok(())
        })
        .unwrap();
    // The cases were what they are meant to be.
    assert!(seen.0 > 0 && seen.1 > 0 && seen.2 > 0, "{seen:?}");
}

#[test]
fn a_thousand_cancels_leave_nothing() {
    let world = World::new();
    let scheduler =
        world.scheduler(40, SchedulerOptions { queue_limit: 2000, ..SchedulerOptions::default() });
    let mut kept = Vec::new();
    for index in 0..1000 {
        let generation = scheduler.submit(request(index % 16, 30, None)).unwrap();
        match index % 3 {
            0 => drop(generation),
            1 => {
                generation.cancel();
                kept.push(generation);
            }
            _ => {
                kept.push(generation);
                if kept.len() > 20 {
                    kept.remove(index % 20);
                }
            }
        }
    }
    drop(kept);
    let (_, ids, _) = finished(scheduler.submit(request(3, 5, None)).unwrap());
    assert!(ids.len() <= 5);
    while scheduler.statistics().unwrap().requests != ended(&scheduler) {
        std::thread::yield_now();
    }
    let statistics = scheduler.statistics().unwrap();
    assert_eq!((statistics.kv_blocks_used, statistics.running, statistics.queued), (0, 0, 0));
    scheduler.close();
    let statistics = scheduler.statistics().unwrap();
    assert_eq!((statistics.kv_blocks_used, statistics.kv_blocks_cached), (0, 0));
}

fn ended(scheduler: &Scheduler) -> u64 {
    let statistics = scheduler.statistics().unwrap();
    statistics.finished + statistics.cancelled + statistics.failed
}

#[test]
fn prefixes_are_read_by_the_same_tenant_only_and_counted() {
    let mut world = World::new();
    let scheduler = world.scheduler(200, SchedulerOptions::default());
    let of = |tenant: u8, tail: &[u32]| Request {
        ids: [text_ids(50, 1), tail.to_vec()].concat(),
        max_tokens: 4,
        tenant: Tenant([tenant; 32]),
        ..Request::default()
    };
    let mut prefilled = 0;
    let mut ask = |request: &Request| {
        let (_, ids, last) = finished(scheduler.submit(request.clone()).unwrap());
        assert_eq!(ids, world.alone(request).0);
        let before = std::mem::replace(&mut prefilled, scheduler.statistics().unwrap().tokens_prefilled);
        // What was planned: every token that was not read is computed, once.
        assert_eq!((prefilled - before) as usize, request.ids.len() - last.usage.cached_tokens);
        last.usage.cached_tokens
    };
    assert_eq!(ask(&of(1, &[7, 7, 7])), 0);
    assert_eq!(ask(&of(1, &[7, 7, 7])), 52);
    assert_eq!(ask(&of(1, &[8, 8])), 50);
    assert_eq!(ask(&of(2, &[7, 7, 7])), 0);
    assert_eq!(ask(&of(2, &[7, 7, 9])), 52);
    // A strict prefix of what is known.
    let short =
        Request { ids: text_ids(20, 1), max_tokens: 3, tenant: Tenant([1; 32]), ..Request::default() };
    assert_eq!(ask(&short), 19);
    let one = Request { ids: text_ids(1, 1), ..short };
    assert_eq!(ask(&one), 0);
    assert_eq!(scheduler.statistics().unwrap().tokens_reused, 52 + 50 + 52 + 19);
}

#[test]
fn a_conversation_pays_for_its_new_turn_only() {
    let mut world = World::new();
    let scheduler = world.scheduler(64, SchedulerOptions::default());
    let mut ids = text_ids(30, 4);
    let mut known = 0;
    for turn in 0..6 {
        let request = Request { ids: ids.clone(), max_tokens: 9, ..Request::default() };
        let (_, answer, last) = finished(scheduler.submit(request.clone()).unwrap());
        assert_eq!(answer, world.alone(&request).0);
        assert_eq!(last.usage.cached_tokens, known, "turn {turn}");
        ids.extend(answer);
        // The last token of an answer that was cut short was never a row.
        known = ids.len() - usize::from(last.reason == FinishReason::MaxTokens);
        ids.extend(text_ids(11, 5 + turn));
    }
}

#[test]
fn a_cancelled_prompt_is_not_lost() {
    let world = World::new();
    let options = SchedulerOptions {
        planner: Box::new(ExactPlanner { chunk_rows: BLOCK, ..ExactPlanner::default() }),
        ..SchedulerOptions::default()
    };
    let scheduler = world.scheduler(64, options);
    let long = Request { ids: text_ids(400, 3), max_tokens: 500, ..Request::default() };
    let mut generation = scheduler.submit(long.clone()).unwrap();
    while scheduler.statistics().unwrap().tokens_prefilled < 200 {
        std::thread::yield_now();
    }
    generation.cancel();
    while !generation.is_ended() {
        generation.next_blocking().unwrap();
    }
    let (_, _, last) = finished(scheduler.submit(Request { max_tokens: 1, ..long }).unwrap());
    assert!(last.usage.cached_tokens >= 200, "{:?}", last.usage);
}

#[test]
fn requests_run_together_and_the_interactive_ones_first() {
    let world = World::new();
    let options = SchedulerOptions { running_limit: 4, ..SchedulerOptions::default() };
    let scheduler = world.scheduler(300, options);
    let batch = |index: usize| Request { priority: Priority::Batch, ..request(index, 200, Some(3)) };
    let low: Vec<Generation> = (0..4).map(|index| scheduler.submit(batch(index)).unwrap()).collect();
    let begun = |statistics: zlrs_engine::Statistics| statistics.running + statistics.finished >= 4;
    while !begun(scheduler.statistics().unwrap()) {
        std::thread::yield_now();
    }
    let (_, _, _) = finished(scheduler.submit(request(9, 3, None)).unwrap());
    let statistics = scheduler.statistics().unwrap();
    // It did not wait for any of them: one made way.
    assert!(statistics.pauses >= 1 || statistics.finished > 1, "{statistics:?}");
    for generation in low {
        finished(generation);
    }
    let statistics = scheduler.statistics().unwrap();
    assert!(statistics.steps < statistics.tokens_decoded, "{statistics:?}");
}

#[test]
fn a_pinned_conversation_outlasts_eviction_but_no_request_starves_for_it() {
    let mut world = World::new();
    let scheduler = world.scheduler(20, SchedulerOptions::default());
    let turn = Request { ids: text_ids(60, 4), max_tokens: 10, ..Request::default() };
    let (_, answer, _) = finished(scheduler.submit(turn.clone()).unwrap());
    let ids = [turn.ids, answer].concat();
    let pin = scheduler.pin(Tenant::default(), Compute::Exact, &ids).unwrap();
    assert!(pin.tokens() >= ids.len() - 1);
    assert_eq!(scheduler.statistics().unwrap().kv_blocks_used as usize, pin.tokens().div_ceil(BLOCK));
    for seed in 0..10 {
        let other = Request { ids: text_ids(150, 50 + seed), max_tokens: 5, ..Request::default() };
        let (_, answer, _) = finished(scheduler.submit(other.clone()).unwrap());
        assert_eq!(answer, world.alone(&other).0);
    }
    assert!(scheduler.statistics().unwrap().kv_blocks_evicted > 50);
    let next = Request { ids: [&ids[..], &text_ids(9, 5)].concat(), max_tokens: 8, ..Request::default() };
    let (_, answer, last) = finished(scheduler.submit(next.clone()).unwrap());
    assert_eq!(answer, world.alone(&next).0);
    assert_eq!(last.usage.cached_tokens, pin.tokens());
    assert!(pin.is_held());
    // Another tenant's pin of the same tokens holds nothing.
    assert_eq!(scheduler.pin(Tenant([1; 32]), Compute::Exact, &ids).unwrap().tokens(), 0);
    let huge = Request { ids: text_ids(300, 6), max_tokens: 15, ..Request::default() };
    let (_, answer, _) = finished(scheduler.submit(huge.clone()).unwrap());
    assert_eq!(answer, world.alone(&huge).0);
    assert!(!pin.is_held());
    drop(pin);
    assert_eq!(scheduler.statistics().unwrap().kv_blocks_used, 0);
}

#[test]
fn prompts_that_come_together_compute_their_common_beginning_once() {
    let mut world = World::new();
    let options = SchedulerOptions {
        planner: Box::new(ExactPlanner { chunk_rows: 64, ..ExactPlanner::default() }),
        ..SchedulerOptions::default()
    };
    let scheduler = world.scheduler(200, options);
    // Something that runs while the others come.
    let busy = scheduler.submit(request(3, 30, None)).unwrap();
    let shared = text_ids(160, 21);
    let asked: Vec<Request> = (0..4)
        .map(|index| Request {
            ids: [&shared[..], &text_ids(9, 30 + index)].concat(),
            max_tokens: 6,
            ..Request::default()
        })
        .collect();
    let before = scheduler.statistics().unwrap().tokens_prefilled;
    let open: Vec<Generation> =
        asked.iter().map(|request| scheduler.submit(request.clone()).unwrap()).collect();
    let answers: Vec<_> = open.into_iter().map(finished).collect();
    for (request, (_, ids, _)) in asked.iter().zip(&answers) {
        assert_eq!(*ids, world.alone(request).0);
    }
    finished(busy);
    let computed = scheduler.statistics().unwrap().tokens_prefilled - before;
    // The beginning once, and each tail; the running request may add its own prompt.
    assert!(computed <= 160 + 4 * 9 + 46 + 1, "{computed}");
    assert!(answers.iter().filter(|(_, _, last)| last.usage.cached_tokens >= 160).count() >= 3);
}

/// A backend whose workers panic in one of its steps.
struct Panicking {
    inner: zlrs_engine::cpu::CpuBackend,
    steps_left: usize,
}

impl Backend for Panicking {
    fn shape(&self) -> Shape {
        self.inner.shape()
    }

    fn step(&mut self, plan: &Plan, interrupt: &dyn Fn() -> bool) -> Result<&[f32], BackendError> {
        self.steps_left = self.steps_left.wrapping_sub(1);
        if self.steps_left == 0 {
            let pool = self.inner.pool().unwrap();
            pool.run(&|worker| assert!(worker != 1, "a worker panics")).map_err(BackendError::from)?;
        }
        self.inner.step(plan, interrupt)
    }

    fn pool(&self) -> Option<Arc<Pool>> {
        self.inner.pool()
    }

    fn recover(&mut self) -> Result<(), BackendError> {
        self.inner.recover()
    }
}

#[test]
fn a_panic_in_a_worker_fails_what_ran_and_the_pool_is_made_anew() {
    let mut world = World::new();
    let inner = world.model.backend(Isa::detect(), 2, 64);
    let backend = Panicking { inner, steps_left: 5 };
    let scheduler =
        Scheduler::start(Box::new(backend), world.tokenizer.clone(), SchedulerOptions::default()).unwrap();
    let lost: Vec<_> =
        (0..3).map(|index| scheduler.submit(request(index + 1, 38, Some(1))).unwrap()).collect();
    let mut failed = 0;
    for generation in lost {
        if let Event::Failed(error) = collect(generation).2 {
            assert!(error.to_string().contains("a worker panics"), "{error}");
            assert_eq!(error.catalogue_type(), "engine_failed");
            failed += 1;
        }
    }
    assert!(failed > 0);
    // Everybody after that is answered by the new pool, and what they get is right.
    for prompt in 0..6 {
        let asked = request(prompt, 20, Some(0));
        assert_eq!(finished(scheduler.submit(asked.clone()).unwrap()).1, world.alone(&asked).0);
    }
    let statistics = scheduler.statistics().unwrap();
    assert_eq!((statistics.recoveries, statistics.kv_blocks_used, statistics.failed), (1, 0, failed));
}

#[test]
fn a_seed_gives_the_same_tokens_alone_and_together() {
    let mut world = World::new();
    let scheduler = world.scheduler(300, SchedulerOptions::default());
    let asked = request(6, 30, Some(42));
    let expected = world.alone(&asked).0;
    for _ in 0..5 {
        assert_eq!(finished(scheduler.submit(asked.clone()).unwrap()).1, expected);
    }
    let open: Vec<_> = (0..8)
        .flat_map(|index| [asked.clone(), request(index, 25, Some(index as u64))])
        .map(|request| (request.clone(), scheduler.submit(request).unwrap()))
        .collect();
    for (request, generation) in open {
        let (_, ids, last) = finished(generation);
        assert_eq!(ids, world.alone(&request).0);
        assert_eq!(Some(last.seed), request.sampling.seed);
    }
}
