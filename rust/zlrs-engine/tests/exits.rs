//! Rows that leave early: what the plainest code gives, in every chunk and whatever runs beside them; and requests
//! that ask for it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod support;

use std::sync::Arc;

use support::model::{Model, arena, assert_same_bits, isas, logits_of, run, text_ids};
use support::reference::Reference;
use zlrs_engine::backend::Backend;
use zlrs_engine::cpu::CpuBackend;
use zlrs_engine::exit::{
    CHANGES_LIMIT, ExitHeads, FEATURES, HEAD_WEIGHTS, Head, Probe, SHORTLIST_LIMIT, UNITS,
};
use zlrs_engine::kv::Sequence;
use zlrs_engine::sampling::uniform;
use zlrs_engine::scheduler::{Scheduler, SchedulerOptions};
use zlrs_engine::vocabulary::Vocabulary;
use zlrs_engine::{Compute, Drafting, EngineError, Event, Finished, Generation, Request, Skipped, Tenant};
use zlrs_kernels::Isa;
use zlrs_model::decoder::Architecture;
use zlrs_model::synthetic::{Settings, Types};

const LAYERS: usize = 5;

fn model(architecture: Architecture) -> Model {
    Model::new(&Settings { architecture, types: Types::Mixed, layers: LAYERS, ..Settings::default() })
}

fn with_probes(probes: Vec<Probe>) -> ExitHeads {
    ExitHeads {
        weights_sha256: [0; 32],
        mask_sum: [0; 32],
        calibration_sha256: [0; 32],
        layers: LAYERS,
        vocabulary: 256,
        width: 256,
        shortlist: (0..SHORTLIST_LIMIT as u32).map(|index| index * 17 + 3).collect(),
        probes,
        report: String::new(),
    }
}

/// A head of chance: whether a row is under 0 depends on all that it sees.
fn chance(seed: u64) -> Head {
    let weights: Vec<f32> =
        (0..HEAD_WEIGHTS).map(|index| uniform(seed, index as u64) as f32 * 2.0 - 1.0).collect();
    let mut head = Head::from_weights(&weights).unwrap();
    (head.shift, head.scale) = ([0.0; FEATURES], [0.3; FEATURES]);
    head.hidden_bias = [0.1; UNITS];
    head
}

/// A head that says the same of every row.
fn always(contribution: f32) -> Head {
    Head { output_bias: contribution, ..Head::ZERO }
}

fn probe(layer: usize, head: Head, threshold: f32) -> Probe {
    let shift = (0..256).map(|index| uniform(77, index) as f32 - 0.5).collect();
    Probe { layer, head, shift, threshold: Some(threshold) }
}

fn aggressive(backend: &CpuBackend, ids: &[u32]) -> Sequence {
    Sequence::new(&arena(backend), ids.to_vec()).with_compute(Compute::Aggressive)
}

fn expected(model: &Model, heads: &ExitHeads, ids: &[u32]) -> (Vec<Vec<f32>>, Vec<u16>) {
    let mut reference = Reference::new(&model.decoder, &model.file, ids.len());
    reference.exits = Some((heads.clone(), zlrs_engine::exit::ExitState::default()));
    let logits = ids.iter().map(|&id| reference.next(id)).collect();
    (logits, reference.skipped)
}

/// Heads of chance with which some rows leave and some stay.
fn mixed(model: &Model, ids: &[u32]) -> ExitHeads {
    let mut backend = model.backend(Isa::select().unwrap(), 1, 8);
    for seed in 0..500 {
        let heads = with_probes(vec![probe(2, chance(seed), 0.0), probe(4, chance(seed + 1000), 0.4)]);
        backend.install_exits(Some(heads.clone())).unwrap();
        let mut sequence = aggressive(&backend, ids);
        run(&mut backend, &mut [&mut sequence], ids.len());
        let traces = backend.traces();
        let at = |layers: u16| traces.iter().filter(|trace| trace.skipped_layers == layers).count();
        if at(0) > 20 && at(1) > 2 && at(3) > 2 {
            return heads;
        }
    }
    panic!("no head of chance splits the rows");
}

