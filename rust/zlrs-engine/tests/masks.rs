//! A model loaded with a mask gives the logits of the full model with the same parts ablated, bit for bit, and has
//! neither weights nor keys and values for them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod support;

use support::model::{Model, assert_same_bits, isas, logits_of, text_ids};
use support::reference::Reference;
use zlrs_engine::Compute;
use zlrs_engine::backend::Backend;
use zlrs_engine::cpu::CpuBackend;
use zlrs_engine::plan::{Plan, Row};
use zlrs_kernels::{Isa, Pool, TensorType};
use zlrs_model::decoder::{Architecture, Decoder};
use zlrs_model::mask::Mask;
use zlrs_model::synthetic::{Settings, Types};
use zlrs_model::weights::Weights;

const TOKENS: usize = 20;

fn backend(model: &Model, decoder: &Decoder, isa: Isa, threads: usize) -> CpuBackend {
    let pool = Pool::new(threads).unwrap();
    let weights = Weights::load(decoder, &model.file, isa, &pool, &|_, _| {}).unwrap();
    CpuBackend::new(decoder.clone(), weights, isa, pool, decoder.context_length, 16).unwrap()
}

/// The naive reference, the full model with parts ablated, and the compiled model, on every instruction set.
fn check(model: &Model, mask: &Mask, what: &str) {
    let ids = text_ids(TOKENS, 7);
    let ablated = mask.ablate(&model.decoder).unwrap();
    let mut reference = Reference::new(&ablated, &model.file, TOKENS);
    let expected: Vec<Vec<f32>> = ids.iter().map(|&id| reference.next(id)).collect();
    let compiled = mask.compile(&model.decoder, &model.file).unwrap();
    for isa in isas() {
        let mut full = backend(model, &model.decoder, isa, 2);
        full.ablate(&model.decoder, mask).unwrap();
        assert_same_bits(&expected, &logits_of(&mut full, &ids, 64), &format!("{what}, {isa:?}, ablated"));
        for (threads, chunk) in [(1, 7), (2, 64)] {
            let mut small = backend(model, &compiled, isa, threads);
            let what = format!("{what}, {isa:?}, compiled, {threads} threads, chunks of {chunk}");
            assert_same_bits(&expected, &logits_of(&mut small, &ids, chunk), &what);
        }
    }
}

fn model(architecture: Architecture, types: Types) -> Model {
    Model::of(architecture, types)
}

fn empty(model: &Model) -> Mask {
    Mask::empty(&model.decoder, [0; 32])
}

fn constant(model: &Model) -> Vec<f32> {
    (0..model.decoder.width).map(|index| (index as f32 - 7.0) / 512.0).collect()
}

#[test]
fn an_empty_mask_changes_nothing() {
    for architecture in Architecture::ALL {
        let model = model(architecture, Types::Mixed);
        assert_eq!(empty(&model).compile(&model.decoder, &model.file).unwrap(), model.decoder);
        assert_eq!(empty(&model).ablate(&model.decoder).unwrap(), model.decoder);
    }
}

#[test]
fn blocks_and_layers_vanish_and_constants_stand_in() {
    for architecture in Architecture::ALL {
        let model = model(architecture, Types::Mixed);
        let last = model.decoder.layers.len() - 1;
        for with_constant in [false, true] {
            let values = with_constant.then(|| constant(&model));
            let mut mask = empty(&model);
            mask.layers[0].mlp = true;
            mask.layers[0].mlp_constant.clone_from(&values);
            check(&model, &mask, &format!("{architecture:?}: an MLP"));
            let mut mask = empty(&model);
            mask.layers[last].attention = true;
            mask.layers[last].attention_constant.clone_from(&values);
            check(&model, &mask, &format!("{architecture:?}: the last attention"));
            let mut mask = empty(&model);
            mask.layers[0].attention = true;
            mask.layers[0].mlp = true;
            mask.layers[0].mlp_constant = values;
            check(&model, &mask, &format!("{architecture:?}: a layer"));
        }
    }
}

#[test]
fn every_choice_of_heads_equals_its_ablation() {
    // Cuts fall on the blocks of the first two; the superblocks of the third hold four heads and cannot be cut.
    for tensor_type in [TensorType::Q5_0, TensorType::F32, TensorType::Q4K] {
        let model = model(Architecture::Qwen2, Types::One(tensor_type));
        let heads = empty(&model).layers[0].heads.len();
        let step = if tensor_type == TensorType::Q4K { 5 } else { 1 };
        for bits in (1..1_usize << heads).step_by(step) {
            let mut mask = empty(&model);
            mask.layers[0].heads = (0..heads).map(|head| bits >> head & 1 == 1).collect();
            check(&model, &mask, &format!("{tensor_type}, heads {bits:b}"));
        }
    }
}

