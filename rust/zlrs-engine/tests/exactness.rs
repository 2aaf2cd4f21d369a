//! The forward pass equals the plainest code bit for bit, however the work is cut.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod support;

use std::cell::Cell;

use support::model::{Model, arena, assert_same_bits, isas, logits_of, plan_step, run, text_ids};
use zlrs_engine::Compute;
use zlrs_engine::backend::{Backend, BackendError};
use zlrs_engine::kv::Sequence;
use zlrs_engine::plan::{ExactPlanner, Plan, Row};
use zlrs_kernels::{Isa, TensorType};
use zlrs_model::decoder::Architecture;
use zlrs_model::synthetic::{Settings, Types};

const TYPES: [TensorType; 10] = [
    TensorType::F32,
    TensorType::F16,
    TensorType::BF16,
    TensorType::Q4_0,
    TensorType::Q4_1,
    TensorType::Q5_0,
    TensorType::Q5K,
    TensorType::Q8_0,
    TensorType::Q4K,
    TensorType::Q6K,
];

/// One and two threads, every instruction set, every chunk.
fn compare(model: &Model, ids: &[u32], chunks: &[usize], what: &str) {
    let expected = model.reference(ids);
    for isa in isas() {
        for threads in [1, 2] {
            // The specification itself is slow: long inputs go through it once.
            let slow = isa == Isa::Naive && ids.len() > 500;
            if slow && threads == 1 {
                continue;
            }
            let chunks = if slow { &chunks[chunks.len() - 1..] } else { chunks };
            let mut backend = model.backend(isa, threads, ids.len().div_ceil(16) + 1);
            for &chunk in chunks {
                let got = logits_of(&mut backend, ids, chunk);
                assert_same_bits(
                    &expected,
                    &got,
                    &format!("{what}, {isa:?}, {threads} threads, chunk {chunk}"),
                );
            }
        }
    }
}

#[test]
fn every_architecture_in_every_chunk() {
    for architecture in Architecture::ALL {
        let model = Model::of(architecture, Types::Mixed);
        compare(&model, &text_ids(80, 5), &[1, 7, 64, 256], architecture.name());
    }
}

#[test]
fn every_tensor_type() {
    for tensor_type in TYPES {
        let model = Model::of(Architecture::Qwen2, Types::One(tensor_type));
        compare(&model, &text_ids(24, 6), &[1, 7, 64], tensor_type.name());
    }
}

#[test]
fn tied_heads_and_rope_factors() {
    let settings = Settings { tied_head: true, rope_frequencies: true, ..Settings::default() };
    let model = Model::new(&settings);
    compare(&model, &text_ids(40, 7), &[7, 64], "tied");
}

#[test]
fn over_several_splits_of_attention() {
    for (architecture, tokens) in [(Architecture::Llama, 1050), (Architecture::Gemma3, 540)] {
        let model = Model::of(architecture, Types::One(TensorType::Q8_0));
        compare(&model, &text_ids(tokens, 8), &[1, 256], architecture.name());
    }
}

#[test]
fn sequences_together_equal_sequences_alone() {
    let model = Model::of(Architecture::Qwen2, Types::Mixed);
    let prompts: Vec<Vec<u32>> = (0..5).map(|seed| text_ids(10 + 13 * seed as usize, seed)).collect();
    for isa in isas() {
        let mut backend = model.backend(isa, 2, 40);
        let arena = arena(&backend);
        // Leave holes, so that blocks of a sequence lie apart.
        let mut held = Vec::new();
        arena.allocate(9, &mut held).unwrap();
        held.retain(|block| block.index() % 2 == 0);
        let mut sequences: Vec<Sequence> =
            prompts.iter().map(|ids| Sequence::new(&arena, ids.clone())).collect();
        let mut together: Vec<&mut Sequence> = sequences.iter_mut().collect();
        let got = run(&mut backend, &mut together, 6);
        for (ids, got) in prompts.iter().zip(&got) {
            assert_same_bits(&model.reference(ids), got, "together");
        }
    }
}