#[test]
fn rows_leave_as_in_the_plainest_code_in_every_chunk() {
    let ids = text_ids(90, 3);
    for architecture in Architecture::ALL {
        let model = model(architecture);
        let heads = mixed(&model, &ids);
        let (expected, skipped) = expected(&model, &heads, &ids);
        for isa in isas() {
            for (threads, chunk) in [(1, 1), (1, 7), (2, 64), (2, 256)] {
                let mut backend = model.backend(isa, threads, 8);
                backend.install_exits(Some(heads.clone())).unwrap();
                let mut sequence = aggressive(&backend, &ids);
                let got = run(&mut backend, &mut [&mut sequence], chunk).remove(0);
                let what = format!("{}, {isa:?}, chunk {chunk}", architecture.name());
                assert_same_bits(&expected, &got, &what);
                let last = ids.len() - 1 - (ids.len() - 1) / chunk * chunk;
                let traces = backend.traces().iter().map(|trace| trace.skipped_layers).collect::<Vec<_>>();
                assert_eq!(traces, skipped[ids.len() - 1 - last..], "{what}");
            }
        }
    }
}

#[test]
fn exact_rows_beside_aggressive_ones_have_the_logits_they_have_alone() {
    let model = model(Architecture::Qwen2);
    let texts = [text_ids(70, 3), text_ids(55, 4), text_ids(33, 5)];
    let heads = mixed(&model, &texts[0]);
    let isa = *isas().last().unwrap();
    let mut plain = model.backend(isa, 2, 20);
    let exact: Vec<_> = texts.iter().map(|ids| logits_of(&mut plain, ids, 64)).collect();
    let mut backend = model.backend(isa, 2, 20);
    backend.install_exits(Some(heads.clone())).unwrap();
    for chunk in [1, 9, 40] {
        let arena = arena(&backend);
        let mut first = Sequence::new(&arena, texts[0].clone());
        let mut others: Vec<Sequence> = texts
            .iter()
            .map(|ids| Sequence::new(&arena, ids.clone()).with_compute(Compute::Aggressive))
            .collect();
        let mut last = Sequence::new(&arena, texts[2].clone());
        let [one, two, three] = &mut others[..] else { panic!("three") };
        let got = run(&mut backend, &mut [&mut first, one, two, &mut last, three], chunk);
        assert_same_bits(&exact[0], &got[0], "exact, first");
        assert_same_bits(&exact[2], &got[3], "exact, between");
        for (ids, got) in texts.iter().zip([&got[1], &got[2], &got[4]]) {
            assert_same_bits(&expected(&model, &heads, ids).0, got, "aggressive");
        }
    }
}

#[test]
fn heads_that_nobody_passes_change_no_bit() {
    let model = model(Architecture::Llama);
    let ids = text_ids(60, 3);
    let isa = *isas().last().unwrap();
    let mut backend = model.backend(isa, 1, 8);
    let exact = logits_of(&mut backend, &ids, 64);
    let silent = Probe { threshold: None, ..probe(3, always(-1.0), 0.0) };
    for probes in [
        vec![],
        vec![silent.clone()],
        vec![probe(3, always(1.0), 0.0)],
        vec![probe(3, always(f32::NAN), 0.0)],
    ] {
        backend.install_exits(Some(with_probes(probes))).unwrap();
        let mut sequence = aggressive(&backend, &ids);
        assert_same_bits(&exact, &run(&mut backend, &mut [&mut sequence], 64)[0], "nobody leaves");
    }
    backend.install_exits(Some(with_probes(vec![silent]))).unwrap();
    assert!(!backend.can_skip());
}

