//! Whole forward passes with keys and values of 8 and 4 bits: what a row gets does not depend on which rows are
//! computed together, on guesses that are taken back, or on who else has the blocks; f16 stays the processor's bits.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod support;

use std::sync::atomic::Ordering;

use support::model::{Model, Piece, plan};
use support::{Host, Order, Random, assert_bits};
use zlrs_cuda::CudaBackend;
use zlrs_engine::Compute;
use zlrs_engine::backend::{Backend, BackendError};
use zlrs_engine::kv::BlockCopy;
use zlrs_engine::plan::{KvPrecision, Plan, Row};
use zlrs_kernels::TensorType;
use zlrs_model::synthetic::{Settings, Types};

const ROWS: u32 = 36;

fn model() -> Model {
    Model::new(&Settings { layers: 3, types: Types::One(TensorType::Q8_0), ..Settings::default() })
}

fn cuda(model: &Model) -> CudaBackend<Host> {
    model.cuda(Host::new(Order::Shuffled)).unwrap()
}

fn tokens() -> Vec<u32> {
    let mut random = Random(8);
    (0..ROWS).map(|_| (random.next() % 256) as u32).collect()
}

fn rows(table: &[u32], tokens: &[u32], first: u32, precision: KvPrecision) -> Plan {
    let mut plan = Plan::default();
    plan.kv_precision = precision;
    let sequence = plan.add_sequence(table);
    for (offset, &token) in tokens.iter().enumerate() {
        plan.add_row(Row {
            token,
            position: first + offset as u32,
            sequence,
            wants_logits: true,
            compute: Compute::Aggressive,
        });
    }
    plan
}

/// Logits of all rows, computed in pieces of these lengths, the last of them as often as needed.
fn in_pieces(backend: &mut CudaBackend<Host>, precision: KvPrecision, lengths: &[usize]) -> Vec<f32> {
    let (table, tokens) = ([6, 1, 4], tokens());
    let mut logits = Vec::new();
    let mut first = 0;
    let mut lengths = lengths.iter().copied().chain(std::iter::repeat(*lengths.last().unwrap()));
    while first < tokens.len() {
        let piece = &tokens[first..tokens.len().min(first + lengths.next().unwrap())];
        logits.extend(backend.step(&rows(&table, piece, first as u32, precision), &|| false).unwrap());
        first += piece.len();
    }
    logits
}

/// Mean over rows of the divergence of `found` from `reference`, in nats.
fn divergence(reference: &[f32], found: &[f32], vocabulary: usize) -> f64 {
    let logarithms = |row: &[f32]| -> Vec<f64> {
        let total = row.iter().map(|&logit| f64::from(logit).exp()).sum::<f64>().ln();
        row.iter().map(|&logit| f64::from(logit) - total).collect()
    };
    let rows = reference.chunks_exact(vocabulary).zip(found.chunks_exact(vocabulary));
    let of_row = |(reference, found): (&[f32], &[f32])| -> f64 {
        let (p, q) = (logarithms(reference), logarithms(found));
        p.iter().zip(q).map(|(p, q)| p.exp() * (p - q)).sum()
    };
    rows.map(of_row).sum::<f64>() / f64::from(ROWS)
}

/// Logits of all rows at once, which are the same in pieces of any lengths.
fn independent(model: &Model, precision: KvPrecision, pieces: &[&[usize]]) -> Vec<f32> {
    let expected = in_pieces(&mut cuda(model), precision, &[36]);
    for lengths in pieces {
        let found = in_pieces(&mut cuda(model), precision, lengths);
        assert_bits(&found, &expected, &format!("{precision:?} in pieces of {lengths:?}"));
    }
    expected
}

#[test]
fn rows_do_not_depend_on_what_is_computed_with_them() {
    let model = model();
    let vocabulary = cuda(&model).shape().vocabulary;
    let exact = in_pieces(&mut cuda(&model), KvPrecision::F16, &[36]);
    let found = [(KvPrecision::Q8, &[17, 2, 30][..]), (KvPrecision::Q4, &[1])].map(|(precision, lengths)| {
        let found = independent(&model, precision, &[lengths]);
        // The first block is all f16 for its own rows.
        assert_bits(&found[..16 * vocabulary], &exact[..16 * vocabulary], "the first block");
        assert!(found[16 * vocabulary..] != exact[16 * vocabulary..], "{precision:?} changes nothing");
        divergence(&exact, &found, vocabulary)
    });
    assert!(found[0] < found[1] && found[1] < 0.05, "{found:?}");
}

#[test]
#[ignore = "long: run by make conformance"]
fn rows_do_not_depend_on_the_lengths_of_pieces() {
    let model = model();
    for precision in [KvPrecision::Q8, KvPrecision::Q4] {
        independent(&model, precision, &[&[1], &[7], &[15, 2], &[16], &[31, 1]]);
    }
}

#[test]
fn guesses_that_are_taken_back_leave_no_trace() {
    let model = model();
    let (table, tokens) = ([6, 1, 4], tokens());
    let expected = in_pieces(&mut cuda(&model), KvPrecision::Q4, &[36]);
    let mut backend = cuda(&model);
    let vocabulary = backend.shape().vocabulary;
    let mut found = Vec::new();
    let mut first = 0;
    for certain in [13, 2, 9, 8, 4] {
        // The certain tokens, then wrong ones into the next block.
        let mut piece = tokens[first..first + certain].to_vec();
        piece.extend([1, 2, 3, 4, 5]);
        let plan = rows(&table, &piece, first as u32, KvPrecision::Q4);
        found.extend(&backend.step(&plan, &|| false).unwrap()[..certain * vocabulary]);
        first += certain;
    }
    assert_bits(&found, &expected, "with guesses");
}