#[test]
fn forks_and_cuts_equal_cold_sequences() {
    let model = Model::of(Architecture::Llama, Types::Mixed);
    let mut backend = model.backend(Isa::detect(), 2, 40);
    let arena = arena(&backend);
    let (prefix, left, right) = (text_ids(40, 1), text_ids(30, 2), text_ids(25, 3));
    let mut trunk = Sequence::new(&arena, prefix.clone());
    run(&mut backend, &mut [&mut trunk], 16);
    let mut fork = trunk.fork();
    for &id in &left {
        trunk.push(id);
    }
    for &id in &right {
        fork.push(id);
    }
    let got = run(&mut backend, &mut [&mut trunk, &mut fork], 9);
    for (tail, got) in [(&left, &got[0]), (&right, &got[1])] {
        let expected = model.reference(&[prefix.clone(), tail.clone()].concat());
        assert_same_bits(&expected[40..], got, "fork");
    }
    // 40 tokens share two whole blocks; the third was copied once.
    assert_eq!(arena.statistics().blocks_used, 70_usize.div_ceil(16) + 65_usize.div_ceil(16) - 2);
    trunk.truncate(21);
    for &id in &right {
        trunk.push(id);
    }
    let got = run(&mut backend, &mut [&mut trunk], 64).remove(0);
    let expected = model.reference(&[prefix[..21].to_vec(), right.clone()].concat());
    assert_same_bits(&expected[21..], &got, "cut");
    drop((trunk, fork));
    assert_eq!(arena.statistics().blocks_used, 0);
}

#[test]
fn only_rows_that_want_logits_get_them() {
    let model = Model::of(Architecture::Qwen2, Types::Mixed);
    let ids = text_ids(50, 4);
    let expected = model.reference(&ids);
    let mut backend = model.backend(Isa::detect(), 1, 8);
    let mut sequence = Sequence::new(&arena(&backend), ids);
    let mut plan = Plan::default();
    let mut planner = ExactPlanner { chunk_rows: 16, ..ExactPlanner::default() };
    for chunk in 0..4 {
        plan.clear();
        plan_step(&mut planner, &mut [&mut sequence], &mut plan);
        let logits = backend.step(&plan, &|| false).unwrap();
        if chunk == 3 {
            assert_same_bits(&expected[49..], &[logits.to_vec()], "last row");
        } else {
            assert_eq!(logits.len(), 0);
        }
        sequence.advance(plan.rows().len());
    }
    assert!(sequence.pending().is_empty());
}

#[test]
fn an_interrupted_step_can_be_taken_again() {
    let model = Model::of(Architecture::Llama, Types::Mixed);
    let ids = text_ids(20, 9);
    let mut backend = model.backend(Isa::detect(), 2, 4);
    let mut sequence = Sequence::new(&arena(&backend), ids.clone());
    let mut plan = Plan::default();
    plan_step(&mut ExactPlanner::default(), &mut [&mut sequence], &mut plan);
    for layer in 0..2 {
        let asked = Cell::new(0);
        let interrupt = || asked.replace(asked.get() + 1) == layer;
        assert!(matches!(backend.step(&plan, &interrupt), Err(BackendError::Interrupted)));
        assert_eq!(asked.get(), layer + 1);
    }
    let logits = backend.step(&plan, &|| false).unwrap().to_vec();
    assert_same_bits(&model.reference(&ids)[19..], &[logits], "after interruptions");
}

#[test]
fn impossible_plans_are_refused() {
    let model = Model::of(Architecture::Llama, Types::One(TensorType::Q8_0));
    let mut backend = model.backend(Isa::detect(), 1, 4);
    let row = Row { token: 1, position: 0, sequence: 0, wants_logits: true, compute: Compute::Exact };
    let wrong = [Row { token: 1 << 20, ..row }, Row { position: 16, ..row }, Row { sequence: 1, ..row }];
    for row in wrong {
        let mut plan = Plan::default();
        plan.add_sequence(&[0]);
        plan.add_row(row);
        assert!(matches!(backend.step(&plan, &|| false), Err(BackendError::Plan { .. })), "{row:?}");
    }
    let mut plan = Plan::default();
    plan.add_sequence(&[4]);
    plan.add_row(row);
    assert!(matches!(backend.step(&plan, &|| false), Err(BackendError::Kernel(_))));
    let mut plan = Plan::default();
    plan.add_sequence(&[0; 17]);
    (0..257).for_each(|position| plan.add_row(Row { position, ..row }));
    assert!(matches!(backend.step(&plan, &|| false), Err(BackendError::Plan { .. })));
    backend.recover().unwrap();
    let ids = text_ids(5, 1);
    assert_same_bits(&model.reference(&ids), &logits_of(&mut backend, &ids, 2), "after recovery");
}