#[test]
fn recording_sees_every_row_and_lets_nobody_leave() {
    let model = model(Architecture::Qwen3);
    let ids = text_ids(30, 3);
    let mut backend = model.backend(*isas().last().unwrap(), 1, 8);
    let exact = logits_of(&mut backend, &ids, 64);
    let unshifted = |layer| Probe { shift: vec![0.0; 256], ..probe(layer, always(-1.0), 0.0) };
    backend.install_exits(Some(with_probes(vec![unshifted(1), unshifted(4)]))).unwrap();
    backend.record_exits(zlrs_engine::cpu::Record::Choices);
    let mut sequence = aggressive(&backend, &ids);
    assert_same_bits(&exact, &run(&mut backend, &mut [&mut sequence], 64)[0], "recording");
    let samples = backend.take_samples();
    assert_eq!(samples.len(), 60);
    // The first choice of a state is that of a model which ends there.
    let mut cut = Model::new(&Settings {
        architecture: Architecture::Qwen3,
        types: Types::Mixed,
        layers: LAYERS,
        ..Settings::default()
    });
    cut.decoder.layers.truncate(4);
    let expected = cut.reference(&ids);
    for sample in samples.iter().filter(|sample| sample.probe == 1) {
        let logits = &expected[sample.row];
        let first =
            (0..logits.len()).reduce(|best, index| if logits[index] > logits[best] { index } else { best });
        assert_eq!(sample.first_choice as usize, first.unwrap());
    }
}

/// Tokens that are bytes.
struct Bytes([[u8; 1]; 256]);

impl Vocabulary for Bytes {
    fn token_bytes(&self, token: u32) -> &[u8] {
        &self.0[token as usize % 256]
    }

    fn is_end(&self, _token: u32) -> bool {
        false
    }

    fn is_control(&self, _token: u32) -> bool {
        false
    }
}

fn serve(model: &Model, heads: Option<ExitHeads>, drafting: Drafting) -> Scheduler {
    let mut backend = model.backend(Isa::select().unwrap(), 1, 64);
    backend.install_exits(heads).unwrap();
    let bytes = Arc::new(Bytes(std::array::from_fn(|byte| [byte as u8])));
    let options = SchedulerOptions { drafting, ..SchedulerOptions::default() };
    Scheduler::start(Box::new(backend), bytes, options).unwrap()
}

fn ended(mut generation: Generation) -> Result<(Vec<u32>, Finished), EngineError> {
    let mut all = Vec::new();
    loop {
        match generation.next_blocking().unwrap().unwrap() {
            Event::Started { .. } | Event::Token(_) => {}
            Event::Delta { ids, .. } => all.extend(ids),
            Event::Finished(finished) => return Ok((all, finished)),
            Event::Failed(error) => return Err(error),
        }
    }
}

fn request(ids: &[u32], compute: Compute) -> Request {
    Request { ids: ids.to_vec(), max_tokens: 60, compute, ..Request::default() }
}

#[test]
fn a_request_says_what_was_left_out_for_it_and_only_for_it() {
    let model = model(Architecture::Qwen2);
    let ids = text_ids(20, 8);
    let scheduler = serve(&model, Some(with_probes(vec![probe(3, always(-1.0), 0.0)])), Drafting::Off);
    let both = [Compute::Exact, Compute::Aggressive]
        .map(|compute| scheduler.submit(request(&ids, compute)).unwrap());
    let [exact, aggressive] = both.map(|generation| ended(generation).unwrap());
    let plain =
        ended(serve(&model, None, Drafting::Off).submit(request(&ids, Compute::Exact)).unwrap()).unwrap();
    assert_eq!(exact.0, plain.0);
    assert_eq!((exact.1.compute, exact.1.skipped), (Compute::Exact, Skipped::default()));
    // All rows but the first four, the last of the answer not computed.
    let rows = 20 + 60 - 1 - 4;
    assert_eq!(aggressive.1.compute, Compute::Aggressive);
    assert_eq!(aggressive.1.skipped, Skipped { tokens: rows, row_layers: rows * 2, most_layers: 2 });
    // Approximate keys and values are of no use to exact requests.
    let again = ended(scheduler.submit(request(&ids, Compute::Exact)).unwrap()).unwrap();
    assert_eq!(again.0, plain.0);
}

