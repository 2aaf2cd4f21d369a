//! What the engine thread does with memory that others than requests hold.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{Event, Finished, Generation, Request, Scheduler, SchedulerOptions};
use crate::backend::{Backend, BackendError, Shape};
use crate::clock::Clock;
use crate::kv::BLOCK_TOKENS;
use crate::plan::Plan;
use crate::prefix::Tenant;
use crate::vocabulary::Vocabulary;

const SHAPE: Shape =
    Shape { vocabulary: 200, context_tokens: 256, block_bytes: 4, blocks: 12, max_rows: 256 };

/// Answers token 1 for ever.
struct Constant {
    logits: Vec<f32>,
    memory: Vec<[u8; 4]>,
}

impl Backend for Constant {
    fn shape(&self) -> Shape {
        SHAPE
    }

    fn step(&mut self, plan: &Plan, _: &dyn Fn() -> bool) -> Result<&[f32], BackendError> {
        let rows = plan.rows().iter().filter(|row| row.wants_logits).count();
        let mut row = vec![0.0; SHAPE.vocabulary];
        row[1] = 1.0;
        self.logits = row.repeat(rows);
        Ok(&self.logits)
    }

    fn write_block(&mut self, block: u32, bytes: &[u8]) -> Result<(), BackendError> {
        self.memory[block as usize].copy_from_slice(bytes);
        Ok(())
    }

    fn recover(&mut self) -> Result<(), BackendError> {
        Ok(())
    }
}

struct Letters;

impl Vocabulary for Letters {
    fn token_bytes(&self, _: u32) -> &[u8] {
        b"a"
    }

    fn is_end(&self, _: u32) -> bool {
        false
    }

    fn is_control(&self, _: u32) -> bool {
        false
    }
}

/// Stands still, and counts how often it is looked at: at least once in every round of the engine thread.
#[derive(Default)]
struct Looks(AtomicUsize);

impl Clock for Looks {
    fn now(&self) -> Duration {
        self.0.fetch_add(1, Ordering::SeqCst);
        Duration::ZERO
    }
}

fn started() -> (Scheduler, Arc<Looks>) {
    let clock = Arc::new(Looks::default());
    let options = SchedulerOptions { clock: clock.clone(), ..SchedulerOptions::default() };
    let backend = Constant { logits: Vec::new(), memory: vec![[0; 4]; SHAPE.blocks] };
    (Scheduler::start(Box::new(backend), Arc::new(Letters), options).unwrap(), clock)
}

fn request(token: u32, blocks: usize) -> Request {
    Request { ids: vec![token; blocks * BLOCK_TOKENS], max_tokens: 2, ..Request::default() }
}

fn finished(mut generation: Generation) -> Finished {
    loop {
        match generation.next_blocking().unwrap().unwrap() {
            Event::Finished(finished) => return finished,
            Event::Failed(error) => panic!("{error}"),
            _ => {}
        }
    }
}

#[test]
fn a_request_waits_for_memory_that_a_save_has_borrowed() {
    let (scheduler, clock) = started();
    let first = request(7, 7);
    let ids = first.ids.clone();
    finished(scheduler.submit(first).unwrap());
    // As a save holds it.
    let lent = scheduler.known(Tenant::default(), &ids);
    assert_eq!(lent.blocks.len(), 7);
    let generation = scheduler.submit(request(8, 9)).unwrap();
    let begun = |scheduler: &Scheduler| scheduler.statistics().unwrap().running == 1;
    let has_failed = |scheduler: &Scheduler| scheduler.statistics().unwrap().failed > 0;
    while !begun(&scheduler) && !has_failed(&scheduler) {
        std::thread::yield_now();
    }
    let looks = clock.0.load(Ordering::SeqCst);
    while clock.0.load(Ordering::SeqCst) < looks + 50 && !has_failed(&scheduler) {
        std::thread::yield_now();
    }
    assert!(begun(&scheduler), "it waits: {:?}", scheduler.statistics().unwrap());
    drop(lent);
    assert_eq!(finished(generation).usage.output_tokens, 2);
}

#[test]
fn nothing_is_given_up_for_a_state_that_does_not_fit() {
    let (scheduler, _) = started();
    finished(scheduler.submit(request(7, 7)).unwrap());
    let counts = |scheduler: &Scheduler| {
        let statistics = scheduler.statistics().unwrap();
        (statistics.kv_blocks_cached, statistics.kv_blocks_evicted)
    };
    // The prompt and the answer's first token.
    assert_eq!(counts(&scheduler), (8, 0));
    let piece = || vec![1; 4 * SHAPE.block_bytes];
    assert!(scheduler.write_blocks(piece(), 9).unwrap().is_none());
    assert_eq!(counts(&scheduler), (8, 0));
    let blocks = scheduler.write_blocks(piece(), 2).unwrap().unwrap();
    assert_eq!((blocks.len(), counts(&scheduler)), (4, (6, 2)));
    // What others hold cannot be given up either.
    let lent = scheduler.known(Tenant::default(), &request(7, 7).ids);
    assert!(scheduler.write_blocks(piece(), 0).unwrap().is_none());
    assert_eq!(counts(&scheduler).1, 2);
    drop((lent, blocks));
}
