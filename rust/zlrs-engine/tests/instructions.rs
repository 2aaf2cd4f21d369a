//! A load with a mask runs as many instructions less as it has weights less: counted by callgrind over steps of a
//! synthetic model. Without valgrind the count of multiply-adds alone is checked.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod support;

use std::process::Command;

use support::model::{Model, text_ids};
use zlrs_engine::Compute;
use zlrs_engine::backend::Backend;
use zlrs_engine::cpu::CpuBackend;
use zlrs_engine::plan::{Plan, Row};
use zlrs_engine::{Engine, LoadOptions};
use zlrs_kernels::{Isa, Pool, TensorType};
use zlrs_model::mask::Mask;
use zlrs_model::synthetic::{Settings, Types};
use zlrs_model::weights::Weights;

const TOKENS: usize = 8;
const LAYERS: usize = 4;
const PASSES: u64 = 4;
/// Norms, sums, rotations and the attention over keys are no products with weights, and small here.
const TOLERANCE: f64 = 0.02;

/// What is left out: names for the child process.
const CASES: [(&str, &[usize], &[usize]); 4] = [
    ("an attention block", &[1], &[]),
    ("an MLP", &[], &[2]),
    ("a layer", &[1], &[1]),
    ("two layers", &[0, 3], &[0, 3]),
];

fn settings() -> Settings {
    let types = Types::One(TensorType::Q8_0);
    Settings {
        types,
        layers: LAYERS,
        width: 512,
        mlp_width: 1024,
        heads: 8,
        kv_heads: 4,
        ..Settings::default()
    }
}

fn mask(model: &Model, attention: &[usize], mlp: &[usize]) -> Mask {
    let mut mask = Mask::empty(&model.decoder, [0; 32]);
    for &layer in attention {
        mask.layers[layer].attention = true;
    }
    for &layer in mlp {
        mask.layers[layer].mlp = true;
    }
    mask
}

/// Multiply-adds of a token as the weights of a load have them.
fn weights_of(model: &Model, mask: &Mask) -> usize {
    let decoder = mask.compile(&model.decoder, &model.file).unwrap();
    let of_layer = |layer: &zlrs_model::decoder::Layer| {
        let attention = layer.attention.as_ref();
        attention.map_or(0, |part| 2 * decoder.width * (part.query_width() + part.kv_width()))
            + layer.mlp.as_ref().map_or(0, |part| 3 * decoder.width * part.width)
    };
    decoder.layers.iter().map(of_layer).sum::<usize>() + decoder.vocabulary * decoder.width
}

/// Steps of a load with a mask, as the environment says; run by itself it does nothing.
#[test]
fn child_that_computes() {
    let Ok(case) = std::env::var("ZLRS_TEST_CASE") else { return };
    let passes: usize = std::env::var("ZLRS_TEST_PASSES").unwrap().parse().unwrap();
    let model = Model::new(&settings());
    let (_, attention, mlp) = CASES.iter().find(|(name, ..)| *name == case).unwrap_or(&("", &[], &[]));
    let decoder = mask(&model, attention, mlp).compile(&model.decoder, &model.file).unwrap();
    // Valgrind knows no later instruction set.
    let isa = if Isa::Avx2.is_available() { Isa::Avx2 } else { Isa::Naive };
    let pool = Pool::new(1).unwrap();
    let weights = Weights::load(&decoder, &model.file, isa, &pool, &|_, _| {}).unwrap();
    let mut backend = CpuBackend::new(decoder, weights, isa, pool, TOKENS, 1).unwrap();
    let mut plan = Plan::default();
    let sequence = plan.add_sequence(&[0]);
    for (position, token) in text_ids(TOKENS, 3).into_iter().enumerate() {
        plan.add_row(Row {
            token,
            position: position as u32,
            sequence,
            wants_logits: true,
            compute: Compute::Exact,
        });
    }
    for _ in 0..passes {
        backend.step(&plan, &|| false).unwrap();
    }
}

/// Instructions of one step: what more steps cost beyond one.
fn instructions(case: &str) -> f64 {
    let count = |passes: u64| -> f64 {
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_computes", "--test-threads=1"])
            .envs([("ZLRS_TEST_CASE", case), ("ZLRS_TEST_PASSES", &passes.to_string())])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let line = said.lines().find_map(|line| line.split("Collected : ").nth(1));
        line.and_then(|count| count.trim().parse().ok()).unwrap_or_else(|| panic!("no count in {said}"))
    };
    (count(1 + PASSES) - count(1)) / PASSES as f64
}

#[test]
fn instructions_fall_in_proportion_to_the_weights_left_out() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("skipped: valgrind is not installed, and only it counts instructions");
        return;
    }
    let model = Model::new(&settings());
    let full_weights = weights_of(&model, &mask(&model, &[], &[])) as f64;
    let full = instructions("nothing");
    for (name, attention, mlp) in CASES {
        let expected = 1.0 - weights_of(&model, &mask(&model, attention, mlp)) as f64 / full_weights;
        let saved = 1.0 - instructions(name) / full;
        println!("without {name}: {saved:.4} of the instructions, {expected:.4} of the weights");
        assert!((saved - expected).abs() < TOLERANCE, "{name}: {saved:.4} against {expected:.4}");
    }
}

#[test]
fn facts_count_the_multiply_adds_that_a_load_does() {
    let model = Model::new(&settings());
    let file = model.file.path().to_owned();
    let full = weights_of(&model, &mask(&model, &[], &[]));
    for (name, attention, mlp) in CASES {
        let mut mask = mask(&model, attention, mlp);
        mask.weights_sha256 = zlrs_engine::profile::Meter::load(&file, Some(1), TOKENS)
            .unwrap()
            .empty_mask()
            .unwrap()
            .weights_sha256;
        let options = LoadOptions { threads: Some(1), mask: Some(&mask), ..LoadOptions::default() };
        let engine = Engine::load(&file, &options).unwrap();
        let facts = engine.facts();
        assert_eq!(facts.token_multiply_adds_full, full, "{name}");
        assert_eq!(facts.token_multiply_adds, weights_of(&model, &mask), "{name}");
    }
}
