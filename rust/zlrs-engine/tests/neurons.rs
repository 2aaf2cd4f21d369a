//! Neurons that count for nothing: what the plainest code gives that computes all and zeroes them, in every chunk and
//! whatever runs beside.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod support;

use std::sync::Arc;

use support::model::{Model, arena, assert_same_bits, isas, logits_of, run, text_ids};
use support::reference::Reference;
use support::scripted::finished;
use zlrs_engine::backend::Backend;
use zlrs_engine::cpu::CpuBackend;
use zlrs_engine::kv::Sequence;
use zlrs_engine::scheduler::{Scheduler, SchedulerOptions};
use zlrs_engine::{Compute, EngineError, Request};
use zlrs_kernels::{Isa, TensorType};
use zlrs_model::decoder::Architecture;
use zlrs_model::synthetic::Types;
use zlrs_model::tokenizer::Tokenizer;

fn expected(model: &Model, thresholds: &[f32], ids: &[u32]) -> Vec<Vec<f32>> {
    let mut reference = Reference::new(&model.decoder, &model.file, ids.len());
    reference.neurons = thresholds.to_vec();
    ids.iter().map(|&id| reference.next(id)).collect()
}

fn aggressive(backend: &CpuBackend, ids: &[u32]) -> Sequence {
    Sequence::new(&arena(backend), ids.to_vec()).with_compute(Compute::Aggressive)
}

/// A small one, one that silences most neurons, none, and one that silences all.
fn thresholds(model: &Model) -> Vec<f32> {
    (0..model.decoder.layers.len()).map(|layer| [0.01, 0.15, -1.0, 1e9][layer % 4]).collect()
}

#[test]
fn every_architecture_and_type_on_every_instruction_set() {
    let of_type = |tensor_type| Model::of(Architecture::Qwen2, Types::One(tensor_type));
    let models = Architecture::ALL.map(|architecture| Model::of(architecture, Types::Mixed)).into_iter();
    let types = [TensorType::Q5_0, TensorType::Q8_0, TensorType::Q4K, TensorType::F16];
    for model in models.chain(types.map(of_type)) {
        let (ids, thresholds) = (text_ids(21, 9), thresholds(&model));
        let (left, full) = (expected(&model, &thresholds, &ids), model.reference(&ids));
        assert_ne!(left, full);
        for isa in isas() {
            for (threads, chunk) in [(1, 1), (2, 7), (2, 64)] {
                let mut backend = model.backend(isa, threads, 8);
                backend.install_neurons(Some(thresholds.clone()));
                let mut sequence = aggressive(&backend, &ids);
                let got = run(&mut backend, &mut [&mut sequence], chunk).remove(0);
                let what = format!("{isa:?}, {threads} threads, chunks of {chunk}");
                assert_same_bits(&left, &got, &what);
                // Exact rows see nothing of it.
                assert_same_bits(&full, &logits_of(&mut backend, &ids, chunk), &what);
            }
        }
    }
}

#[test]
fn rows_of_both_kinds_share_steps() {
    let model = Model::of(Architecture::Llama, Types::Mixed);
    let thresholds = thresholds(&model);
    let ids = [text_ids(30, 1), text_ids(17, 2), text_ids(24, 3)];
    let mut backend = model.backend(Isa::detect(), 2, 12);
    backend.install_neurons(Some(thresholds.clone()));
    let arena = arena(&backend);
    let mut first = Sequence::new(&arena, ids[0].clone()).with_compute(Compute::Aggressive);
    let mut second = Sequence::new(&arena, ids[1].clone());
    let mut third = Sequence::new(&arena, ids[2].clone()).with_compute(Compute::Aggressive);
    let got = run(&mut backend, &mut [&mut first, &mut second, &mut third], 5);
    assert_same_bits(&expected(&model, &thresholds, &ids[0]), &got[0], "first");
    assert_same_bits(&model.reference(&ids[1]), &got[1], "exact");
    assert_same_bits(&expected(&model, &thresholds, &ids[2]), &got[2], "third");
    backend.install_neurons(None);
    let mut sequence = aggressive(&backend, &ids[0]);
    let got = run(&mut backend, &mut [&mut sequence], 5).remove(0);
    assert_same_bits(&model.reference(&ids[0]), &got, "nothing installed");
}

#[test]
fn requests_ask_for_it_and_exits_are_another_matter() {
    let model = Model::of(Architecture::Qwen2, Types::Mixed);
    let tokenizer = Arc::new(Tokenizer::from_metadata(model.file.metadata()).unwrap());
    let mut backend = model.backend(Isa::detect(), 2, 20);
    assert!(!backend.can_skip());
    backend.install_neurons(Some(vec![1e9; model.decoder.layers.len()]));
    assert!(backend.can_skip() && !backend.can_leave());
    let scheduler = Scheduler::start(Box::new(backend), tokenizer, SchedulerOptions::default()).unwrap();
    let asked = |compute| Request { ids: text_ids(9, 4), max_tokens: 12, compute, ..Request::default() };
    let ids = |compute| finished(scheduler.submit(asked(compute)).unwrap()).1;
    // What one kind has computed is of no use to the other.
    let exact = ids(Compute::Exact);
    assert_ne!(ids(Compute::Aggressive), exact);
    assert_eq!(ids(Compute::Exact), exact);
    let insists = Request { require_exits: true, ..asked(Compute::Aggressive) };
    assert!(matches!(scheduler.submit(insists), Err(EngineError::NoExits { .. })));
}