#[test]
fn what_is_shared_copied_saved_and_mixed_goes_on() {
    let model = model();
    let tokens = tokens();
    let mut backend = cuda(&model);
    let vocabulary = backend.shape().vocabulary;
    let expected = in_pieces(&mut backend, KvPrecision::Q4, &[36]);
    // Another sequence begins with the same two blocks and computes the rest itself.
    let shared = rows(&[6, 1, 9], &tokens[32..], 32, KvPrecision::Q4);
    let found = backend.step(&shared, &|| false).unwrap().to_vec();
    assert_bits(&found, &expected[32 * vocabulary..], "shared blocks");

    // A copy of the sealed second block is written on; the first and the last layers have other bits than the rest.
    let mut forked = rows(&[6, 11], &tokens[20..23], 20, KvPrecision::F16);
    forked.copies_mut().push(BlockCopy { from: 1, to: 11 });
    let forked = backend.step(&forked, &|| false).unwrap().to_vec();
    assert!(forked.iter().all(|logit| logit.is_finite()));
    let close = divergence(&expected[20 * vocabulary..23 * vocabulary], &forked, vocabulary);
    assert!(close < 0.01, "{close}");

    // A saved block is f16: both backends go on from it with the same bits.
    let mut cpu = model.cpu();
    let mut saved = Vec::new();
    for block in [6, 1] {
        saved.clear();
        backend.read_block(block, &mut saved).unwrap();
        cpu.write_block(block, &saved).unwrap();
        backend.write_block(block, &saved).unwrap();
    }
    let more = rows(&[6, 1, 2], &tokens[32..], 32, KvPrecision::F16);
    let of_cpu = cpu.step(&more, &|| false).unwrap().to_vec();
    assert_bits(backend.step(&more, &|| false).unwrap(), &of_cpu, "saved blocks");
    assert!(matches!(
        cpu.step(&rows(&[0], &tokens[..1], 0, KvPrecision::Q8), &|| false),
        Err(BackendError::Plan { .. })
    ));
}

#[test]
fn an_interrupted_step_leaves_every_layer_in_the_same_form() {
    let model = model();
    let (table, tokens) = ([6, 1, 4], tokens());
    let expected = in_pieces(&mut cuda(&model), KvPrecision::Q8, &[33, 3]);
    let mut backend = cuda(&model);
    let vocabulary = backend.shape().vocabulary;
    backend.step(&rows(&table, &tokens[..33], 0, KvPrecision::Q8), &|| false).unwrap();
    let last = rows(&table, &tokens[33..], 33, KvPrecision::Q8);
    let asked = std::cell::Cell::new(0);
    let interrupt = || asked.replace(asked.get() + 1) == 2;
    assert!(matches!(backend.step(&last, &interrupt), Err(BackendError::Interrupted)));
    let found = backend.step(&last, &|| false).unwrap();
    assert_bits(found, &expected[33 * vocabulary..], "after an interrupt");
}

#[test]
fn a_step_that_fails_before_it_began_leaves_every_block_in_its_form() {
    let model = model();
    let (table, tokens) = ([6, 1, 4], tokens());
    let expected = in_pieces(&mut cuda(&model), KvPrecision::Q8, &[33, 3]);
    let host = Host::new(Order::Ascending);
    let lost = host.lost.clone();
    let mut backend = model.cuda(host).unwrap();
    let vocabulary = backend.shape().vocabulary;
    backend.step(&rows(&table, &tokens[..33], 0, KvPrecision::Q8), &|| false).unwrap();
    let last = rows(&table, &tokens[33..], 33, KvPrecision::Q8);
    lost.store(true, Ordering::Relaxed);
    assert!(matches!(backend.step(&last, &|| false), Err(BackendError::Device(_))));
    lost.store(false, Ordering::Relaxed);
    let found = backend.step(&last, &|| false).unwrap();
    assert_bits(found, &expected[33 * vocabulary..], "after a failure");
}

#[test]
fn precisions_of_several_sequences_side_by_side() {
    let model = model();
    let (mut backend, mut cpu) = (cuda(&model), model.cpu());
    backend.step(&rows(&[0, 1, 2], &tokens(), 0, KvPrecision::Q4), &|| false).unwrap();
    // An f16 sequence beside the sealed one has the processor's bits.
    let mut random = Random(4);
    let beside = Piece { blocks: &[5, 6], first: 0, rows: 20, all: true };
    let mut both = plan(&[beside, Piece { blocks: &[0, 1, 2], first: 36, rows: 1, all: true }], &mut random);
    both.kv_precision = KvPrecision::Q4;
    let found = backend.step(&both, &|| false).unwrap().to_vec();
    let mut random = Random(4);
    let alone = plan(&[Piece { blocks: &[5, 6], first: 0, rows: 20, all: true }], &mut random);
    let expected = cpu.step(&alone, &|| false).unwrap();
    assert_bits(&found[..expected.len()], expected, "f16 beside q4");
}
