//! What the model guesses by itself changes no token, and it stops guessing where that does not pay.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use proptest::prelude::*;
use support::model::{Model, assert_same_bits, isas, logits_of, text_ids};
use support::scripted::*;
use zlrs_engine::backend::{Backend, BackendError};
use zlrs_engine::plan::{Layers, Plan, Row};
use zlrs_engine::sampling::Sampling;
use zlrs_engine::scheduler::{Scheduler, SchedulerOptions};
use zlrs_engine::{Compute, Drafting, Event, Request};
use zlrs_kernels::{Isa, TensorType};
use zlrs_model::decoder::Architecture;
use zlrs_model::mask::Mask;
use zlrs_model::synthetic::Types;

fn over(scripts: Vec<Vec<Say>>, wrong_every: Option<usize>, self_drafting: Drafting) -> Scheduler {
    let mut backend = Scripted::new(scripts);
    backend.drafts = wrong_every;
    scheduler(backend, SchedulerOptions { self_drafting, ..SchedulerOptions::default() })
}

fn answer(scheduler: &Scheduler, request: Request) -> (String, Vec<u32>, String) {
    let (text, ids, last) = collect(scheduler.submit(request).unwrap());
    let end = match last {
        Event::Finished(last) => {
            format!("{:?} {:?} {}", last.reason, last.stop_sequence, last.usage.output_tokens)
        }
        Event::Failed(error) => error.to_string(),
        other => panic!("{other:?}"),
    };
    (text, ids, end)
}

#[test]
fn right_guesses_save_steps_and_wrong_ones_cost_no_token() {
    let text: String = (0..90).map(|index| char::from(97 + (index * index % 23) as u8)).collect();
    let asked = Request { max_tokens: 90, ..request(0) };
    let plain = answer(&over(vec![says(&text)], None, Drafting::Always), asked.clone());
    let steps_with = |wrong_every| {
        let scheduler = over(vec![says(&text)], Some(wrong_every), Drafting::Always);
        assert_eq!(answer(&scheduler, asked.clone()), plain);
        scheduler.statistics().unwrap()
    };
    let (right, wrong) = (steps_with(usize::MAX), steps_with(1));
    assert!(right.steps < 25 && right.tokens_accepted > 60, "{right:?}");
    assert!(wrong.steps > 80 && wrong.tokens_drafted > 100, "{wrong:?}");
    assert_eq!((right.tokens_decoded, wrong.tokens_decoded), (90, 90));
}

#[test]
fn off_takes_no_step_of_its_own() {
    let mut backend = Scripted::new(vec![says("some text")]);
    backend.drafts = Some(usize::MAX);
    let steps = Arc::clone(&backend.draft_steps);
    let scheduler = scheduler(backend, SchedulerOptions::default());
    answer(&scheduler, request(0));
    assert_eq!(steps.load(Ordering::SeqCst), 0);
}

#[test]
fn other_guesses_come_first() {
    // All of it repeats, so that there is always something to look up after the first words.
    let text = "ab".repeat(40);
    let mut backend = Scripted::new(vec![says(&text)]);
    backend.drafts = Some(usize::MAX);
    let steps = Arc::clone(&backend.draft_steps);
    let (drafting, self_drafting) = (Drafting::Always, Drafting::Always);
    let options = SchedulerOptions { drafting, self_drafting, ..SchedulerOptions::default() };
    let scheduler = scheduler(backend, options);
    let (got, ..) = answer(&scheduler, Request { max_tokens: 80, ..request(0) });
    assert_eq!(got, text);
    assert!(steps.load(Ordering::SeqCst) <= 8);
}

