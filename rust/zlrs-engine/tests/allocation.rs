//! A warm step allocates nothing.
#![expect(unsafe_code, reason = "counting allocations needs an allocator of its own")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use support::model::{Model, arena, plan_step, text_ids};
use zlrs_engine::backend::Backend;
use zlrs_engine::kv::Sequence;
use zlrs_engine::plan::{ExactPlanner, Plan};
use zlrs_kernels::Isa;
use zlrs_model::decoder::Architecture;
use zlrs_model::synthetic::Types;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call is passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the caller's promises are those the system allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above; the pointer came from the system allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_warm_step_allocates_nothing() {
    for architecture in [Architecture::Qwen2, Architecture::Gemma3] {
        let model = Model::of(architecture, Types::Mixed);
        let mut backend = model.backend(Isa::detect(), 2, 64);
        let arena = arena(&backend);
        let mut plan = Plan::default();
        let mut steps = |length: usize| {
            let mut sequence = Sequence::new(&arena, text_ids(length, 1));
            let mut counts = Vec::new();
            for _ in 0..4 {
                plan.clear();
                plan_step(&mut ExactPlanner::default(), &mut [&mut sequence], &mut plan);
                let before = ALLOCATIONS.load(Ordering::SeqCst);
                backend.step(&plan, &|| false).unwrap();
                counts.push(ALLOCATIONS.load(Ordering::SeqCst) - before);
                sequence.advance(plan.rows().len());
                sequence.push(65);
            }
            counts
        };
        steps(300);
        assert_eq!(steps(300), [0, 0, 0, 0], "{architecture:?}");
    }
}