#[test]
fn a_group_takes_its_weights_and_its_keys_and_values_along() {
    let model = model(Architecture::Llama, Types::One(TensorType::Q8_0));
    let part = model.decoder.layers[1].attention.clone().unwrap();
    let group = part.heads / part.kv_heads;
    assert!(part.kv_heads > 1, "the synthetic model has groups");
    let mut mask = empty(&model);
    mask.layers[1].heads[..group].fill(true);
    assert_eq!(mask.layers[1].silent_groups().collect::<Vec<_>>(), [0]);
    let full = backend(&model, &model.decoder, Isa::Naive, 1).shape().block_bytes;
    let compiled = mask.compile(&model.decoder, &model.file).unwrap();
    let left = compiled.layers[1].attention.as_ref().unwrap();
    let pool = Pool::new(1).unwrap();
    let bytes = |decoder: &Decoder| {
        let weights = Weights::load(decoder, &model.file, Isa::Naive, &pool, &|_, _| {}).unwrap();
        weights.layers[1].attention.as_ref().unwrap().bytes()
    };
    if left.cut.as_ref().is_some_and(|cut| cut.silent.is_empty()) {
        assert_eq!((left.heads, left.kv_heads), (part.heads - group, part.kv_heads - 1));
        let expected = bytes(&model.decoder) * (part.kv_heads - 1) / part.kv_heads;
        assert_eq!(bytes(&compiled), expected);
        let kv = backend(&model, &compiled, Isa::Naive, 1).shape().block_bytes;
        assert_eq!(full - kv, part.head_dim * 2 * 2 * 16);
    } else {
        panic!("the group was not cut: {left:?}");
    }
    check(&model, &mask, "a group");
}

#[test]
fn an_emptied_layer_has_neither_weights_nor_keys_and_values() {
    let model = Model::new(&Settings::default());
    let mut mask = empty(&model);
    mask.layers[1].attention = true;
    mask.layers[1].mlp = true;
    let compiled = mask.compile(&model.decoder, &model.file).unwrap();
    let pool = Pool::new(1).unwrap();
    let weights = Weights::load(&compiled, &model.file, Isa::Naive, &pool, &|_, _| {}).unwrap();
    assert!(weights.layers[1].attention.is_none() && weights.layers[1].mlp.is_none());
    let layout = zlrs_engine::cpu::kv_layout(&compiled).unwrap();
    assert_eq!((layout.layers[1].kv_heads, layout.layers[1].head_dim), (0, 0));
}

#[test]
fn a_step_from_a_layer_gives_the_bits_of_the_whole_step() {
    for architecture in Architecture::ALL {
        let model = model(architecture, Types::Mixed);
        let ids = text_ids(TOKENS, 7);
        let mut plan = Plan::default();
        let sequence = plan.add_sequence(&[0, 1]);
        for (position, &token) in ids.iter().enumerate() {
            plan.add_row(Row {
                token,
                position: position as u32,
                sequence,
                wants_logits: position % 3 == 2,
                compute: Compute::Exact,
            });
        }
        let mut mask = empty(&model);
        let last = model.decoder.layers.len() - 1;
        mask.layers[last].mlp = true;
        let mut traced = backend(&model, &model.decoder, Isa::Naive, 2);
        let mut before = Vec::new();
        let whole = traced.step_seen(&plan, &mut |_, hidden| before.push(hidden.to_vec())).unwrap().to_vec();
        assert_eq!(whole, traced.step(&plan, &|| false).unwrap(), "looking changes nothing");
        let mut fresh = backend(&model, &model.decoder, Isa::Naive, 1);
        fresh.ablate(&model.decoder, &mask).unwrap();
        let expected = fresh.step(&plan, &|| false).unwrap().to_vec();
        assert_ne!(expected, whole);
        traced.ablate(&model.decoder, &mask).unwrap();
        for (layer, hidden) in before.iter().enumerate() {
            let logits = traced.step_from(&plan, layer, hidden).unwrap();
            let same = expected.iter().zip(logits).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same && expected.len() == logits.len(), "{architecture:?}, from layer {layer}");
        }
        assert!(traced.step_from(&plan, last + 1, &before[0]).is_err());
        assert!(traced.step_from(&plan, 0, &before[0][1..]).is_err());
    }
}