fn say() -> impl Strategy<Value = Say> {
    prop_oneof![
        14 => (97_u32..100).prop_map(Say::Token),
        1 => Just(Say::Token(CONTROL)),
        1 => Just(Say::Token(0xC3)),
        1 => Just(Say::Token(END)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]
    #[test]
    fn any_guesses_give_the_same_answers(
        scripts in proptest::collection::vec(proptest::collection::vec(say(), 0..60), 1..4),
        wrong_every in 1_usize..9,
        max_tokens in 1_usize..70,
        stop in proptest::option::of("[abc]{1,4}"),
        temperature in prop_oneof![Just(0.0_f32), Just(0.7)],
        repetition_penalty in prop_oneof![Just(1.0_f32), Just(1.4)],
        drafting in prop_oneof![Just(Drafting::Off), Just(Drafting::Auto), Just(Drafting::Always)],
        fails_at in proptest::option::of(0_usize..60),
        blocks in prop_oneof![Just(9_usize), Just(12), Just(40)],
    ) {
        let mut scripts = scripts;
        if let Some(say) = fails_at.and_then(|index| scripts[0].get_mut(index)) {
            *say = Say::NotANumber(5);
        }
        let sampling = Sampling { temperature, repetition_penalty, seed: Some(7), ..Sampling::default() };
        let asked = |script: usize| Request {
            max_tokens, sampling: sampling.clone(), stop: stop.clone().into_iter().collect(), ..request(script as u32)
        };
        let plain = over(scripts.clone(), None, Drafting::Off);
        let expected: Vec<_> = (0..scripts.len()).map(|script| answer(&plain, asked(script))).collect();
        for self_drafting in [Drafting::Auto, Drafting::Always] {
            let mut backend = Scripted::new(scripts.clone());
            backend.drafts = Some(wrong_every);
            backend.shape.blocks = blocks;
            let options = SchedulerOptions { drafting, self_drafting, ..SchedulerOptions::default() };
            let scheduler = scheduler(backend, options);
            std::thread::scope(|scope| {
                let (scheduler, asked) = (&scheduler, &asked);
                let threads: Vec<_> = (0..scripts.len())
                    .map(|script| scope.spawn(move || answer(scheduler, asked(script))))
                    .collect();
                for (thread, expected) in threads.into_iter().zip(&expected) {
                    assert_eq!(&thread.join().unwrap(), expected);
                }
            });
            // From what was computed before, too.
            prop_assert_eq!(&answer(&scheduler, asked(0)), &expected[0]);
            let statistics = scheduler.statistics().unwrap();
            prop_assert_eq!((statistics.kv_blocks_used, statistics.running), (0, 0));
        }
    }
}

fn without_first_mlp(model: &Model) -> Mask {
    let mut mask = Mask::empty(&model.decoder, [0; 32]);
    mask.layers[0].mlp = true;
    mask
}

#[test]
fn draft_steps_are_those_of_the_smaller_model_and_leave_the_full_one_as_it_is() {
    for architecture in Architecture::ALL {
        let model = Model::of(architecture, Types::Mixed);
        let mask = without_first_mlp(&model);
        let ids = text_ids(21, 3);
        let full = model.reference(&ids);
        for isa in isas() {
            let mut smaller = model.backend(isa, 2, 8);
            smaller.ablate(&model.decoder, &mask).unwrap();
            let expected: Vec<Vec<f32>> =
                logits_of(&mut smaller, &ids, 1).iter().map(|row| row[..77].to_vec()).collect();
            let mut backend = model.backend(isa, 2, 8);
            backend.draft_with(&mask, 77).unwrap();
            assert_eq!(backend.draft_vocabulary(), 77);
            let mut plan = Plan::default();
            let mut got = Vec::new();
            for (position, &token) in ids.iter().enumerate() {
                plan.clear();
                plan.layers = Layers::Draft;
                let sequence = plan.add_sequence(&[3, 1]);
                plan.add_row(Row {
                    token,
                    position: position as u32,
                    sequence,
                    wants_logits: true,
                    compute: Compute::Exact,
                });
                got.push(backend.step(&plan, &|| false).unwrap().to_vec());
            }
            assert_same_bits(&expected, &got, &format!("{architecture:?}, {isa:?}, drafts"));
            assert_same_bits(&full, &logits_of(&mut backend, &ids, 7), &format!("{isa:?}, after drafts"));
        }
    }
}

#[test]
fn a_model_without_a_draft_refuses_to_draft() {
    let model = Model::of(Architecture::Llama, Types::One(TensorType::Q8_0));
    let mut backend = model.backend(Isa::detect(), 1, 4);
    assert_eq!(backend.draft_vocabulary(), 0);
    let mut plan = Plan::default();
    plan.layers = Layers::Draft;
    let sequence = plan.add_sequence(&[0]);
    plan.add_row(Row { token: 1, position: 0, sequence, wants_logits: true, compute: Compute::Exact });
    assert!(matches!(backend.step(&plan, &|| false), Err(BackendError::Plan { .. })));
    let mut other = Mask::empty(&model.decoder, [0; 32]);
    other.layers.pop();
    assert!(backend.draft_with(&other, 77).is_err());
}