#[test]
fn guesses_change_nothing_about_who_leaves() {
    let model = model(Architecture::Qwen2);
    let ids = text_ids(40, 9);
    let heads = mixed(&model, &text_ids(90, 3));
    let off = ended(
        serve(&model, Some(heads.clone()), Drafting::Off).submit(request(&ids, Compute::Aggressive)).unwrap(),
    );
    let always = ended(
        serve(&model, Some(heads), Drafting::Always).submit(request(&ids, Compute::Aggressive)).unwrap(),
    );
    let (off, always) = (off.unwrap(), always.unwrap());
    assert_eq!((off.0, off.1.skipped), (always.0, always.1.skipped));
    assert!(always.1.usage.drafted_tokens > 0);
}

#[test]
fn exact_state_is_reused_by_aggressive_requests_and_not_the_other_way_round() {
    let model = model(Architecture::Llama);
    let ids = text_ids(40, 9);
    let heads = with_probes(vec![probe(3, always(-1.0), 0.0)]);
    let cached = |first: Compute, second: Compute| {
        let scheduler = serve(&model, Some(heads.clone()), Drafting::Off);
        ended(scheduler.submit(request(&ids, first)).unwrap()).unwrap();
        let pinned = scheduler.pin(Tenant::default(), second, &ids).unwrap().tokens();
        let cached = ended(scheduler.submit(request(&ids, second)).unwrap()).unwrap().1.usage.cached_tokens;
        assert_eq!(pinned > 0, cached > 0);
        cached
    };
    assert_eq!(cached(Compute::Aggressive, Compute::Exact), 0);
    assert_eq!(cached(Compute::Exact, Compute::Aggressive), 39);
    assert_eq!(cached(Compute::Aggressive, Compute::Aggressive), 39);
}

#[test]
fn required_exits_are_there_and_do_not_flap_or_the_request_fails() {
    let model = model(Architecture::Qwen2);
    let ids = text_ids(300, 9);
    let required = |compute| Request { require_exits: true, max_tokens: 5, ..request(&ids, compute) };
    let heads = with_probes(vec![probe(3, always(-1.0), 0.0)]);
    for (heads, compute) in [(None, Compute::Aggressive), (Some(heads.clone()), Compute::Exact)] {
        let error = serve(&model, heads, Drafting::Off).submit(required(compute)).unwrap_err();
        assert_eq!(error.catalogue_type(), "compute_profile_mismatch");
    }
    let scheduler = serve(&model, Some(heads), Drafting::Off);
    assert!(ended(scheduler.submit(required(Compute::Aggressive)).unwrap()).is_ok());

    // Under five times, over once: by the position, whose logarithm is no good for that, so by what is repeated.
    let (heads, ids) = flapping(&model);
    let scheduler = serve(&model, Some(heads), Drafting::Off);
    let asked = Request { ids: ids.clone(), ..required(Compute::Aggressive) };
    let error = ended(scheduler.submit(asked.clone()).unwrap()).unwrap_err();
    assert_eq!(error.catalogue_type(), "exit_head_instability");
    assert!(error.to_string().contains(&CHANGES_LIMIT.to_string()), "{error}");
    // Without insisting it goes on, and nobody leaves any more.
    let lenient = Request { require_exits: false, ..asked };
    let (_, finished) = ended(scheduler.submit(lenient).unwrap()).unwrap();
    assert!((1..ids.len() / 4).contains(&finished.skipped.tokens), "{:?}", finished.skipped);
}

/// Heads, and ids on which rows are under the threshold five times and over it once, again and again: a token that
/// was there before has a match, one that is new has none.
fn flapping(model: &Model) -> (ExitHeads, Vec<u32>) {
    let mut head = Head::ZERO;
    // Above 0 exactly where the match is of no token.
    (head.scale[9], head.hidden[0][9], head.hidden_bias[0], head.output[0]) = (1.0, -1.0, 1.0, 1.0);
    let mut ids: Vec<u32> = vec![1, 2];
    for round in 0..60_u32 {
        ids.extend([1, 2, 1, 2, 1, 10 + round]);
    }
    assert!(model.decoder.vocabulary >= 70);
    (with_probes(vec![probe(3, head, 0.5)]), ids)
}
